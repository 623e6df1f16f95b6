"""Several tracers and threads: instrument() during runs, tracers of parts, sampled-out parents, slow recorders."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import Context

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from tenacity import wait_none

from agentscope_rx import ExecutionConfig, ReActAgent, Toolkit, tool
from agentscope_rx.hooks.process_wide import PROCESS_WIDE
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tracing import OpenTelemetryHook, Recorder, RecordingTracer, instrument, uninstrument
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord
from tests.tracing.trees import Spans

TREE = (
    "invoke_agent Friday\n  reasoning\n    chat scripted\n  acting\n"
    "    execute_tool work\n  reasoning\n    chat scripted"
)


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    yield
    uninstrument()
    assert PROCESS_WIDE.tracers == ()


@tool
async def work() -> str:
    """Takes no time, but lets others run."""
    await asyncio.sleep(0)
    return "done"


TWICE = ExecutionConfig(max_attempts=2, wait=wait_none())


def agent_of(*before: object, **options: object) -> ReActAgent:
    model = ScriptedModel(*before, call("work"), "end", repeat=True)  # type: ignore[arg-type]
    return ReActAgent("Friday", model, toolkit=Toolkit([work]), **options)  # type: ignore[arg-type]


def test_on_and_off_by_another_thread_during_runs() -> None:
    """A run has all of its spans or none."""
    spans, over = Spans(), threading.Event()

    def switch() -> None:
        while not over.is_set():
            instrument(tracer_provider=spans.provider)
            uninstrument()

    async def main() -> None:
        agents = [agent_of() for _ in range(10)]
        for _ in range(20):
            await asyncio.gather(*(agent.call("hi").as_task() for agent in agents))

    thread = threading.Thread(target=switch)
    thread.start()
    try:
        asyncio.run(main())
    finally:
        over.set()
        thread.join()
    spans.assert_whole()
    names = Counter(span.name for span in spans.ended)
    runs = names["invoke_agent Friday"]
    assert names == Counter(
        {
            "invoke_agent Friday": runs,
            "reasoning": 2 * runs,
            "chat scripted": 2 * runs,
            "acting": runs,
            "execute_tool work": runs,
        }
    )


class Keeping(Recorder):
    """Keeps the records."""

    def __init__(self) -> None:
        self.ended: list[Record] = []

    def end(self, record: Record) -> None:
        self.ended.append(record)


def test_two_tracers_of_one_agent_count_for_themselves() -> None:
    kept = Keeping(), Keeping()
    agent = agent_of(ConnectionError("no"), tracer=RecordingTracer([kept[0]]), model_execution_config=TWICE)
    agent.hooks.add(RecordingTracer([kept[1]]))

    async def main() -> None:
        await agent.call("hi")

    run_virtual(main())
    for each in kept:
        (run,) = (record for record in each.ended if isinstance(record, RunRecord))
        assert (run.parent, run.model_attempts, run.tool_calls) == (None, 3, 1)
        assert {record.run for record in each.ended} == {run, None}
        assert {record.parent for record in each.ended} <= {None, *each.ended}
        assert [record.number for record in each.ended if isinstance(record, ModelRecord)] == [1, 2, 1]


def test_two_exporting_tracers_have_all_spans_in_one_trace() -> None:
    """The current span is one for all providers, so the spans of both are in one trace, each in its own exporter."""
    one, other = Spans(), Spans()
    agent = agent_of(tracer=one.hook())
    agent.hooks.add(other.hook())

    async def main() -> None:
        await agent.call("hi")

    run_virtual(main())
    assert Counter(span.name for span in one.ended) == Counter(span.name for span in other.ended)
    assert len(one.ended) == 7
    assert len({span.context.trace_id for span in (*one.ended, *other.ended) if span.context is not None}) == 1


def test_a_tracer_of_a_sub_agent_only() -> None:
    spans = Spans()
    inner = agent_of(tracer=spans.hook())
    outer = ReActAgent(
        "Outer", ScriptedModel(call("call_friday", message="hi"), "end"), toolkit=Toolkit([inner.as_tool()])
    )

    async def main() -> None:
        await outer.call("hi")

    run_virtual(main())
    assert spans.tree() == TREE


def test_nothing_is_exported_of_an_unsampled_parent() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    seen: list[trace.SpanContext] = []

    @tool
    def look() -> str:
        """Look."""
        seen.append(trace.get_current_span().get_span_context())
        return "seen"

    model = ScriptedModel(call("look"), "end")
    agent = ReActAgent(
        "Friday", model, toolkit=Toolkit([look]), tracer=OpenTelemetryHook(tracer_provider=provider, content=True)
    )

    async def main() -> None:
        with provider.get_tracer("test").start_as_current_span("request") as parent:
            await agent.call("hi")
            (inside,) = seen
            # (what the tool sends carries the decision)
            assert inside.trace_id == parent.get_span_context().trace_id and not inside.trace_flags.sampled

    run_virtual(main())
    assert kept.get_finished_spans() == ()


def test_a_recorder_that_blocks_costs_its_time_only() -> None:
    """It stops the loop as any code of the loop does; the run and its other recorders are the same."""
    blocked, spans = list[str](), Spans()
    gate = threading.Event()

    class Slow(Recorder):
        def begin(self, record: Record, context: Context) -> None:
            gate.wait(0.001)

        def end(self, record: Record) -> None:
            gate.wait(0.001)
            blocked.append(type(record).__name__)

    agent = agent_of(tracer=spans.hook())
    agent.hooks.add(RecordingTracer([Slow()]))

    async def main() -> None:
        assert (await agent.call("hi")).text == "end"

    run_virtual(main())
    assert Counter(blocked) == {"RunRecord": 1, "StageRecord": 3, "ModelRecord": 2, "ToolRecord": 1}
    assert spans.tree() == TREE


class Nowhere(SpanExporter):
    """Exports nothing."""

    def export(self, spans: object) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def test_2000_runs_leave_nothing() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(Nowhere()))

    async def runs(count: int) -> None:
        agent = agent_of()
        for _ in range(count):
            await agent.call("hi")

    def left() -> Counter[str]:
        gc.collect()
        kinds = (Record, ReadableSpan, Context)
        return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))

    instrument(tracer_provider=provider)
    asyncio.run(runs(20))
    before = left()
    asyncio.run(runs(2000))
    assert left() == before
