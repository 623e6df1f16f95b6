"""A magazine: a draft, two critics at once, a decision, and a person who approves in the middle of it.

Look at: `newsroom`, a sequence with a fan-out in it. One critic fails and one is late, and the editor still gets what
the third one says; the approval is given to new objects, as in another process. Below: a condition, a loop, a program
of one's own (`Review`), and an operator that calls an agent with each input of a stream.

    python examples/pipelines.py

The model is scripted, because two of the critics have to fail.
"""

from __future__ import annotations

import asyncio

from agentscope_rx import (
    Approve,
    ConditionalPipeline,
    FanOutPipeline,
    InMemorySession,
    LoopPipeline,
    Msg,
    ReActAgent,
    SequentialPipeline,
    map_agent,
    tool,
)
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.events import PostActingEvent
from agentscope_rx.pipeline import Pipeline, Program, Progress, Step
from agentscope_rx.reactive import from_iterable
from agentscope_rx.testing import HANG, ScriptedModel, call


@tool(requires_approval=True)
async def publish(title: str) -> str:
    """Publish an article."""
    return f"{title!r} is out"


def agent(name: str, *turns: object, **options: object) -> ReActAgent:
    return ReActAgent(name, ScriptedModel(*turns), **options)  # pyright: ignore


def newsroom(*editor: object) -> SequentialPipeline:
    """New objects, as another process has them. The models of the others have been asked when the editor is."""
    critics = FanOutPipeline(
        [agent("Style", "Too long."), agent("Facts", ModelConnectionError("no line")), agent("Law", [HANG])],
        "Critics",
        timeout=0.2,
    )
    writer = agent("Writer", "Tea is a drink.")
    return SequentialPipeline([writer, critics, agent("Editor", *editor, tools=[publish])], "Newsroom")


class Review(Pipeline):
    """A program of one's own: the writer begins, and goes on until the critic has nothing to say."""

    def program(self, progress: Progress) -> Program:
        match progress.rounds:
            case []:
                return Step("Writer")
            case [*_, [result]] if result.member == "Writer":
                return Step("Critic", [result.value])
            case [*_, [draft], [verdict]]:
                return draft.value if verdict.value.text == "Fine." else Step("Writer", [verdict.value])
            case _:
                raise AssertionError(progress)


async def main() -> None:
    print("a sequence with a fan-out in it, whose approval another process gives:")
    session = InMemorySession()
    first = newsroom(call("publish", title="Tea"))
    await first.bind(session, "tea")
    async for event in first.stream("Write about tea."):
        if isinstance(event, PostActingEvent):
            print(f"{'  ' * event.depth}  {event.agent}: {event.tool_use.name} -> {event.result.text!r}")

    second = newsroom("Published: Tea.")
    await second.bind(session, "tea")
    (waiting,) = await second.pending_calls()
    print(f"  waits: {waiting.name}({waiting.input['title']})")
    print(f"  {(await second.call(Approve(waiting))).text}")

    print("a condition and a loop:")
    desk = ConditionalPipeline([(lambda question: "?" in question.text, agent("Help", "It opens at nine."))])
    print(f"  {(await desk.call('When does it open?')).text}")
    counter = LoopPipeline({"add": lambda message: message.text + "!"}, until=lambda reply: reply.text.endswith("!!!"))
    print(f"  {(await counter.call('Hello')).text}")

    print("a program of its own:")
    review = Review("Review", [agent("Writer", "Draft", "Better draft"), agent("Critic", "Too short.", "Fine.")])
    print(f"  {(await review.call('Write.')).text}")

    print("a stream of inputs, two at once:")
    translator = agent("Translator", "uno", "due", "tre")
    async for result in from_iterable(["one", "two", Msg.user("three")]).pipe(map_agent(translator, at_most=2)):
        print(f"  {result.value.text}")


if __name__ == "__main__":
    asyncio.run(main())
