"""OpenTelemetry: spans that hooks, tools and models begin stay within, and end in the context that they began in.

The SDK logs "Failed to detach context" for a span that ends in another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import reactivex
from opentelemetry import context as otel_context
from opentelemetry import trace
from reactivex import operators as ops

from agentscope_rx import ReActAgent, tool
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostReasoningEvent,
    PreActingEvent,
    PreReasoningEvent,
)
from agentscope_rx.hooks import Hook, hook
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.spans import TRACER, Seen, agent_of, current, failures


@pytest.fixture(autouse=True)
def spans_end_where_they_began(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "opentelemetry")
    yield
    assert failures(caplog) == []


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
