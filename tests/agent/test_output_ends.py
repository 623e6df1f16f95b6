"""However a run that asks for an output ends, at whatever moment, memory is whole and holds no trace of the asking."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_core import to_json
from reactivex import operators as ops

from agentscope_rx import GenerateReason, Hook, Msg, StructuredOutput, UsageLimits, fold
from agentscope_rx.errors import AgentScopeError, EmptyResponseError, StructuredOutputError
from agentscope_rx.events import Event, OutputChunkEvent, PostCallEvent
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, events_of, remembered


class Weather(BaseModel):
    city: str
    degrees: int


ROME = {"city": "Rome", "degrees": 21}
TEXT = '{"city":"Rome","degrees":21}'


class Sleepy(Hook):
    """Takes a quarter of a second for every event that is not a chunk."""

    def on_event(self, event: Event):
        return None if "chunk" in event.type or event.type == "error" else asyncio.sleep(0.25)


class InterruptsAt(Hook):
    """Does something at the n-th event."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.left = number
        self.act = act

    def on_event(self, event: Event):
        self.left -= 1
        if event.type == "post_call":
            self.left = 0
        elif self.left == 0 and event.type != "error":
            self.act()


class FailsAt(InterruptsAt):
    """Fails at the n-th event."""

    def __init__(self, number: int) -> None:
        def act() -> None:
            raise ValueError("no")

        super().__init__(number, act)


def scripts(mode: str) -> ScriptedModel:
    """A vain attempt with a sibling, words, then the output in pieces: about 10 s."""
    if mode == "tool":
        turns = [
            [Delay(1), "Hm. ", call("slow", seconds=1), call("generate_response", city="Rome")],
            [Delay(1), "It is ", Delay(0.5), "sunny."],
            [
                Delay(1), ToolUseDelta(0, "last", "generate_response", '{"city": "Ro'), Delay(0.5),
                ToolUseDelta(0, arguments='me", "degr'), Delay(0.5), ToolUseDelta(0, arguments='ees": 21}'), Delay(0.5),
            ],
        ]  # fmt: skip
    else:
        turns = [
            [Delay(1), "Hm. ", call("slow", seconds=1)],
            [Delay(1), '{"city": ', Delay(0.5), '"Rome"}', Delay(0.5)],
            [Delay(1), '{"city": "Rome", ', Delay(0.5), '"degrees": 21}', Delay(0.5)],
        ]
    return ScriptedModel(*turns, output_modes=[mode])


def assert_clean(friday, *, words: bool = False) -> None:
    assert_whole(friday)
    for message in remembered(friday):
        assert "generate_response" not in [call.name for call in message.tool_calls]
        assert "generate_response" not in [result.name for result in message.tool_results]
        assert message.content
        if not words and not message.has_structured:
            assert not message.text.startswith("{")


async def check_after(friday) -> None:
    await asyncio.wait_for(_first(friday.idle()), 60)
    assert not friday.running
    assert_clean(friday)
    friday.model = ScriptedModel("and on")
    assert (await friday.call("next")).text == "and on"
    assert_clean(friday)


async def _first(flow):
    return await flow


MOMENTS = [step * 0.25 for step in range(48)]


@pytest.mark.spec("R1", "R5", "§22.10")
@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
@pytest.mark.parametrize("way", ["dispose", "cancel", "interrupt", "leave"])
def test_ended_by_the_clock(way: str, mode: str):
    """java-core.md §22.10: interrupt and structured output; R1, R5."""
    whole = 0

    async def main(moment: float) -> None:
        nonlocal whole
        friday = agent(scripts(mode), hooks=[Sleepy()])
        seen: list[Event] = []
        if way == "interrupt":
            timer = asyncio.get_running_loop().call_later(moment, friday.interrupt)
            seen = await events_of(friday, "go", output=Weather)
            timer.cancel()
            assert list(fold(seen).history) == list(remembered(friday))
            assert isinstance(seen[-1], PostCallEvent)
            assert seen[-1].message == remembered(friday)[-1]
            whole += seen[-1].message.has_structured
        elif way == "cancel":
            task = friday.call("go", output=Weather).as_task()
            await asyncio.sleep(moment)
            task.cancel()
            whole += not isinstance((await asyncio.gather(task, return_exceptions=True))[0], BaseException)
        elif way == "leave":
            start = asyncio.get_running_loop().time()
            async with friday.stream("go", output=Weather) as events:
                async for event in events:
                    seen.append(event)
                    if asyncio.get_running_loop().time() - start >= moment:
                        break
            whole += isinstance(seen[-1], PostCallEvent)
        else:
            left = friday.stream("go", output=Weather).subscribe(seen.append)
            await asyncio.sleep(moment)
            left.dispose()
            whole += isinstance(seen[-1], PostCallEvent) if seen else 0
        await check_after(friday)

    for moment in MOMENTS:
        run_virtual(main(moment))
    assert 0 < whole < len(MOMENTS)


