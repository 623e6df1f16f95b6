"""Programs of pipelines that are wrong, endless or hang: each has an end, and leaves the pipeline free and whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import reactivex

from agentscope_rx import Msg, UsageLimits
from agentscope_rx.errors import ConfigurationError, InvalidInputError, UsageLimitError
from agentscope_rx.messages import GenerateReason
from agentscope_rx.pipeline import (
    ConditionalPipeline,
    FanOutPipeline,
    FunctionAgent,
    LoopPipeline,
    MapPipeline,
    Pipeline,
    Program,
    Progress,
    SequentialPipeline,
    Step,
)
from agentscope_rx.testing import run_virtual
from tests.pipeline.parts import assert_whole, echo, remembered


class Programmed(Pipeline):
    """A pipeline with a function as its program."""

    most_rounds = 5

    def __init__(self, program: Callable[[Progress], Any], **options: Any) -> None:
        super().__init__("P", [echo("a")], **options)
        self._program = program

    def program(self, progress: Progress) -> Program:
        return self._program(progress)


async def assert_free(pipeline: Pipeline) -> None:
    await pipeline.idle()
    assert not pipeline.running
    await assert_whole(pipeline.conversation(), remembered(pipeline))


async def hanging(_: object) -> Any:
    await asyncio.sleep(1e9)


@pytest.mark.parametrize("value", [None, 1, [], ["a"], [Step("a"), None], {"a": 1}, reactivex.just(None)])
def test_nonsense_of_a_program_is_a_typed_error(value: object):
    async def main() -> None:
        pipeline = Programmed(lambda _: value)
        with pytest.raises(ConfigurationError, match="must return a Step"):
            await pipeline.call("x")
        await assert_free(pipeline)

    run_virtual(main())


def test_a_program_without_a_decision_is_a_typed_error():
    async def main() -> None:
        pipeline = Programmed(lambda _: reactivex.empty())
        with pytest.raises(InvalidInputError, match="ended without a step or a reply"):
            await pipeline.call("x")
        await assert_free(pipeline)

    run_virtual(main())


def test_an_endless_program_ends():
    async def main() -> None:
        pipeline = Programmed(lambda _: Step("a"))
        with pytest.raises(UsageLimitError, match="limit of 5 for rounds"):
            await pipeline.call("x")
        await assert_free(pipeline)
        summed = Programmed(lambda _: Step("a"), limits=UsageLimits(on_limit="summary"))
        reply = await summed.call("x")
        assert reply.generate_reason is GenerateReason.LIMIT_REACHED
        assert "The limit for rounds was reached before step 6." in reply.text

    run_virtual(main())


@pytest.mark.parametrize("make", [lambda: Programmed(hanging), lambda: ConditionalPipeline([(hanging, echo("a"))])])
def test_an_interruption_ends_a_program_that_hangs(make: Callable[[], Pipeline]):
    async def main() -> None:
        pipeline = make()
        task = pipeline.call("x").as_task()
        await asyncio.sleep(5)
        assert pipeline.interrupt()
        assert (await task).text == "I was interrupted before step 1."
        assert asyncio.get_running_loop().time() == 5
        await assert_free(pipeline)

    run_virtual(main())


@pytest.mark.parametrize("value", [None, Step("a"), [Step("a")], 1])
@pytest.mark.parametrize("kind", [FanOutPipeline, MapPipeline])
def test_combine_must_return_a_reply(kind: Any, value: Any):
    async def main() -> None:
        member = echo("a")

        def combine(_: object) -> Any:
            return value

        pipeline = kind([member] if kind is FanOutPipeline else member, combine=combine)
        with pytest.raises(InvalidInputError, match="combine must return a Msg or a text"):
            await pipeline.call("x")
        await assert_free(pipeline)

    run_virtual(main())


def test_a_member_may_come_several_times_in_a_sequence():
    def short(message: Msg) -> str:
        return message.text[-20:]

    async def main() -> None:
        writer, critic = echo("w"), echo("c")
        pipeline = SequentialPipeline([writer, critic, short, writer, short])
        assert list(pipeline.members) == ["w", "c", "short"]
        assert (await pipeline.call("x")).text == "w(c(w(x)))"
        await assert_free(pipeline)
        assert (await LoopPipeline([writer, critic, writer], max_rounds=1).call("y")).text == "w(c(w(y)))"
        with pytest.raises(ConfigurationError, match="two members named 'w'"):
            SequentialPipeline([writer, echo("w")])
        with pytest.raises(ConfigurationError, match="two members named 'w'"):
            FanOutPipeline([writer, writer])

    run_virtual(main())


def test_the_only_member_of_a_loop_is_its_body():
    loop = LoopPipeline({"twice": lambda message: message.text * 2}, max_rounds=3)
    assert isinstance(loop.body, FunctionAgent)
    assert run_virtual(loop.call("x")).text == "x" * 8
