"""The ready pipelines: what they give, in which order, and what a failure means."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, FanOutError, InvalidInputError, StepError
from agentscope_rx.events import PostCallEvent, ReasoningChunkEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.pipeline import (
    ConditionalPipeline,
    FanOutPipeline,
    FunctionAgent,
    LoopPipeline,
    MapPipeline,
    SequentialPipeline,
    StepResult,
    compose,
    fanout_pipeline,
    sequential_pipeline,
)
from agentscope_rx.reactive import just
from agentscope_rx.testing import HANG, run_virtual
from tests.pipeline.parts import assert_whole, echo, remembered, says


def test_each_member_gets_the_reply_before_it():
    async def main() -> None:
        pipeline = SequentialPipeline([echo("a"), echo("b"), echo("c")])
        reply = await pipeline.call("x")
        assert reply.text == "c(b(a(x)))"
        assert (reply.name, reply.metadata["member"]) == ("sequential", "c")
        assert (await sequential_pipeline([echo("a"), echo("b")], "x")).text == "b(a(x))"
        assert (await compose(echo("a"), echo("b")).call("x")).text == "b(a(x))"
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


@pytest.mark.spec("case 153")
def test_a_pipeline_without_members_is_the_identity():
    async def main() -> None:
        pipeline = SequentialPipeline([])
        assert (await pipeline.call("x")).text == "x"
        assert (await pipeline.call([Msg.user("x"), Msg.user("y")])).text == "y"
        assert (await FanOutPipeline([]).call("x")).text == ""
        assert await fanout_pipeline([], "x") == ()

    run_virtual(main())


@pytest.mark.spec("W76")
def test_without_input_the_members_are_called():
    async def main() -> None:
        agent = says("a", "I begin.", "Again.")
        assert (await SequentialPipeline([agent]).call()).text == "I begin."
        assert (await fanout_pipeline([agent]))[0].value.text == "Again."
        assert (await SequentialPipeline([]).call()).text == ""

    run_virtual(main())


@pytest.mark.spec("case 153")
def test_the_first_error_propagates_with_its_step():
    async def main() -> None:
        last = echo("c")
        pipeline = SequentialPipeline([echo("a"), says("b", ValueError("broken")), last])
        with pytest.raises(StepError) as failed:
            await pipeline.call("x")
        error = failed.value
        assert (error.pipeline, error.member, error.number, error.kind) == ("sequential", "b", 2, "failed")
        assert error.error_type == "ValueError" and isinstance(error.__cause__, ValueError)
        assert "'b' failed in step 2: ValueError: broken" in str(error)
        assert remembered(last) == []
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


def five(done: list[str]) -> list[ReActAgent]:
    """Members that end in another order than theirs; one fails, one hangs."""
    return [
        echo("slow", wait=3),
        says("broken", ValueError("no")),
        says("stuck", [HANG]),
        echo("quick", wait=1),
        echo("last", wait=2),
    ]


@pytest.mark.spec("W76")
@pytest.mark.spec("case 154")
@pytest.mark.parametrize("at_most", [None, 1, 2])
def test_a_fan_out_keeps_order_and_successes(at_most: int | None):
    async def main() -> None:
        pipeline = FanOutPipeline(five([]), at_most=at_most, timeout=10)
        assert (await pipeline.call("x")).text.split("\n\n") == [
            "## slow",
            "slow(x)",
            "## broken",
            "(failed: ValueError: no)",
            "## stuck",
            "(timeout: Member 'stuck' did not finish within 10 s)",
            "## quick",
            "quick(x)",
            "## last",
            "last(x)",
        ]
        begun = asyncio.get_running_loop().time()
        outcomes = await fanout_pipeline(five([]), "x", at_most=at_most, timeout=10)
        took = asyncio.get_running_loop().time() - begun
        assert took == {None: 10, 1: 16, 2: 13}[at_most] or at_most == 2
        assert [each.member for each in outcomes] == ["slow", "broken", "stuck", "quick", "last"]
        assert [each.ok for each in outcomes] == [True, False, False, True, True]
        assert [each.elapsed for each in outcomes] == [3, 0, 10, 1, 2]
        assert isinstance(outcomes[1].error, StepError) and isinstance(outcomes[1].error.__cause__, ValueError)
        assert outcomes[2].error is not None and outcomes[2].error.kind == "timeout"
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


@pytest.mark.spec("case 154")
def test_all_failures_are_raised_together_with_the_successes():
    async def main() -> None:
        members = [says("a", ValueError("one")), echo("b"), says("c", KeyError("two"))]
        with pytest.raises(FanOutError) as failed:
            await FanOutPipeline(members, on_error="raise").call("x")
        assert [error.member for error in failed.value.errors] == ["a", "c"]
        assert "2 of 3 members failed: a: ValueError: one; c: KeyError" in str(failed.value)
        replies = [each.reply and each.reply.text for each in failed.value.outcomes if isinstance(each, StepResult)]
        assert replies == [None, "b(x)", None]
        with pytest.raises(FanOutError, match="1 of 1 members failed"):
            await fanout_pipeline([says("a", ValueError("one"))], "x", on_error="raise")

    run_virtual(main())


@pytest.mark.spec("case 155")
def test_a_fan_out_streams_its_members_at_once():
    async def main() -> None:
        pipeline = FanOutPipeline([echo("a", wait=2), says("b", ValueError("no")), echo("c", wait=1)])
        events = [event async for event in pipeline.stream("x")]
        said = [(event.agent, event.text) for event in events if isinstance(event, ReasoningChunkEvent) and event.text]
        assert said == [("c", "c(x"), ("c", ")"), ("a", "a(x"), ("a", ")")]
        paths = {event.agent: event.path for event in events if event.agent in ("a", "c")}
        assert all(len(path) == 3 and path[0] == events[0].run_id for path in paths.values())
        assert [event.seq for event in events] == list(range(len(events)))
        last = events[-1]
        assert isinstance(last, PostCallEvent) and "(failed: ValueError: no)" in last.message.text

    run_virtual(main())


def test_a_combine_makes_the_reply():
    async def main() -> None:
        pipeline = FanOutPipeline([echo("a"), echo("b")], combine=lambda found: " + ".join(r.value.text for r in found))
        assert (await pipeline.call("x")).text == "a(x) + b(x)"
        assert (await SequentialPipeline([pipeline, echo("c")]).call("y")).text == "c(a(y) + b(y))"

    run_virtual(main())


def test_a_condition_chooses_one_member():
    async def slowly(message: Msg) -> bool:
        await asyncio.sleep(1)
        return message.text == "b"

    async def main() -> None:
        pipeline = ConditionalPipeline(
            [(lambda m: m.text == "a", echo("A")), (slowly, echo("B")), (lambda m: just(m.text == "c"), echo("C"))],
            echo("D"),
        )
        assert [(await pipeline.call(text)).text for text in "abcd"] == ["A(a)", "B(b)", "C(c)", "D(d)"]
        assert (await ConditionalPipeline([(lambda m: False, echo("A"))]).call("x")).text == "x"
        with pytest.raises(InvalidInputError, match="must give True or False, not 'yes'"):
            await ConditionalPipeline([(lambda m: "yes", echo("A"))]).call("x")  # pyright: ignore

    run_virtual(main())


def test_a_loop_ends_when_it_is_done_or_after_its_rounds():
    async def main() -> None:
        loop = LoopPipeline(echo("a"), until=lambda reply: reply.text.count("a") == 3)
        assert (await loop.call("x")).text == "a(a(a(x)))"
        reply = await LoopPipeline([echo("a"), echo("b")], max_rounds=2).call("x")
        assert (reply.text, reply.generate_reason) == ("b(a(b(a(x))))", GenerateReason.MAX_ITERATIONS)
        with pytest.raises(StepError, match="in step 2"):
            await LoopPipeline(says("a", "fine", ValueError("no"))).call("x")
        with pytest.raises(InvalidInputError, match="until must give True or False"):
            await LoopPipeline(echo("a"), until=lambda reply: reply.text).call("x")  # pyright: ignore

    run_virtual(main())


def test_a_map_gives_each_message_a_conversation():
    async def main() -> None:
        agent = echo("a", wait=1)
        pipeline = MapPipeline(agent, at_most=2)
        begun = asyncio.get_running_loop().time()
        reply = await pipeline.call([Msg.user(text) for text in "vwxyz"])
        assert asyncio.get_running_loop().time() - begun == 3
        assert reply.text.split("\n\n") == [f"a({text})" for text in "vwxyz"]
        assert remembered(agent) == [] and all(len(r.messages) == 1 for r in agent.model.requests)  # pyright: ignore
        children = pipeline.conversation().children
        assert children is not None and len(children.all) <= 5
        await pipeline.call("z")
        assert len(children.all) == 1, "conversations that have ended are not kept"

    run_virtual(main())


def test_a_function_is_a_member():
    def shout(message: Msg) -> str:
        return message.text.upper()

    async def twice(message: Msg) -> Msg:
        return Msg.assistant(message.text * 2)

    async def main() -> None:
        pipeline = SequentialPipeline([shout, echo("a"), twice])
        assert (await pipeline.call("x")).text == "a(X)a(X)"
        assert list(pipeline.members) == ["shout", "a", "twice"]
        named = SequentialPipeline({"first": lambda m: m, "second": lambda m: just(m.text + "!")})
        assert (await named.call("x")).text == "x!"
        assert (await FunctionAgent(shout).call("x")).text == "X"
        with pytest.raises(StepError, match="must return a text or a Msg, not 7"):
            await SequentialPipeline({"seven": lambda m: 7}).call("x")

    run_virtual(main())


def wrong() -> list[tuple[Any, str]]:
    return [
        (lambda: SequentialPipeline([echo("a"), echo("a")]), "two members named 'a'"),
        (lambda: SequentialPipeline([echo("The Writer"), echo("the writer")]), "differ too little"),
        (lambda: SequentialPipeline([echo("a")], "a"), "member of its own name"),
        (lambda: SequentialPipeline([lambda m: "x"]), "without a name"),
        (lambda: SequentialPipeline("abc"), "takes a list of members, not 'abc'"),
        (lambda: SequentialPipeline(echo("a")), "takes a list of members"),  # pyright: ignore
        (lambda: SequentialPipeline([3]), "an agent, or a function of a message, not 3"),  # pyright: ignore
        (lambda: SequentialPipeline({"b": echo("a")}), "by its own name, not as 'b'"),
        (lambda: FanOutPipeline([], at_most=0), "at_most must be"),
        (lambda: FanOutPipeline([echo("a")], timeout=0), "more than 0 seconds"),
        (lambda: FanOutPipeline([], on_error="stop"), "on_error must be"),  # pyright: ignore
        (lambda: fanout_pipeline([], on_error="stop"), "on_error must be"),  # pyright: ignore
        (lambda: FanOutPipeline([], combine="x"), "combine must be"),  # pyright: ignore
        (lambda: LoopPipeline(echo("a"), max_rounds=0), "max_rounds must be"),
        (lambda: LoopPipeline(echo("a"), until=True), "until must be"),  # pyright: ignore
        (lambda: ConditionalPipeline([echo("a")]), "A branch is a pair"),  # pyright: ignore
        (lambda: SequentialPipeline([], pending="no"), "pending must be"),  # pyright: ignore
        (lambda: SequentialPipeline([], in_doubt="no"), "in_doubt must be"),  # pyright: ignore
        (lambda: SequentialPipeline([], interrupt_grace=-1), "interrupt_grace must be"),
        (lambda: FanOutPipeline([echo("a")]).call("x", output=int), "does not take output="),
    ]


@pytest.mark.parametrize("number", range(20))
def test_wrong_arguments_are_refused(number: int):
    make, text = wrong()[number]
    with pytest.raises(ConfigurationError, match=text):
        make()