@pytest.mark.parametrize("mode", ["tool", "native"])
@settings(deadline=None, max_examples=40)
@given(number=st.integers(0, 40), way=st.sampled_from(["dispose", "interrupt", "fail"]))
def test_ended_at_an_event(mode: str, number: int, way: str):
    """By who listens, by an interruption or by a failing hook, at each single event."""

    async def main() -> None:
        if way == "fail":
            friday = agent(scripts(mode), hooks=[FailsAt(number)])
            with contextlib.suppress(ValueError), collect_dropped() as dropped:
                await friday.call("go", output=Weather)
            # who observes that memory was changed cannot fail the run
            assert len(dropped) <= 1 and all("on MemoryEvent" in where for where in dropped.where)
        elif way == "dispose":
            friday = agent(scripts(mode))
            await friday.stream("go", output=Weather).pipe(ops.take(number + 1))
        else:
            friday = agent(scripts(mode), hooks=[InterruptsAt(number, lambda: friday.interrupt("stop"))])
            await friday.call("go", output=Weather)
        await check_after(friday)

    run_virtual(main())


@pytest.mark.spec("R6")
def test_interrupted_in_the_middle_of_the_arguments():
    """Half a call is not kept, nor is its result; what was said beside a sibling is."""

    async def main() -> None:
        begun = [call("slow", seconds=9), ToolUseDelta(1, "b", "generate_response", '{"city": "Ro'), Delay(5), "never"]
        friday = agent(ScriptedModel(begun))
        events: list[Event] = []
        asyncio.get_running_loop().call_later(1, friday.interrupt)
        async for event in friday.stream("go", output=Weather):
            events.append(event)
        assert [event.value for event in events if isinstance(event, OutputChunkEvent)] == [{"city": "Ro"}]
        assert [message.role for message in remembered(friday)] == ["user", "assistant", "tool", "assistant"]
        assert [block.type for block in remembered(friday)[1].content] == ["tool_use"]
        assert list(fold(events).history) == list(remembered(friday))
        assert_clean(friday)

    run_virtual(main())


@given(
    st.lists(st.sampled_from(["good", "bad", "words", "sibling", "both"]), max_size=6),
    st.integers(0, 3),
    st.sampled_from(["error", "text"]),
    st.integers(1, 5),
)
@settings(deadline=None)
def test_whatever_the_model_says(answers: list[str], retries: int, on_failure: str, max_iters: int):
    """Memory, stream, fold and reply agree; a value or an error comes, and nothing else but on_failure's words."""
    made = {
        "good": lambda: call("generate_response", **ROME),
        "bad": lambda: call("generate_response", city=3),
        "words": lambda: "Sunny.",
        "sibling": lambda: call("weather", city="Rome"),
        "both": lambda: [call("weather", city="Rome"), call("generate_response", city=3)],
    }

    async def main() -> None:
        model = ScriptedModel(*[made[each]() for each in answers], *["The end."] * 12)
        friday = agent(model, max_iters=max_iters)
        wanted = StructuredOutput(Weather, mode="tool", max_retries=retries, on_failure=on_failure)  # pyright: ignore
        events: list[Event] = []
        ended = friday.stream("go", output=wanted).pipe(ops.do_action(events.append)).as_task()
        [error] = await asyncio.gather(ended, return_exceptions=True)
        reply: Msg | None = fold(events).message
        if isinstance(error, EmptyResponseError):
            # (a summary that is a call)
            assert on_failure == "text"
        elif isinstance(error, Exception):
            assert isinstance(error, StructuredOutputError)
            assert on_failure == "error"
            assert error.attempts <= retries + 1
            assert reply is None
        assert list(fold(events).history) == list(remembered(friday))
        assert_clean(friday, words=on_failure == "text")
        if reply is not None:
            assert reply == remembered(friday)[-1]
            assert reply.has_structured or on_failure == "text"
            assert not reply.has_structured or "good" in answers

    run_virtual(main())


def test_a_memory_that_refuses_to_forget_is_heard_of():
    from agentscope_rx import InMemoryMemory
    from agentscope_rx.reactive import defer, throw

    class Keeps(InMemoryMemory):
        def delete(self, ids):
            return defer(lambda: throw(AgentScopeError("never")))

    async def main() -> None:
        friday = agent(ScriptedModel(call("generate_response", **ROME)), memory=Keeps())
        with pytest.raises(AgentScopeError, match="never"):
            await friday.call("go", output=Weather)

    from agentscope_rx.testing import collect_dropped

    with collect_dropped() as dropped:
        run_virtual(main())
    assert "never" in str(dropped)


@pytest.mark.spec("R19")
@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("which", ["model_calls", "tool_calls", "deadline"])
def test_on_limit_summary_gives_the_output_one_more_attempt(mode: str, good: bool, which: str):
    """R19, for every limit: one forced attempt, then the error; never a reply without what was asked for."""

    async def main() -> None:
        first = [call("slow", seconds=100.0 if which == "deadline" else 0.0)]
        value = {"response": [1, 2]} if good else {"response": "?"}
        last = call("generate_response", **value) if mode == "tool" else to_json(value).decode()
        limits = {
            "model_calls": UsageLimits(model_calls=1, on_limit="summary"),
            "tool_calls": UsageLimits(tool_calls=0, on_limit="summary"),
            "deadline": UsageLimits(deadline=50, summary_reserve=10, on_limit="summary"),
        }
        model = ScriptedModel(first, last, output_modes=[mode])
        friday = agent(model, limits=limits[which])
        asked = friday.call("?", output=StructuredOutput(list[int], mode=mode))
        if good:
            reply = await asked
            assert reply.structured(list[int]) == [1, 2]
            assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
        else:
            with pytest.raises(StructuredOutputError):
                await asked
        assert len(model.requests) == 2
        assert_whole(friday)
        assert not any("generate_response" in message.to_json() for message in remembered(friday))

    run_virtual(main())
