"""An agent that remembers a user across conversations: notes for each call, corrections, and whose facts they are.

Look at: "notes", what a new agent is told of Ann before her question, and the two versions of one fact: "Bern" has
superseded "Oslo", and both can be looked up. Bob's agent is told nothing of Ann. A second model distils the facts.

    python examples/long_term_memory.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/long_term_memory.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from agentscope_rx import GracefulShutdown, ReActAgent, RuntimeContext
from agentscope_rx.long_term_memory import MemoryScope, SqliteLongTermMemory, StaticLongTermMemory
from agentscope_rx.models import get_model
from agentscope_rx.testing import ScriptedModel, call

ANN, BOB = RuntimeContext(user_id="ann"), RuntimeContext(user_id="bob")

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
DISTILLING = ScriptedModel(
    # the first call: one fact, and nothing that it could contradict
    call("store_facts", facts=[{"subject": "home city", "text": "Ann lives in Oslo."}]),
    # the second call: a fact, then what it means for the known one
    call("store_facts", facts=[{"subject": "home city", "text": "Ann lives in Bern."}]),
    call("update_memory", operations=[{"fact": 1, "action": "update", "id": "k1"}]),
    # questions hold no facts
    call("store_facts", facts=[]),
    call("store_facts", facts=[]),
)


async def converse(notes: SqliteLongTermMemory, text: str, context: RuntimeContext, reply: str) -> None:
    """One conversation, with an agent of its own: nothing but the long-term memory connects them."""
    script = ScriptedModel(reply)
    shutdown = GracefulShutdown()
    recorder = StaticLongTermMemory(notes, record="background")
    agent = ReActAgent("Friday", MODEL or script, "You are helpful.", hooks=[recorder], shutdown=shutdown)
    answer = await agent.call(text, context=context)
    # the call has not waited for the record; the shutdown does
    await shutdown.begin()
    print(f"{context.user_id}: {text}")
    if script.requests:
        second = script.requests[0].messages[1].text.splitlines()
        print(f"  notes: {[line[2:].partition(' (noted')[0] for line in second if line.startswith('- ')]}")
    print(f"  Friday: {answer.text}")


async def main() -> None:
    """Four conversations, and a look at what is remembered."""
    with tempfile.TemporaryDirectory() as folder:
        notes = SqliteLongTermMemory(Path(folder) / "notes.db", model=get_model(MODEL) if MODEL else DISTILLING)
        await converse(notes, "I live in Oslo.", ANN, "A fine city.")
        await converse(notes, "I have moved from Oslo to Bern.", ANN, "I hope you like it there.")
        await converse(notes, "In which city do I live?", ANN, "In Bern.")
        await converse(notes, "In which city do I live?", BOB, "I do not know.")
        for fact in await notes.facts(MemoryScope(user="ann")):
            for version in await notes.history(fact.id):
                print(f"version {version.version}: {version.text} {version.reason or 'holds'}")
            print(f"forgotten: {await notes.forget(fact.id)}, left: {await notes.facts(MemoryScope(user='ann'))}")


if __name__ == "__main__":
    asyncio.run(main())
