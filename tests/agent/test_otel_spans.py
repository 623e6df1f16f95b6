"""OpenTelemetry: the current span is the subscriber's at every hook, tool, model, memory and session call.

The real SDK keeps the current span in a context variable, and logs "Failed to detach context" for a span that ends in
another context than that it began in.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import reactivex
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from reactivex import operators as ops

import agentscope_rx.hooks
from agentscope_rx import InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
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
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.reactive import Flow, defer, flow, from_callable
from agentscope_rx.session import InMemorySession, Saved
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual

TRACER = TracerProvider().get_tracer("tests")


@pytest.fixture(autouse=True)
def spans_end_where_they_began(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "opentelemetry")
    yield
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [record.getMessage() for record in records if record.name.startswith("opentelemetry")] == []


def current() -> str:
    """The name of the current span."""
    return str(getattr(trace.get_current_span(), "name", "none"))


class Seen(list[tuple[str, str]]):
    """The places where a span was looked at, with its name."""

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
        await asyncio.sleep(0.1)
        seen.note("hook, async def later")

    @hook(PostReasoningEvent)
    def observable(event: PostReasoningEvent) -> reactivex.Observable[Event]:
        seen.note("hook, Observable")

        def later(_: object) -> Event:
            seen.note("hook, Observable later")
            return event

        return reactivex.timer(0.1).pipe(ops.map(later))

    @hook(PreActingEvent, priority=900)
    def after_slow_ones(event: Event) -> None:
        seen.note("hook, behind slow ones")

    @hook(PreActingEvent, priority=10)
    async def slow(event: Event) -> None:
        await asyncio.sleep(0.1)

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

    operator = hook_operator(ActingChunkEvent, lambda chunks: chunks.pipe(ops.delay(0.1), ops.map(shown)))
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
        await asyncio.sleep(0.1)
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
            await asyncio.sleep(0.1)
            seen.note(f"tool, async generator {number}")
            yield "ok"

    @tool
    def observed() -> reactivex.Observable[str]:
        """An Observable."""
        seen.note("tool, Observable")

        def later(_: object) -> str:
            seen.note("tool, Observable later")
            return "ok"

        return reactivex.timer(0.1).pipe(ops.map(later))

    return [on_thread, waits, steps, waiting_steps, observed]


def agent_of(
    seen: Seen, *, name: str = "Friday", sub: ReActAgent | None = None, more: Sequence[Any] = (), hooks: Any = ()
) -> ReActAgent:
    """An agent that notes the span everywhere. It calls all tools at once, then its own ones again, one by one."""
    own = [] if sub is not None else [each.name for each in tools_of(seen)]
    at_once = [call(each.name) for each in more] + [call(each) for each in own]
    first = [call(f"call_{sub.name}", message="Well?")] if sub is not None else at_once
    model = NotingModel(first, *([call(each), Delay(0.1)] for each in own), "Done.", repeat=True)
    model.seen = seen
    tools = [*tools_of(seen), *more, *([] if sub is None else [sub])]
    return ReActAgent(name, model, tools=tools, hooks=[*hooks_of(seen), *hooks], memory=NotingMemory(seen))


PLACES = 22


async def by_await(agent: ReActAgent) -> None:
    assert (await agent.call("hi")).text == "Done."


async def by_iteration(agent: ReActAgent) -> None:
    async for event in agent.stream("hi"):
        assert current() == "request", event


async def by_task(agent: ReActAgent) -> None:
    await agent.call("hi").as_task()


async def by_subscribe(agent: ReActAgent) -> None:
    ended = asyncio.Event()
    agent.stream("hi").subscribe(lambda event: None, None, ended.set)
    await ended.wait()


async def by_stock_operators(agent: ReActAgent) -> None:
    piped: Any = agent.stream("hi").pipe(ops.filter(lambda event: True), ops.delay(0.1), ops.last())
    await flow(piped)


@pytest.mark.parametrize("consume", [by_await, by_iteration, by_task, by_subscribe, by_stock_operators])
def test_every_place_sees_the_span_of_the_subscriber(consume: Callable[[ReActAgent], Any]):
    seen = Seen()

    async def main() -> None:
        agent = agent_of(seen)
        with TRACER.start_as_current_span("request"):
            await consume(agent)
        assert current() == "none"

    run_virtual(main())
    assert seen.spans == {"request"}, [each for each in seen if each[1] != "request"]
    assert len(seen.places) >= PLACES, sorted(seen.places)


def test_a_script_without_a_loop_hands_its_span_on():
    seen = Seen()
    with TRACER.start_as_current_span("request"):
        agent_of(seen).call("hi").run()
    assert seen.spans == {"request"} and len(seen.places) >= PLACES


def test_the_span_is_that_at_the_subscription():
    seen = Seen()

    async def main() -> None:
        agent = agent_of(seen)
        with TRACER.start_as_current_span("made"):
            made = agent.call("hi")
        with TRACER.start_as_current_span("subscribed"):
            await made

    run_virtual(main())
    # do_stream, hooks and tools are called for the subscriber
    assert seen.spans == {"subscribed"}


def test_runs_under_different_spans_do_not_mix():
    many = [Seen() for _ in range(4)]

    async def one(number: int) -> None:
        agent = agent_of(many[number])
        await asyncio.sleep(0.03 * number)
        with TRACER.start_as_current_span(f"request {number}"):
            await agent.call("hi")

    async def main() -> None:
        await asyncio.gather(*map(one, range(4)))

    run_virtual(main())
    assert [seen.spans for seen in many] == [{f"request {number}"} for number in range(4)]


def test_one_agent_for_two_conversations_keeps_spans_apart():
    seen = Seen()
    spans: dict[str, set[str]] = {}

    async def main() -> None:
        agent = agent_of(seen, hooks=[everywhere])

        async def one(name: str) -> None:
            with TRACER.start_as_current_span(name):
                await agent.call(name, memory=InMemoryMemory())

        await asyncio.gather(one("a"), one("b"))

    @hook(Event)
    async def everywhere(event: Event) -> None:
        spans.setdefault(event.run_id, set()).add(current())

    run_virtual(main())
    assert sorted(map(sorted, spans.values())) == [["a"], ["b"]]


def test_a_sub_agent_sees_the_span_of_the_call():
    inner, outer = Seen(), Seen()

    async def main() -> None:
        agent = agent_of(outer, sub=agent_of(inner, name="expert"))
        with TRACER.start_as_current_span("request"):
            await agent.call("hi")

    run_virtual(main())
    assert inner.spans == outer.spans == {"request"}
    assert len(inner.places) >= PLACES


def test_a_session_sees_the_span():
    seen = Seen()

    async def main() -> None:
        session = NotingSession(seen)
        agent = ReActAgent("Friday", ScriptedModel("Hello.", repeat=True))
        with TRACER.start_as_current_span("request"):
            agent.bind(session, "ann")
            await agent.call("hi")
            await agent.save(session, "bob")
            await agent.load(session, "bob")

    run_virtual(main())
    assert seen.spans == {"request"} and seen.places == {"session.save", "session.load"}


if hasattr(agentscope_rx.hooks, "around"):

    @pytest.mark.parametrize("kind", ["call", "reasoning", "acting", "model", "tool"])
    def test_an_operator_around_a_part_sees_the_span(kind: str):
        seen = Seen()

        def noting(source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
            seen.note("applied")

            def begin() -> reactivex.Observable[Any]:
                seen.note("begins")
                return source.pipe(
                    ops.do_action(lambda _: seen.note("item"), on_completed=lambda: seen.note("end")),
                    ops.finally_action(lambda: seen.note("after")),
                )

            return defer(begin)

        async def main() -> None:
            around: Any = agentscope_rx.hooks.around  # type: ignore[attr-defined]
            agent = agent_of(seen, hooks=[around(kind, noting)])
            with TRACER.start_as_current_span("request"):
                await by_iteration(agent)

        run_virtual(main())
        assert seen.spans == {"request"}, [each for each in seen if each[1] != "request"]
        assert {"applied", "begins", "item", "end", "after"} <= seen.places


# --- spans of hooks, tools and models ---------------------------------------------------------------------------------


def begin_and_forget(name: str) -> None:
    """As instrumentation with a fault does: the span is made current and never left."""
    otel_context.attach(trace.set_span_in_context(TRACER.start_span(name)))


def test_a_span_that_a_hook_or_tool_leaves_open_stays_within():
    seen = Seen()

    class Plain(Hook):
        """Before every other hook."""

        priority = 1

        def on_event(self, event: Event) -> None:
            begin_and_forget("leaked by a hook")

    @hook(PostReasoningEvent, priority=1)
    async def waits(event: Event) -> None:
        begin_and_forget("leaked by an async hook")
        await asyncio.sleep(0.1)

    @hook(PreActingEvent, priority=1)
    def observable(event: Event) -> reactivex.Observable[Event]:
        def begin(_: object) -> Event:
            begin_and_forget("leaked by an Observable")
            return event

        return reactivex.timer(0.1).pipe(ops.map(begin))

    @tool
    def on_thread_leaking() -> str:
        """A def."""
        begin_and_forget("leaked by a tool")
        return "ok"

    @tool
    async def leaking() -> str:
        """An async def."""
        begin_and_forget("leaked by an async tool")
        await asyncio.sleep(0.1)
        return "ok"

    @tool
    async def leaking_steps() -> AsyncIterator[str]:
        """An async generator."""
        begin_and_forget("leaked by a generator")
        yield "a"
        yield "b"

    async def main() -> None:
        more = [on_thread_leaking, leaking, leaking_steps]
        agent = agent_of(seen, more=more, hooks=[Plain(), waits, observable])
        with TRACER.start_as_current_span("request"):
            async for event in agent.stream("hi"):
                assert current() == "request", event
            assert current() == "request"

    run_virtual(main())
    assert seen.spans == {"request"}, [each for each in seen if each[1] != "request"]


@contextmanager
def spanned(log: list[str], name: str) -> Iterator[None]:
    with TRACER.start_as_current_span(name):
        try:
            yield
        finally:
            log.append(name)


def spanning_agent(log: list[str]) -> ReActAgent:
    """Its hooks, tools and model begin spans around everything that they do."""

    @hook(PreReasoningEvent)
    async def waits(event: Event) -> None:
        with spanned(log, "hook"):
            await asyncio.sleep(1)

    @tool
    def steps() -> Iterator[str]:
        """A generator."""
        with spanned(log, "generator"):
            for _ in range(3):
                yield "a"
                log.append(f"in {current()}")

    @tool
    async def waiting_steps() -> AsyncIterator[str]:
        """An async generator."""
        with spanned(log, "async generator"):
            for _ in range(3):
                await asyncio.sleep(1)
                yield "a"
                log.append(f"in {current()}")

    @tool
    async def waits_long() -> str:
        """An async def."""
        with spanned(log, "async def"):
            await asyncio.sleep(3)
        return "ok"

    class Spanning(ScriptedModel):
        async def _played(self, steps: Any, request: Any) -> AsyncIterator[ChatResponse]:
            with spanned(log, "model"):
                async for chunk in super()._played(steps, request):
                    yield chunk
                    log.append(f"in {current()}")

    calls = [call("steps"), Delay(0.5), call("waiting_steps"), call("waits_long")]
    return ReActAgent(
        "Friday", Spanning(calls, ["a", Delay(1), "b"]), tools=[steps, waiting_steps, waits_long], hooks=[waits]
    )


def test_spans_around_what_yields_end_where_they_began():
    log: list[str] = []

    async def main() -> None:
        with TRACER.start_as_current_span("request"):
            await spanning_agent(log).call("hi")
            assert current() == "request"

    run_virtual(main())
    spans = ["async def", "async generator", "generator", "hook", "hook", "model", "model"]
    assert sorted(each for each in log if not each.startswith("in ")) == spans
    inside = ["in async generator"] * 3 + ["in generator"] * 3 + ["in model"] * 5
    assert sorted(each for each in log if each.startswith("in ")) == inside


@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.25, 1.5, 1.75, 2.0, 2.6, 3.5, 4.6, 5.5, 6.1])
@pytest.mark.parametrize("leave", ["dispose", "cancel", "interrupt", "break"])
def test_spans_end_in_their_context_after_a_disposal(leave: str, moment: float):
    log: list[str] = []

    async def main() -> None:
        agent = spanning_agent(log)
        loop = asyncio.get_running_loop()
        with TRACER.start_as_current_span("request"):
            if leave == "dispose":
                subscription = agent.stream("hi").subscribe(lambda event: None, lambda error: None)
                await asyncio.sleep(moment)
                subscription.dispose()
            elif leave == "cancel":
                task = agent.call("hi").as_task()
                await asyncio.sleep(moment)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            elif leave == "interrupt":
                task = agent.call("hi").as_task()
                await asyncio.sleep(moment)
                agent.interrupt()
                await task
            else:
                async for _ in agent.stream("hi"):
                    assert current() == "request"
                    if loop.time() >= moment:
                        break
            await agent.idle()
            assert current() == "request"

    run_virtual(main())


@pytest.mark.parametrize("kind", ["generator", "async generator"])
def test_a_generator_that_is_left_ends_its_span(kind: str):
    log: list[str] = []

    def shown(event: Event) -> bool:
        name = "steps" if kind == "generator" else "waiting_steps"
        return isinstance(event, ActingChunkEvent) and event.tool_use.name == name

    async def main() -> None:
        agent = spanning_agent(log)
        with TRACER.start_as_current_span("request"):
            async for event in agent.stream("hi"):
                if shown(event):
                    break
            await agent.idle()
        assert kind in log

    run_virtual(main())


def test_a_span_in_a_failing_run_ends_in_its_context():
    log: list[str] = []

    @hook(ErrorEvent)
    def failed(event: Event) -> None:
        log.append(current())

    async def main() -> None:
        config = ExecutionConfig(timeout=2.0, max_attempts=2, initial_backoff=1.0)
        agent = ReActAgent("Friday", ScriptedModel(HANG, HANG, execution_config=config), hooks=[failed])
        with TRACER.start_as_current_span("request"):
            with pytest.raises(TimeoutError):
                await agent.call("hi")
            assert current() == "request"

    run_virtual(main())
    assert log == ["request"]
