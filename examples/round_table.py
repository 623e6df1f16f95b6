"""A round table: guests come and go, one of them a person, and each hears what is said while at the table.

Look at: the names behind "->", those who hear a line, and at the end who remembers what. Ann comes late and is told
what was said (`history=True`), Mona hears only what comes; two that speak at once are heard by all in one order.

    python examples/round_table.py                        the person's lines are in the script, too
    python examples/round_table.py --terminal             you are the person
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/round_table.py
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

from agentscope_rx import Agent, Msg, MsgHub, ReActAgent, UserAgent
from agentscope_rx.agent.user import Question, TerminalInput
from agentscope_rx.events import HubEvent
from agentscope_rx.models import MultiAgentModel, get_model
from agentscope_rx.testing import ScriptedModel

TOPIC = "Our village gets a new square. What should be on it?"


def guest(name: str, work: str, *lines: str) -> ReActAgent:
    model = os.environ.get("AGENTSCOPE_RX_MODEL")
    inner = get_model(model) if model else ScriptedModel(*lines)
    prompt = (
        f"You are {name}, the {work} of a village, at a round table. Speak from your work, in two sentences at most."
    )
    return ReActAgent(name, MultiAgentModel(inner), prompt)


def person(name: str) -> UserAgent:
    if "--terminal" in sys.argv:
        return UserAgent(name, TerminalInput("You: "))
    lines: Iterator[str] = iter(["I agree with the oven. And who waters the lime tree?", "Then I am content."])

    def answer(question: Question) -> str:
        print(f"  ({name} reads {len(question.messages)} messages)")
        return next(lines)

    return UserAgent(name, answer)


def show(event: HubEvent) -> None:
    if event.change in ("joined", "left"):
        print(f"  [{event.member} has {event.change}]")
    elif event.message is not None:
        print(f"{event.message.name}: {event.message.text}  -> {', '.join(event.heard_by)}")


async def main() -> None:
    baker = guest("Bella", "baker", "An oven for all, of stone.", "On Saturdays, before sunrise.")
    gardener = guest("Gaston", "gardener", "A lime tree, and a bench around it.", "I do, but I must go now.")
    mason = guest("Mona", "mason", "I can build the oven with what is left of the bridge.")
    ann = person("Ann")
    table = MsgHub([baker, gardener], Msg.user(TOPIC, name="Host"), name="table")
    table.events.subscribe(show)
    async with table:
        await baker.call()
        await gardener.call()
        # she comes late, and is told what was said so far
        await table.add(ann, history=True)
        await ann.call()
        await gardener.call()
        table.delete(gardener)
        # she comes late, too, and hears only what is said from now on
        table.add(mason)
        await table.broadcast(Msg.user("Mona, could you build an oven?", name="Host"))
        # two at once: all hear them in one order
        await asyncio.gather(*(each.call() for each in (mason, baker)))
        await ann.call()
    for agent in (baker, gardener, mason, ann):
        print(f"{agent.name} remembers: {await speakers(agent)}")


async def speakers(agent: Agent) -> str:
    return " ".join(message.name for message in await agent.memory.get())


if __name__ == "__main__":
    asyncio.run(main())
