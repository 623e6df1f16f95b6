"""A conversation of 2,000 turns in a database: the agent goes on in another process, and reads only what it needs.

Look at: three numbers: 4,003 messages are stored, 23 are in the process (`window=20`, and what is new), 5 are sent
(`memory_window=100` tokens). What was said long ago becomes a summary for requests; the messages stay.

    python examples/long_conversation.py     (it needs the extra `sql`)
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/long_conversation.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.memory import SqlMemory, sent
from agentscope_rx.messages import HIDDEN
from agentscope_rx.testing import ScriptedModel


async def main(folder: Path) -> None:
    url = f"sqlite:///{folder}/conversations.db"
    old = SqlMemory(url, "ann")
    turns = ((Msg.user(f"Question {n}?", "Ann"), Msg.assistant(f"Answer {n}.", "Friday")) for n in range(2_000))
    await old.add([message for turn in turns for message in turn])

    # another process: the memory reads its window at the first use
    memory = SqlMemory(url, "ann", window=20)
    script = ScriptedModel("Yes: since question 0.")
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    agent = ReActAgent("Friday", model, memory=memory, memory_window=100)
    await agent.call([Msg.user("(a note for the operator)").marked(HIDDEN), Msg.user("Do we know each other?", "Ann")])
    print(f"stored: {await memory.count()} messages")
    print(f"in the process: {len(await memory.get())}")
    if script.requests:
        asked = script.requests[0].messages
        print(f"sent: {len(asked)}, the last of them {asked[-1].text!r}")

    # what was said long ago becomes a summary; the messages stay
    first = [message.id async for message in memory.read()][:3_990]
    await memory.compress(first, "Ann asked 1,995 questions, and Friday answered them.")
    print(f"a request begins with: {sent(await memory.get())[0].text!r}")
    print(f"stored: {await memory.count()} messages")
    await memory.close()
    await old.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
