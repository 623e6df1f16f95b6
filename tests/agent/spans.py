"""Agents whose hooks, tools, model, memory and session note the current span of OpenTelemetry."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import reactivex
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.hooks import Hook, hook, hook_operator
from agentscope_rx.models import ChatResponse
from agentscope_rx.reactive import Flow, defer, from_callable
from agentscope_rx.session import InMemorySession, Saved
from agentscope_rx.testing import Delay, ScriptedModel, call

TRACER = TracerProvider().get_tracer("tests")


def current() -> str:
    """The name of the current span."""
    return str(getattr(trace.get_current_span(), "name", "none"))


class Seen(list[tuple[str, str]]):
    """The places where a span was looked at, with its name. What takes time takes `pause` seconds."""

    pause = 0.1

    def note(self, place: str) -> None:
        self.append((place, current()))

    @property
    def places(self) -> set[str]:
        return {place for place, _ in self}

    @property
    def spans(self) -> set[str]:
        return {span for _, span in self}


class NotingModel(ScriptedModel):
    """Notes the span at the call, as it begins and between chunks."""

    seen: Seen

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        self.seen.note("do_stream")
        return super().do_stream(messages, tools, options)

    async def _played(self, steps: Any, request: Any) -> AsyncIterator[ChatResponse]:
        self.seen.note("model, begins")
        async for chunk in super()._played(steps, request):
            yield chunk
            self.seen.note("model, goes on")


class NotingMemory(InMemoryMemory):
    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        async def add() -> None:
            self.seen.note("memory.add")
            await asyncio.sleep(0)
            await super(NotingMemory, self).add(messages)

        return from_callable(add)

    def get(self) -> Flow[Sequence[Msg]]:
        def get() -> Flow[Sequence[Msg]]:
            self.seen.note("memory.get")
            return super(NotingMemory, self).get()

        return defer(get)


class NotingSession(InMemorySession):
    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def save_all(self, *given: Any, **more: Any) -> Flow[str | None]:
        def save() -> Flow[str | None]:
            self.seen.note("session.save")
            return super(NotingSession, self).save_all(*given, **more)

        return defer(save)

    def load_all(self, *given: Any) -> Flow[Saved]:
        async def load() -> Saved:
            self.seen.note("session.load")
            return await super(NotingSession, self).load_all(*given)

        return from_callable(load)


def hooks_of(seen: Seen) -> list[Hook]:
    """A hook of every form."""

    @hook(PreCallEvent)
    def plain(event: Event) -> None:
        seen.note("hook, def")

    @hook(PreReasoningEvent)
    async def waits(event: Event) -> None:
        seen.note("hook, async def")
        await asyncio.sleep(seen.pause)
        seen.note("hook, async def later")

    @hook(PostReasoningEvent)
    def observable(event: PostReasoningEvent) -> reactivex.Observable[Event]:
        seen.note("hook, Observable")

        def later(_: object) -> Event:
            seen.note("hook, Observable later")
            return event

        return reactivex.timer(seen.pause).pipe(ops.map(later))

    @hook(PreActingEvent, priority=900)
    def after_slow_ones(event: Event) -> None:
        seen.note("hook, behind slow ones")

    @hook(PreActingEvent, priority=10)
    async def slow(event: Event) -> None:
        await asyncio.sleep(seen.pause)

    @hook(PostActingEvent, observe=True)
    async def observer(event: Event) -> None:
        seen.note("hook, observer")

    class Object(Hook):
        kinds = (PostCallEvent, ReasoningChunkEvent)

        async def on_event(self, event: Event) -> None:  # type: ignore[override]
            seen.note(f"hook, object on {event.type}")

    def shown(event: ActingChunkEvent) -> ActingChunkEvent:
        seen.note("hook, operator")
        return event

    operator = hook_operator(ActingChunkEvent, lambda chunks: chunks.pipe(ops.delay(seen.pause), ops.map(shown)))
    return [plain, waits, observable, after_slow_ones, slow, observer, Object(), operator]


def tools_of(seen: Seen) -> list[Any]:
    """A tool of every form."""

    @tool
    def on_thread() -> str:
        """A def."""
        assert threading.current_thread() is not threading.main_thread()
        seen.note("tool, def")
        return "ok"

    @tool
    async def waits() -> str:
        """An async def."""
        seen.note("tool, async def")
        await asyncio.sleep(seen.pause)
        seen.note("tool, async def later")
        return "ok"

    @tool
    def steps() -> Iterator[str]:
        """A generator."""
        for number in range(2):
            seen.note(f"tool, generator {number}")
            yield "ok"

    @tool
    async def waiting_steps() -> AsyncIterator[str]:
        """An async generator."""
        for number in range(2):
            await asyncio.sleep(seen.pause)
            seen.note(f"tool, async generator {number}")
            yield "ok"

    @tool
    def observed() -> reactivex.Observable[str]:
        """An Observable."""
        seen.note("tool, Observable")

        def later(_: object) -> str:
            seen.note("tool, Observable later")
            return "ok"

        return reactivex.timer(seen.pause).pipe(ops.map(later))

    return [on_thread, waits, steps, waiting_steps, observed]


def agent_of(
    seen: Seen, *, name: str = "Friday", sub: ReActAgent | None = None, more: Sequence[Any] = (), hooks: Any = ()
) -> ReActAgent:
    """An agent that notes the span everywhere. It calls all tools at once, then its own ones again, one by one."""
    own = [] if sub is not None else [each.name for each in tools_of(seen)]
    at_once = [call(each.name) for each in more] + [call(each) for each in own]
    first = [call(f"call_{sub.name}", message="Well?")] if sub is not None else at_once
    model = NotingModel(first, *([call(each), Delay(seen.pause)] for each in own), "Done.", repeat=True)
    model.seen = seen
    tools = [*tools_of(seen), *more, *([] if sub is None else [sub])]
    return ReActAgent(name, model, tools=tools, hooks=[*hooks_of(seen), *hooks], memory=NotingMemory(seen))


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the SDK has logged, such as "Failed to detach context"."""
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    return [record.getMessage() for record in records if record.name.startswith("opentelemetry")]
