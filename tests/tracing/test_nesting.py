"""The parent of a span: the current span of the subscriber, or the part that user code runs in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import reactivex
from opentelemetry import trace
from reactivex import operators as ops

from agentscope_rx import ReActAgent, tool
from agentscope_rx.events import (
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
from agentscope_rx.hooks import around, hook
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.reactive import defer, on_library_loop
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from agentscope_rx.tracing import current_record
from tests.agent.spans import NotingMemory, NotingModel, Seen, hooks_of, tools_of
from tests.tracing.trees import Spans


def parent_names(spans: Spans, start: str) -> list[str]:
    """The names of the parents of the spans whose names begin so."""
    names = {span.get_span_context().span_id: span.name for span in spans.begun}
    return [names[span.parent.span_id] if span.parent else "none" for span in spans.named(start)]


def test_user_code_runs_in_the_span_of_its_part() -> None:
    spans, seen = Spans(), Seen()

    async def main() -> None:
        own = tools_of(seen)
        model = NotingModel([call(each.name) for each in own], ["The ", Delay(0.1), "end."])
        model.seen = seen
        hooks = [*hooks_of(seen), *watchers(seen)]
        agent = ReActAgent("Friday", model, tools=own, hooks=hooks, memory=NotingMemory(seen), tracer=spans.hook())
        with spans.tracer().start_as_current_span("request"):
            async for _ in agent.stream("hi"):
                seen.note("subscriber")

    run_virtual(main())
    where: dict[str, set[str]] = {}
    for place, span in seen:
        where.setdefault(place, set()).add(span)
    run, reasoning, acting, chat = {"invoke_agent Friday"}, {"reasoning"}, {"acting"}, {"chat scripted"}
    assert where["subscriber"] == {"request"}
    assert where["hook, def"] == where["watch, PreCallEvent"] == where["watch, PostCallEvent"] == run
    assert where["hook, object on post_call"] == run
    for place in ("hook, async def", "hook, async def later", "hook, Observable", "hook, Observable later"):
        assert where[place] == reasoning, place
    assert where["hook, object on reasoning_chunk"] == where["watch, ReasoningChunkEvent"] == reasoning
    assert where["watch, PreReasoningEvent"] == where["watch, PostReasoningEvent"] == reasoning
    for place in ("hook, behind slow ones", "hook, observer", "hook, operator", "watch, PreActingEvent"):
        assert where[place] == acting, place
    assert where["watch, PostActingEvent"] == acting
    for place in ("do_stream", "model, begins", "model, goes on"):
        assert where[place] == chat, place
    for name, places in {
        "on_thread": ["tool, def"],
        "waits": ["tool, async def", "tool, async def later"],
        "steps": ["tool, generator 0", "tool, generator 1"],
        "waiting_steps": ["tool, async generator 0", "tool, async generator 1"],
        "observed": ["tool, Observable", "tool, Observable later"],
    }.items():
        for place in places:
            assert where[place] == {f"execute_tool {name}"}, place
    assert where["memory.add"] <= run | reasoning | acting


def watchers(seen: Seen) -> list[Any]:
    kinds = (
        PreCallEvent,
        PreReasoningEvent,
        ReasoningChunkEvent,
        PostReasoningEvent,
        PreActingEvent,
        PostActingEvent,
        PostCallEvent,
    )

    def watch(kind: type[Event]) -> Any:
        @hook(kind, priority=2_000)
        def note(event: Event) -> None:
            seen.note(f"watch, {kind.__name__}")

        return note

    return [watch(kind) for kind in kinds]


def test_spans_of_user_code_are_children() -> None:
    spans = Spans()
    mine = spans.tracer()

    @tool
    async def tasks() -> str:
        """Begins tasks of its own."""

        async def one(number: int) -> None:
            with mine.start_as_current_span(f"task {number}"):
                await asyncio.sleep(number)

        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(one(number))
        return "ok"

    @tool
    def blocking() -> str:
        """On a worker thread."""
        assert threading.current_thread() is not threading.main_thread()
        with mine.start_as_current_span("thread"):
            return "ok"

    @tool
    async def steps() -> AsyncIterator[str]:
        """Holds a span over its steps."""
        with mine.start_as_current_span("steps"):
            for _ in range(3):
                await asyncio.sleep(0.3)
                yield "ok"

    @tool
    def nested() -> reactivex.Observable[str]:
        """Calls an agent by itself."""
        inner = ReActAgent("Inner", ScriptedModel("inside"), tracer=spans.hook())
        return inner.call("hi").pipe(ops.map(lambda reply: reply.text))

    async def main() -> None:
        calls = [call(name) for name in ("tasks", "blocking", "steps", "nested")]
        tools = [tasks, blocking, steps, nested]
        agent = ReActAgent("Friday", ScriptedModel(calls, "end"), tools=tools, tracer=spans.hook())
        with mine.start_as_current_span("request"):
            await agent.call("hi")

    run_virtual(main())
    spans.assert_whole()
    assert parent_names(spans, "invoke_agent") == ["request", "execute_tool nested"]
    assert parent_names(spans, "task ") == ["execute_tool tasks"] * 3
    assert parent_names(spans, "thread") == ["execute_tool blocking"]
    assert parent_names(spans, "steps") == ["execute_tool steps"]


def test_a_span_that_a_tool_leaves_open_is_no_parent() -> None:
    spans = Spans()
    left: list[Any] = []

    @tool
    async def forgets() -> str:
        """Makes a span current, and never leaves it."""
        from opentelemetry import context as otel_context

        span = spans.tracer().start_span("left")
        left.append(span)
        otel_context.attach(trace.set_span_in_context(span))
        return "ok"

    async def main() -> None:
        agent = ReActAgent(
            "Friday", ScriptedModel(call("forgets"), call("forgets"), "end"), tools=[forgets], tracer=spans.hook()
        )
        await agent.call("hi")
        for span in left:
            span.end()

    run_virtual(main())
    assert parent_names(spans, "left") == ["execute_tool forgets"] * 2
    assert parent_names(spans, "reasoning") == ["invoke_agent Friday"] * 3
    assert parent_names(spans, "chat") == ["reasoning"] * 3


def test_hooks_after_an_interruption_run_in_the_span_of_the_run() -> None:
    spans, seen = Spans(), Seen()

    @hook(PostCallEvent)
    def after(event: Event) -> None:
        seen.note("post_call")

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(HANG), hooks=[after], tracer=spans.hook())
        with spans.tracer().start_as_current_span("request"):
            run = agent.call("hi").as_task()
            await asyncio.sleep(1)
        with spans.tracer().start_as_current_span("another request"):
            agent.interrupt()
        await run

    run_virtual(main())
    assert seen == [("post_call", "invoke_agent Friday")]


def test_hooks_on_the_error_run_in_the_span_of_the_run() -> None:
    spans, seen = Spans(), Seen()

    @hook(ErrorEvent)
    async def failed(event: Event) -> None:
        await asyncio.sleep(0)
        seen.note("error")

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(ValueError("no")), hooks=[failed], tracer=spans.hook())
        with pytest.raises(ValueError, match="no"):
            await agent.call("hi")

    run_virtual(main())
    assert seen == [("error", "invoke_agent Friday")]


def test_the_parent_is_the_span_at_the_start_of_a_shared_run() -> None:
    spans = Spans()

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel([Delay(1), "end"]), tracer=spans.hook())
        with spans.tracer().start_as_current_span("starts"):
            handle = agent.start("hi")
        with spans.tracer().start_as_current_span("reads"):
            await handle.result()

    run_virtual(main())
    assert parent_names(spans, "invoke_agent") == ["starts"]


def test_a_script_without_a_loop() -> None:
    spans = Spans()
    with spans.tracer().start_as_current_span("script"):
        ReActAgent("Friday", ScriptedModel("end"), tracer=spans.hook()).call("hi").run()
    spans.assert_whole()
    assert parent_names(spans, "invoke_agent") == ["script"]


def test_a_run_on_the_library_loop() -> None:
    spans = Spans()

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel("end"), tracer=spans.hook())
        with spans.tracer().start_as_current_span("request"):
            await on_library_loop(agent.call("hi"))

    asyncio.run(main())
    spans.assert_whole()
    assert parent_names(spans, "invoke_agent") == ["request"]


def test_runs_of_many_threads() -> None:
    spans = Spans()
    hook = spans.hook()

    def one(number: int) -> None:
        async def main() -> None:
            agent = ReActAgent("Friday", ScriptedModel("end"), tracer=hook)
            with spans.tracer().start_as_current_span(f"request {number}"):
                await agent.call("hi")

        asyncio.run(main())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans.assert_whole()
    assert sorted(parent_names(spans, "invoke_agent")) == [f"request {number}" for number in range(4)]
    assert len({span.context.trace_id for span in spans.ended if span.context is not None}) == 4


def test_operators_around_a_part_run_within_its_span() -> None:
    spans, seen = Spans(), Seen()

    def noting(kind: str) -> Any:
        def operator(source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
            def begin() -> reactivex.Observable[Any]:
                seen.note(f"{kind} begins")
                return source

            return defer(begin)

        return operator

    async def main() -> None:
        kinds: Any = ("call", "reasoning", "acting", "model", "tool")
        hooks = [around(kind, noting(kind)) for kind in kinds]

        @tool
        async def waits() -> str:
            """Waits."""
            return "ok"

        agent = ReActAgent(
            "Friday", ScriptedModel(call("waits"), "end"), tools=[waits], hooks=hooks, tracer=spans.hook()
        )
        await agent.call("hi")

    run_virtual(main())
    # an operator around the model call stands around all attempts
    assert set(seen) == {
        ("call begins", "invoke_agent Friday"),
        ("reasoning begins", "reasoning"),
        ("model begins", "reasoning"),
        ("acting begins", "acting"),
        ("tool begins", "execute_tool waits"),
    }


def test_a_model_that_a_tool_asks_has_a_span() -> None:
    spans = Spans()
    helper = ScriptedModel("help")
    helper.model_name = "helper"

    @tool
    async def asks() -> str:
        """Asks a model."""
        async for _ in helper.stream([]):
            pass
        return "ok"

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(call("asks"), "end"), tools=[asks], tracer=spans.hook())
        await agent.call("hi")

    run_virtual(main())
    assert parent_names(spans, "chat helper") == ["execute_tool asks"]


def test_the_current_record_is_at_hand() -> None:
    spans = Spans()
    found: list[object] = []

    @tool
    def looks() -> str:
        """Looks at its record."""
        found.append(current_record())
        return "ok"

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(call("looks", "c"), "end"), tools=[looks], tracer=spans.hook())
        await agent.call("hi")
        found.append(current_record())

    run_virtual(main())
    record: Any = found[0]
    assert record.request.call == ToolUseBlock("c", "looks", {}) and record.run.agent == "Friday"
    assert found[1] is None
