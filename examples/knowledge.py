"""An agent that answers from documents, and cites them: passages for each question, a tool to look further, checks.

Look at: `KnowledgeHook(base, mode="both")`, and the number [99], which the model has made up: citations are compared
with what was retrieved. The search is real: an SQLite file, words and an embedding model in this process.
(`research_assistant/` is the same over a folder of yours.)

    python examples/knowledge.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/knowledge.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from agentscope_rx import ReActAgent
from agentscope_rx.events import CitationEvent, PostCallEvent, RetrievalEvent
from agentscope_rx.knowledge import Indexer, KnowledgeBase, KnowledgeHook
from agentscope_rx.testing import ScriptedModel, call

DOCUMENTS = {
    "leave.md": "# Leave\n\n## Annual leave\n\nYou have 30 days of annual leave.\n\n## Sick leave\n\nCall at nine.",
    "travel.md": "# Travel\n\nTrains are booked in second class. Flights under 600 km are not paid for.",
    "office.md": "# Office\n\nThe office opens at seven. Bikes are parked in the yard.",
}

SCRIPT = ScriptedModel(
    "You have 30 days of annual leave [1].",
    # the passage for the question is not enough: the model looks further
    call("retrieve_knowledge", query="parking a bike", limit=1),
    "Book second class [2], and park your bike in the yard [3]. You have 30 days of leave for it [1], says [99].",
)


async def ask(agent: ReActAgent, question: str) -> None:
    """One call, with what was found and cited."""
    print(f"user: {question}")
    async for event in agent.stream(question):
        if isinstance(event, RetrievalEvent):
            how = "the tool" if event.call_id else "the hook"
            print(f"  {how} found {', '.join(f'[{each.number}] {each.document}' for each in event.passages)}")
        elif isinstance(event, CitationEvent):
            places = (f"[{each.number}] {each.document}, {' > '.join(each.headings)}" for each in event.citations)
            print(f"  cited: {', '.join(places)}; not retrieved: {list(event.unknown)}")
        elif isinstance(event, PostCallEvent):
            print(f"  Friday: {event.message.text}")


async def main() -> None:
    """Index three documents, then ask two questions in one conversation: the numbers go on."""
    with tempfile.TemporaryDirectory() as folder:
        base = KnowledgeBase(Path(folder) / "handbook.db", name="handbook", description="The rules of the company.")
        await Indexer(base).add(DOCUMENTS)
        hook = KnowledgeHook(base, mode="both", limit=1)
        agent = ReActAgent("Friday", os.environ.get("AGENTSCOPE_RX_MODEL") or SCRIPT, "You are helpful.", hooks=[hook])
        await ask(agent, "How many days of annual leave do I get?")
        await ask(agent, "In which class do I book a train, and where do I park?")


if __name__ == "__main__":
    asyncio.run(main())
