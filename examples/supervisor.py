"""A supervisor asks two agents at once, and passes the answer of a third one on, word for word.

Look at: `Delegate(lawyer, sees="conversation")`, so that the lawyer knows of the bridge, and the reasons behind the two
replies: "model_stop", the coordinator's own words, and "return_direct", the lawyer's, for which no further model call
was made.

    python examples/supervisor.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/supervisor.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import ReActAgent
from agentscope_rx.events import PostCallEvent, PreCallEvent
from agentscope_rx.pipeline import Delegate, Supervisor
from agentscope_rx.testing import Delay, ScriptedModel, call


def team() -> Supervisor:
    real = os.environ.get("AGENTSCOPE_RX_MODEL")
    historian = ReActAgent("Historian", real or ScriptedModel([Delay(0.02), "It was built in 1911."]))
    engineer = ReActAgent("Engineer", real or ScriptedModel([Delay(0.01), "It carries 40 tons."]))
    permit = "Trucks over 30 tons need a permit (section 12, paragraph 3)."
    lawyer = ReActAgent("Lawyer", real or ScriptedModel(permit))
    coordinator = ScriptedModel(
        [
            "I ask two at once.",
            call("call_historian", message="When was the bridge built?"),
            call("call_engineer", message="What does it carry?"),
        ],
        "Built in 1911, it carries 40 tons.",
        call("call_lawyer", message="May we cross?"),
        call("forward_answer", agent="Lawyer"),
    )
    members = [historian, engineer, Delegate(lawyer, description="Knows the law.", sees="conversation")]
    return Supervisor("Boss", real or coordinator, members, forward=True)


async def main() -> None:
    boss = team()
    for question in ("Tell me about the bridge.", "May we cross it with 35 tons?"):
        print(f"user: {question}")
        async for event in boss.stream(question):
            inside = len(event.path) > 1
            if isinstance(event, PreCallEvent) and inside:
                print(f"  {event.agent} is asked: {[message.text for message in event.input]}")
            elif isinstance(event, PostCallEvent):
                how = "" if inside else f" ({event.message.generate_reason})"
                print(f"{'  ' if inside else ''}{event.agent}: {event.message.text}{how}")


if __name__ == "__main__":
    asyncio.run(main())
