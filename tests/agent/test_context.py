"""Context variables: every stage, hook and tool sees the subscriber's, and what one sets the others do not see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import Hook, Msg, hook, tool
from agentscope_rx.events import Event, PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.hooks import hook_operator
from agentscope_rx.reactive import Flow, from_async_iterable, from_callable, just
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent

WHO: ContextVar[str] = ContextVar("who", default="nobody")


class Spy(Hook):
    """Notes for each event whose context it is called in, and leaves a mark there."""

    def __init__(self, answer: Callable[[Event], Any], priority: int = 100) -> None:
        self.priority = priority
        self.answer = answer
        self.seen: dict[str, set[str]] = {}

    def on_event(self, event: Event) -> Any:
        self.note(event)
        return self.answer(event)

    def note(self, event: Event) -> None:
        self.seen.setdefault(event.type, set()).add(WHO.get())
        WHO.set(f"hook on {event.type}")


async def later(event: Event) -> Event:
    await asyncio.sleep(1)
    WHO.set("async hook")
    return event


def items(event: Event) -> Flow[Event]:
    async def one() -> AsyncIterator[Event]:
        WHO.set("hook that answers with a Flow")
        yield event

    return from_async_iterable(one)


def told(who: str) -> str:
    """What a tool saw; it leaves a mark, too."""
    seen = WHO.get()
    WHO.set(who)
    return seen


@tool
async def coroutine() -> str:
    """A coroutine function."""
    return told("coroutine tool")


@tool
def function() -> str:
    """A function on a worker."""
    return told("sync tool")


@tool
async def async_items() -> AsyncIterator[str]:
    """An async generator."""
    yield told("async generator tool")


@tool
def generator() -> Iterator[str]:
    """A generator."""
    yield told("generator tool")


@tool
def observable() -> Observable[str]:
    """An Observable, made on the loop."""
    return just(told("observable tool"))


@tool
def own_task() -> Observable[str]:
    """An Observable, made in a task."""

    async def run() -> str:
        return told("observable tool's task")

    return from_callable(run)


TOOLS = (coroutine, function, async_items, generator, observable, own_task)


class MarkingModel(ScriptedModel):
    """Leaves a mark wherever it is called."""

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        stream = super().do_stream(messages, tools, options)

        async def marked() -> AsyncIterator[Any]:
            WHO.set("model")
            async for chunk in stream:
                yield chunk

        return from_async_iterable(marked)


@pytest.mark.parametrize("answer", [lambda e: None, later, items], ids=["plain", "coroutine", "flow"])
@pytest.mark.parametrize("delay", [0, 1])
def test_what_is_set_stays_where_it_was_set(answer: Callable[[Event], Any], delay: int) -> None:
    model = MarkingModel([Delay(delay), *(call(each.name) for each in TOOLS)], ["do", Delay(delay), "ne"])
    first, second = Spy(answer), Spy(lambda e: None, priority=200)
    friday = agent(model, tools=TOOLS, hooks=[first, second])
    heard: set[str] = set()

    async def main() -> None:
        WHO.set("subscriber")
        reply = asyncio.get_running_loop().create_future()
        friday.call("hi").subscribe(lambda msg: heard.add(WHO.get()) or reply.set_result(msg))
        assert WHO.get() == "subscriber", "attaching runs hooks, but not in our context"
        await reply
        assert WHO.get() == "subscriber"
        await friday.call("again")
        assert WHO.get() == "subscriber"

    model.repeat = True
    run_virtual(main())
    expected = {kind: {"subscriber"} for kind in first.seen}
    assert set(first.seen) == set(second.seen) >= {"pre_call", "reasoning_chunk", "post_acting", "post_call"}
    assert first.seen == expected
    assert second.seen == expected
    assert heard == {"subscriber"}
    results = [result.text for message in friday.memory.messages for result in message.tool_results]
    assert results == ["subscriber"] * len(TOOLS) * 2


def test_subscribers_callbacks_and_pulls_have_their_own_context() -> None:
    async def main() -> None:
        WHO.set("puller")
        async for _ in agent(MarkingModel([call("coroutine")], "done"), tools=[coroutine]).stream("hi"):
            assert WHO.get() == "puller"
        seen: set[str] = set()
        stream = agent(MarkingModel("a"), hooks=[Spy(later)]).stream("hi")
        await stream.pipe(ops.do_action(lambda e: seen.add(WHO.get())))
        assert seen == {"puller"}

    run_virtual(main())


def test_who_interrupts_lends_the_run_no_context() -> None:
    spy = Spy(lambda e: None)
    friday = agent(ScriptedModel(["a", Delay(60), "b"]), hooks=[spy])

    async def stranger() -> None:
        WHO.set("stranger")
        await asyncio.sleep(1)
        assert friday.interrupt("stop")

    async def main() -> None:
        WHO.set("subscriber")
        task = asyncio.create_task(stranger())
        assert (await friday.call("hi")).text == "stop"
        await task

    run_virtual(main())
    assert set().union(*spy.seen.values()) == {"subscriber"}


def test_a_queued_call_has_its_own_context() -> None:
    spy = Spy(lambda e: None)
    friday = agent(ScriptedModel([Delay(60)], "b"), hooks=[spy])

    async def other() -> Msg:
        WHO.set("second")
        return await friday.call("two")

    async def main() -> None:
        WHO.set("first")
        subscription = friday.call("one").subscribe()
        await asyncio.sleep(1)
        subscription.dispose()
        spy.seen.clear()
        assert (await asyncio.create_task(other())).text == "b"

    run_virtual(main())
    assert set().union(*spy.seen.values()) == {"second"}


def test_chunk_operators_run_in_the_subscribers_context() -> None:
    seen: set[str] = set()

    def noted(event: Event) -> Event:
        seen.add(WHO.get())
        return event

    marks = hook(PreReasoningEvent)(lambda e: WHO.set("hook") and None)
    friday = agent(MarkingModel("a", "b"), hooks=[marks, hook_operator(ReasoningChunkEvent, ops.map(noted))])

    async def main() -> None:
        WHO.set("subscriber")
        await friday.call("hi")

    run_virtual(main())
    assert seen == {"subscriber"}
