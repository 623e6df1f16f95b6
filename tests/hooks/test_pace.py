"""A chunk hook that takes its time slows down what it looks at: no more chunks wait than there is room for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Hook, StructuredOutput, hook, tool
from agentscope_rx.events import ActingChunkEvent, Event, OutputChunkEvent, PostCallEvent, ReasoningChunkEvent
from agentscope_rx.hooks import hook_operator
from agentscope_rx.hooks.compose import CHUNKS_AHEAD
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, from_async_iterable
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, remembered


class Meter:
    """Counts what has been made, and what a hook has seen to."""

    def __init__(self, kind: type[Event], seconds: float = 1.0) -> None:
        self.made = 0
        self.seen = 0
        self.most = 0
        self.seconds = seconds

        @hook(kind)
        async def slow(event: Event) -> None:
            await asyncio.sleep(self.seconds)
            self.seen += 1

        self.hook: Hook = slow

    def make(self) -> None:
        self.made += 1
        self.most = max(self.most, self.made - self.seen)


class Fast(ChatModel):
    """Says so many words without a pause, as fast as it is read."""

    output_modes = ("native",)

    def __init__(self, meter: Meter, words: Sequence[str]) -> None:
        super().__init__("fast")
        self.meter = meter
        self.words = words

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        async def words() -> AsyncIterator[ChatResponse]:
            for word in self.words:
                self.meter.make()
                yield ChatResponse((TextBlock(word),))

        return from_async_iterable(words)


def stream(meter: Meter, someone, output: object = None) -> list[Event]:
    async def main() -> list[Event]:
        return [event async for event in someone.stream("hi", output=output).buffered(10_000)]

    return run_virtual(main())


@given(st.integers(1, 100))
def test_a_slow_hook_bounds_what_waits_of_a_fast_model(count: int):
    """The model is read on as the hook gets on; nothing is lost, and nothing takes longer than the hook does."""
    meter = Meter(ReasoningChunkEvent)
    someone = agent(Fast(meter, ["x"] * count), hooks=[meter.hook])

    async def main() -> None:
        # `call` has no consumer to slow anything down
        reply = await someone.call("hi")
        assert reply.text == "x" * count
        assert asyncio.get_running_loop().time() == count

    run_virtual(main())
    assert meter.most <= CHUNKS_AHEAD + 3
    assert meter.seen == count


@pytest.mark.parametrize(
    "behind",
    [hook(ReasoningChunkEvent)(lambda e: None), hook_operator(ReasoningChunkEvent, ops.map(lambda e: e))],
)
@pytest.mark.parametrize("priority", [1, 900])
def test_also_beside_other_hooks(behind: Hook, priority: int):
    behind.priority = priority
    meter = Meter(ReasoningChunkEvent)
    events = stream(meter, agent(Fast(meter, ["x"] * 80), hooks=[meter.hook, behind]))
    assert sum(isinstance(event, ReasoningChunkEvent) for event in events) == 80
    assert meter.most <= CHUNKS_AHEAD + 3


def test_an_operator_that_completes_frees_the_model_to_continue():
    """The slow one is left with a full queue; what it held back comes now, unseen."""
    meter = Meter(ReasoningChunkEvent)
    enough = hook_operator(ReasoningChunkEvent, ops.take(3), priority=900)
    events = stream(meter, agent(Fast(meter, ["x"] * 80), hooks=[meter.hook, enough]))
    assert sum(isinstance(event, ReasoningChunkEvent) for event in events) == 3
    assert isinstance(events[-1], PostCallEvent) and events[-1].message.text == "x" * 80


def test_a_slow_hook_of_the_pieces_of_an_output_bounds_them():
    meter = Meter(OutputChunkEvent)
    words = ['{"text": "', *["x"] * 60, '"}']
    shape = {"type": "object", "properties": {"text": {"type": "string"}}}
    someone = agent(Fast(meter, words), hooks=[meter.hook])
    events = stream(meter, someone, StructuredOutput(shape, mode="native"))
    assert sum(isinstance(event, OutputChunkEvent) for event in events) == 62
    assert meter.most <= CHUNKS_AHEAD + 3


def test_a_slow_hook_bounds_a_tool_and_not_the_one_beside_it():
    """Each call has a queue of its own: the quick one is done long before the chatty one is heard out."""
    meter = Meter(ActingChunkEvent)

    @tool
    async def chatty():
        """Says a lot."""
        for number in range(60):
            meter.make()
            yield f"{number}"

    done: list[float] = []

    @tool
    async def quick() -> str:
        """Is done at once."""
        done.append(asyncio.get_running_loop().time())
        return "ok"

    model = ScriptedModel([call("chatty"), call("quick")], "Done.")
    someone = agent(model, tools=[chatty, quick], hooks=[meter.hook])
    events = stream(meter, someone)
    assert isinstance(events[-1], PostCallEvent)
    assert meter.most <= CHUNKS_AHEAD + 3
    assert done == [0.0]
    assert_whole(someone)


@pytest.mark.parametrize("way", ["interrupt", "dispose"])
@pytest.mark.parametrize("at", [0.5, 5.5, 40.5])
def test_a_run_with_a_full_queue_can_be_ended(way: str, at: float):
    async def main() -> None:
        meter = Meter(ReasoningChunkEvent)
        someone = agent(Fast(meter, ["x"] * 1000), hooks=[meter.hook])
        loop = asyncio.get_running_loop()
        running = someone.call("hi").as_task()
        await asyncio.sleep(at)
        if way == "interrupt":
            someone.interrupt()
            await running
            # what has come is shown yet
            assert loop.time() <= at + CHUNKS_AHEAD + 3
        else:
            running.cancel()
            await someone.idle()
            assert loop.time() == at
        made = meter.made
        await asyncio.sleep(100)
        assert meter.made == made
        assert remembered(someone)[0].text == "hi"
        assert_whole(someone)
        await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())
