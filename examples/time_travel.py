"""A saved conversation goes back to an earlier moment, takes another way, and branches; nothing of it is lost.

Look at: "after checkpoint 1", twice: the history is a tree. The agent counts its questions in a state of its own, which
goes back with the conversation, because the hook has `state` and `load_state`.

    python examples/time_travel.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/time_travel.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile

from agentscope_rx import ReActAgent
from agentscope_rx.events import PreCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.session import Session, open_session
from agentscope_rx.testing import ScriptedModel


class Questions(Hook):
    """Counts the questions of this conversation. With `state` and `load_state` the count is saved with it."""

    def __init__(self) -> None:
        self.count = 0

    def on_pre_call(self, event: PreCallEvent) -> None:
        self.count += len(event.input)

    def state(self) -> object:
        return self.count

    def load_state(self, value: object, version: int) -> None:
        self.count = value if isinstance(value, int) else 0


def guide(session: Session, *answers: str) -> tuple[ReActAgent, Questions]:
    questions = Questions()
    agent = ReActAgent(
        "Guide",
        os.environ.get("AGENTSCOPE_RX_MODEL") or ScriptedModel(*answers),
        "You plan trips. Answer in one sentence.",
        hooks=[questions],
        session=session,
        session_key="trip",
    )
    return agent, questions


async def show(session: Session, key: str) -> None:
    for point in await session.history(key):
        after = "the beginning" if point.parent is None else f"checkpoint {point.parent}"
        print(f"  {point.id}: {point.messages} messages, after {after}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = open_session(f"{folder}/trips.db")
        agent, questions = guide(session, "Try Rome.", "Fly, it is far.", "Book the aisle.", "Then Oslo, by train.")
        for question in ("Where to?", "How do I get there?", "Which seat?"):
            reply = await agent.call(question)
            print(f"{question} {reply.text}")
        print(f"{questions.count} questions; the history:")
        await show(session, "trip")

        print("back to checkpoint 1:")
        await agent.load(session, "trip", at=1)
        print(f"  {questions.count} question")
        reply = await agent.call("Rather north, and no plane.")
        print(f"  {reply.text}")
        await show(session, "trip")

        print("the first way, as a conversation of its own:")
        await session.fork("trip", at=3, to="trip by air")
        other = ReActAgent("Guide", ScriptedModel([]), session=session, session_key="trip by air")
        await other.pending_calls()  # loads it
        for message in await other.memory.get():
            print(f"  {message.name}: {message.text}")
        await session.close()


if __name__ == "__main__":
    asyncio.run(main())
