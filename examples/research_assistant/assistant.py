"""A research assistant: it indexes a folder of documents, and answers with citations that are checked.

Look at: `KnowledgeHook(mode="both")`. Passages for a question are there before the model begins (generic retrieval),
and the model has a tool to look further (agentic retrieval), which it needs for "And in October?". `CitationEvent` says
which numbers of an answer stand for a passage; their places are printed below it.

    python examples/research_assistant/assistant.py                          four questions about the island Skarholm
    python examples/research_assistant/assistant.py --folder ~/notes         your documents and questions, one a line
    python examples/research_assistant/assistant.py --session talk.db "..."  a conversation that goes on another day

Without AGENTSCOPE_RX_MODEL (openai:gpt-5-mini, ollama:qwen3, ...) the rules of quoter.py take the model's place.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from quoter import quoter

from agentscope_rx import ReActAgent
from agentscope_rx.errors import AgentScopeError, InvalidInputError
from agentscope_rx.events import CitationEvent, PostCallEvent, RetrievalEvent
from agentscope_rx.knowledge import Indexer, KnowledgeBase, KnowledgeHook
from agentscope_rx.messages import Citation

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
DOCUMENTS = Path(__file__).parent / "documents"
QUESTIONS = [
    "When was the lighthouse built?",
    "When is the tower open in summer, from May to September?",
    "And in October?",
    "Who was the mayor of Skarholm in 1911?",
]
PROMPT = (
    "You answer questions about the user's documents. Look further with retrieve_knowledge if the passages that you "
    "have do not say it, and say so if you do not find it. Answer in one or two sentences."
)


async def index(folder: Path, base: KnowledgeBase) -> None:
    """Read what is new or has changed, and tell how far it is. `InvalidInputError` if there is no document."""
    told = 0
    async for progress in Indexer(base).folder(folder):
        if progress.phase == "indexing" and progress.done > told:
            told = progress.done
            print(f"  {told} of {progress.found - progress.unchanged} documents, {progress.chunks} passages ...")
        if progress.phase == "done":
            print(f"  read: {progress.done}, unchanged: {progress.unchanged}, removed: {progress.removed}")
            for error in progress.errors:
                print(f"  {error}")
            if not progress.done + progress.unchanged:
                raise InvalidInputError(f"{folder} has no document that can be read.")


async def ask(agent: ReActAgent, question: str) -> None:
    """One question: what is searched for, the answer, and the passages that it rests on."""
    print(f"\n? {question}")
    cited: tuple[Citation, ...] = ()
    async for event in agent.stream(question):
        if isinstance(event, RetrievalEvent):
            how = "the model looks for" if event.call_id else "found for"
            places = sorted({each.document for each in event.passages})
            print(f"  ({how} {' | '.join(event.queries)!r}: {', '.join(places) or event.error_text or 'nothing'})")
        elif isinstance(event, CitationEvent):
            cited = event.citations
            for number in event.unknown:
                print(f"  (careful: [{number}] stands for no passage)")
        elif isinstance(event, PostCallEvent):
            print(f"  {event.message.text}")
    for each in cited:
        print(f"    [{each.number}] {' > '.join([each.document, *each.headings])}")


def asked() -> Iterable[str]:
    """Questions of a person, until the end of the input."""
    while True:
        try:
            yield input("\nQuestion (Ctrl-D ends): ")
        except EOFError:
            return


def research(folder: Path, store: Path, session: str | None, questions: Iterable[str]) -> None:
    base = KnowledgeBase(store, name=folder.resolve().name)
    # a model writes better queries from a conversation than its last question is; the rules do not
    knowledge = KnowledgeHook(base, mode="both", limit=3, rewrite=MODEL is not None)
    key = "research" if session else None
    agent = ReActAgent("Librarian", MODEL or quoter(), PROMPT, hooks=[knowledge], session=session, session_key=key)
    # a person types while no loop runs: there Ctrl-C is an ordinary KeyboardInterrupt
    with asyncio.Runner() as runner:
        print(f"indexing {base.name}:")
        runner.run(index(folder, base))
        for question in questions:
            runner.run(ask(agent, question))


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers questions about a folder, with citations.")
    parser.add_argument("questions", nargs="*", help="without any: those of the example, or yours, line by line")
    parser.add_argument("--folder", type=Path, default=DOCUMENTS, help="the documents: text, Markdown, HTML, PDF, ...")
    parser.add_argument("--session", help="a file that keeps the conversation, such as talk.db")
    flags = parser.parse_args()
    questions = flags.questions or (QUESTIONS if flags.folder == DOCUMENTS else asked())
    if not flags.folder.is_dir():
        sys.exit(f"{flags.folder} is no folder.")
    with tempfile.TemporaryDirectory() as scratch:
        # the index of your folder stays in it, so that the next start reads only what has changed
        hidden = flags.folder / ".agentscope"
        place = Path(scratch) if flags.folder == DOCUMENTS else hidden
        place.mkdir(exist_ok=True)
        research(flags.folder, place / "knowledge.db", flags.session, questions)


if __name__ == "__main__":
    try:
        main()
    except AgentScopeError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        # the conversation is saved up to the last answer
        sys.exit("\nstopped")
