"""A debate: two agents argue in a hub, and a moderator decides when it is over.

Look at: `MsgHub([alice, bob, judge])`: what one says the others have heard when its call is over. The verdict is a
structured output (`output=Verdict`), given outside of the hub, so that the debaters do not hear it.

    python examples/debate.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/debate.py
"""

from __future__ import annotations

import asyncio
import os

from pydantic import BaseModel, Field

from agentscope_rx import Msg, MsgHub, ReActAgent
from agentscope_rx.events import HubEvent
from agentscope_rx.models import ChatModel, MultiAgentModel, get_model
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.scripted_model import Turn

TOPIC = (
    "A circle of radius 1 rolls once around a circle of radius 3, on the outside, without slipping. How many times "
    "does it turn around its own centre?"
)
ROUNDS = 3


class Verdict(BaseModel):
    """The moderator's judgement of the debate so far."""

    finished: bool = Field(description="True if the debaters agree on an answer that is right.")
    answer: str = Field(default="", description="The right answer, if it is finished.")


def model(*script: Turn) -> ChatModel:
    """`MultiAgentModel` tells a model who has said what."""
    name = os.environ.get("AGENTSCOPE_RX_MODEL")
    return MultiAgentModel(get_model(name) if name else ScriptedModel(*script))


def debater(name: str, *script: Turn) -> ReActAgent:
    prompt = (
        f"You are {name}, a debater. You discuss this question: {TOPIC} Argue in two sentences. Hold to what you "
        "believe to be true, and change your mind for a good reason only."
    )
    return ReActAgent(name, model(*script), prompt)


ALICE = (
    "Three times: the outer path is 6 pi long, and the small circle's own is 2 pi.",
    "That is the length of the large circle. The centre goes around a circle of radius 4: so it is four.",
)
BOB = (
    "Four times: what counts is the way of the centre, a circle of radius 3 + 1.",
    "I agree with Alice now: 8 pi by 2 pi is four.",
)
JUDGE: tuple[Turn, ...] = (
    call("generate_response", finished=False),
    call("generate_response", finished=True, answer="4"),
)


def show(event: HubEvent) -> None:
    if event.message is not None:
        print(f"{event.message.name} (to {', '.join(event.heard_by)}): {event.message.text}")


async def main() -> None:
    alice, bob = debater("Alice", *ALICE), debater("Bob", *BOB)
    judge = ReActAgent(
        "Judge",
        model(*JUDGE),
        f"You are Judge. Two debaters discuss this question: {TOPIC} You decide whether the debate is over.",
    )
    for number in range(1, ROUNDS + 1):
        async with MsgHub([alice, bob, judge]) as hub:
            hub.events.subscribe(show)
            await alice.call(Msg.user("You hold the affirmative side. Your opinion?", name="Host"))
            await bob.call(Msg.user("You hold the negative side. Do you agree?", name="Host"))
        # nobody else hears the verdict: the hub has been left
        reply = await judge.call(Msg.user("Is the debate over? Give your verdict.", name="Host"), output=Verdict)
        verdict = reply.structured(Verdict)
        print(f"round {number}: {f'over, the answer is {verdict.answer}' if verdict.finished else 'go on'}")
        if verdict.finished:
            break
    print("the judge remembers:", [message.name for message in await judge.memory.get() if message.text])


if __name__ == "__main__":
    asyncio.run(main())
