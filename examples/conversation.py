"""Two agents and a person in one conversation: each is called in turn, and what it says the others observe.

Look at: `say`, which is all that it takes: `call` one, `observe` by the others. At the end, what the waiter remembers:
the others' words are messages of users, with their names; the cook's thoughts and tool calls are the cook's own.

    python examples/conversation.py             the person's lines are in the script, too
    python examples/conversation.py --terminal  you are the person; Ctrl-D leaves
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/conversation.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

from agentscope_rx import Agent, Msg, ReActAgent, UserAgent, tool
from agentscope_rx.agent.user import Question, TerminalInput
from agentscope_rx.errors import EndOfInputError
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.testing import ScriptedModel, call


@tool
async def pantry() -> str:
    """What there is to cook with."""
    return "rice, peas, lemons"


def cook() -> ReActAgent:
    script = ScriptedModel(
        [ThinkingBlock("What is there?"), call("pantry")],
        "There are rice, peas and lemons: I could make a risotto.",
        "Then it is risotto with peas, and the lemons on the side.",
    )
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    return ReActAgent("Cook", model, "You are the cook. Say what you can make.", tools=[pantry])


def waiter() -> ReActAgent:
    script = ScriptedModel(
        [ThinkingBlock("Lemons are not for everybody."), "A risotto. Ann, would you like the lemons in it?"],
        "One risotto, lemons on the side. Ten minutes!",
    )
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    return ReActAgent("Waiter", model, "You are the waiter. Ask the guest what the cook has left open.")


def ann() -> UserAgent:
    if "--terminal" in sys.argv:
        return UserAgent("Ann", TerminalInput("You: "))
    lines: Iterator[str] = iter(["Hello, what is there for dinner?", "No lemons in it, please."])

    def answer(question: Question) -> str:
        heard = ", ".join(message.name for message in question.messages)
        print(f"  (Ann has heard: {heard or 'nobody yet'})")
        return next(lines)

    return UserAgent("Ann", answer)


async def say(speaker: Agent, *others: Agent) -> Msg:
    """Call one, and let the others observe the reply."""
    reply = await speaker.call()
    for other in others:
        await other.observe(reply)
    if "--terminal" not in sys.argv:
        # (a terminal shows what was said when it is your turn)
        print(f"{reply.name}: {reply.text}")
    return reply


async def main() -> None:
    guest, chef, service = ann(), cook(), waiter()
    await say(guest, chef, service)
    await say(chef, guest, service)
    await say(service, guest, chef)
    await say(guest, chef, service)
    await say(chef, guest, service)
    await say(service, guest, chef)

    print("what the waiter remembers:")
    for message in await service.memory.get():
        # the cook's thoughts and tool calls are the cook's own
        print(f"  {message.role.value:9} {message.name}: {message.text}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except EndOfInputError:
        print("\nAnn has left.")
