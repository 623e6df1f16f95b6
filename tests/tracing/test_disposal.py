"""Spans at a disposal, at any moment: all have ended, within their parents, and each part has one."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import ReActAgent, tool
from agentscope_rx.models import ChatModel, ExecutionConfig
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import never
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from agentscope_rx.tracing import Recorder, RecordingTracer
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, StageRecord, ToolRecord
from tests.tracing.trees import Spans


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG, "opentelemetry")
    yield
    records = [*caplog.get_records("call"), *caplog.get_records("teardown")]
    assert [each.getMessage() for each in records if each.name.startswith("opentelemetry")] == []


@tool
async def waits(seconds: float = 1.0) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "waited"


@tool(max_concurrency=1)
async def limited() -> str:
    """One at a time."""
    await asyncio.sleep(1)
    return "done"


@tool
def on_thread() -> str:
    """Runs on a worker thread."""
    return "done"


@tool(execution_config=ExecutionConfig(max_attempts=2, initial_backoff=0.5))
async def fails() -> str:
    """Fails twice."""
    raise ConnectionError("no")


class Counting(ScriptedModel):
    """Counts the attempts."""

    attempts = 0

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        self.attempts += 1
        return super().do_stream(messages, tools, options)


def team(spans: Spans) -> tuple[ReActAgent, list[Counting]]:
    """An agent that retries, calls tools side by side, and a sub-agent that does so too."""
    config = ExecutionConfig(max_attempts=3, initial_backoff=0.5)
    inner = Counting(
        [Delay(0.3), "let me", call("waits", seconds=0.7)], [Delay(0.4), "an ", "answer"], execution_config=config
    )
    outer = Counting(
        ConnectionError("no"),
        [
            Delay(0.5),
            "I ",
            "ask",
            *[call("waits"), call("limited"), call("limited"), call("on_thread"), call("fails")],
            call("call_expert", message="?"),
        ],
        [Delay(0.2), call("on_thread")],
        ["The ", Delay(0.2), "end."],
        execution_config=config,
    )
    expert = ReActAgent("Expert", inner, tools=[waits], tracer=spans.hook())
    tools = [waits, limited, on_thread, fails, expert]
    return ReActAgent("Friday", outer, tools=tools, tracer=spans.hook()), [outer, inner]


def check(spans: Spans, models: list[Counting]) -> None:
    spans.assert_whole()
    assert len(spans.named("chat")) == sum(model.attempts for model in models)
    kinds = Counter(span.name.split()[0] for span in spans.ended)
    assert kinds["invoke_agent"] <= 2
    roots = [span for span in spans.ended if span.parent is None]
    assert [span.name for span in roots] == ["invoke_agent Friday"]
    assert len({span.context.trace_id for span in spans.ended if span.context is not None}) == 1


def test_to_the_end() -> None:
    spans = Spans()
    events = 0

    async def main() -> None:
        nonlocal events
        agent, models = team(spans)
        async for _ in agent.stream("hi"):
            events += 1
        check(spans, models)
        assert len(spans.named("execute_tool")) == 8
        assert len(spans.named("chat")) == 6

    run_virtual(main())
    assert events > 30


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 60), way=st.sampled_from(["break", "dispose", "throw", "interrupt", "cancel"]))
def test_an_end_at_any_event(at: int, way: str) -> None:
    spans = Spans()

    async def main() -> None:
        agent, models = team(spans)
        seen = 0

        async def read() -> None:
            nonlocal seen
            async for _ in agent.stream("hi"):
                seen += 1
                if seen == at + 1:
                    if way == "break":
                        break
                    if way == "interrupt":
                        agent.interrupt()
                    if way == "cancel":
                        task.cancel()

        def on_next(event: Any) -> None:
            nonlocal seen
            seen += 1
            if seen == at + 1:
                if way == "throw":
                    raise ValueError(at)
                subscription.dispose()

        with collect_dropped():
            if way in ("dispose", "throw"):
                subscription = agent.stream("hi").subscribe(on_next, lambda error: None)
                await asyncio.sleep(100)
            else:
                task = asyncio.ensure_future(read())
                await asyncio.wait([task])
            await agent.idle()
        check(spans, models)

    run_virtual(main())


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 60))
def test_an_end_at_any_time(at: int) -> None:
    spans = Spans()

    async def main() -> None:
        agent, models = team(spans)
        subscription = agent.stream("hi").subscribe(lambda event: None, lambda error: None)
        await asyncio.sleep(at / 10)
        subscription.dispose()
        ended = len(spans.ended)
        # at once, before any clean-up
        assert ended == len(spans.begun)
        await agent.idle()
        check(spans, models)

    run_virtual(main())


@settings(max_examples=20, deadline=None)
@given(at=st.integers(0, 40))
def test_a_loop_that_shuts_down(at: int) -> None:
    spans = Spans()

    async def main() -> None:
        agent, _ = team(spans)
        agent.stream("hi").subscribe(lambda event: None, lambda error: None)
        await asyncio.sleep(at / 10)

    with collect_dropped():
        run_virtual_and_leave(main())
    spans.assert_whole()


def run_virtual_and_leave(main: Any) -> None:
    """Run in virtual time, and let the loop's shutdown end what is left."""
    from agentscope_rx.testing.virtual_time import VirtualLoop

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main)


def test_a_run_that_is_left_to_the_collector() -> None:
    spans = Spans()

    async def main() -> None:
        agent, models = team(spans)
        pulled = agent.stream("hi").buffered(4)
        for _ in range(6):
            await anext(pulled)
        del pulled
        gc.collect()
        await agent.idle()
        check(spans, models)
        assert spans["invoke_agent Friday"].attributes["agentscope.cancelled"]  # pyright: ignore

    run_virtual(main())


class Silent(ChatModel):
    """Never answers, without a task or a timer."""

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        return never()


def test_a_loop_that_is_lost() -> None:
    spans = Spans()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        agent = ReActAgent("Friday", Silent("silent"), tracer=spans.hook())
        agent.stream("hi").subscribe()
        await asyncio.sleep(0.01)

    loop.run_until_complete(main())
    loop.close()
    assert len(spans.begun) == 3
    del loop
    with collect_dropped():
        gc.collect()
    spans.assert_whole(nested=False)


def test_many_runs_at_once_keep_their_spans_apart() -> None:
    spans = Spans()

    async def main() -> None:
        agents = [team(spans)[0] for _ in range(20)]
        runs = [agent.call("hi").as_task() for agent in agents]
        await asyncio.sleep(1.5)
        for run in runs[::2]:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        for agent in agents:
            await agent.idle()

    run_virtual(main())
    spans.assert_whole()
    traces = Counter(span.context.trace_id for span in spans.ended if span.context is not None)
    assert len(traces) == 20


class Keeping(Recorder):
    """Keeps the records."""

    def __init__(self) -> None:
        self.begun: list[Record] = []
        self.ended: list[Record] = []
        self.first: list[ModelRecord] = []

    def begin(self, record: Record, context: Any) -> None:
        self.begun.append(record)

    def first_chunk(self, record: ModelRecord) -> None:
        self.first.append(record)

    def end(self, record: Record) -> None:
        assert record.ended is not None and record.outcome is not None
        self.ended.append(record)


def test_records_have_times_and_results() -> None:
    kept = Keeping()

    async def main() -> None:
        from agentscope_rx.messages import ChatUsage

        model = ScriptedModel(
            [Delay(2), "one ", Delay(1), call("waits"), call("limited"), call("limited")],
            [Delay(0.5), "end", ChatResponse(usage=ChatUsage(5, 7), id="r1")],
        )
        agent = ReActAgent("Friday", model, tools=[waits, limited], tracer=RecordingTracer([kept]))
        await agent.call("hi")

    run_virtual(main())
    models = [each for each in kept.ended if isinstance(each, ModelRecord)]
    assert [each.time_to_first_chunk for each in models] == [2, 0.5]
    assert [each.seconds for each in models] == [3, 0.5]
    assert models[1].usage is not None and models[1].response_id == "r1"
    assert kept.first == models
    tools = [each for each in kept.begun if isinstance(each, ToolRecord)]
    assert sorted(each.queued for each in tools) == [0, 0, 1]
    assert sorted(each.seconds for each in tools) == [1, 1, 2]
    stages = [each.request.stage for each in kept.begun if isinstance(each, StageRecord)]
    assert stages == ["reasoning", "acting", "reasoning"]
    (run,) = [each for each in kept.begun if isinstance(each, RunRecord)]
    assert run.seconds == 5.5 and run.model_attempts == 2 and run.tool_calls == 3
    assert all(each.run is run for each in kept.begun if each is not run)


def test_a_recorder_that_fails_stops_nothing() -> None:
    class Broken(Recorder):
        def begin(self, record: Record, context: Any) -> None:
            raise ValueError("begin")

        def end(self, record: Record) -> None:
            raise ValueError("end")

        def first_chunk(self, record: ModelRecord) -> None:
            raise ValueError("first")

    kept = Keeping()

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(["a", "b"]), tracer=RecordingTracer([Broken(), kept]))
        with collect_dropped() as dropped:
            assert (await agent.call("hi")).text == "ab"
        assert {str(each) for each in dropped} == {"begin", "end", "first"}

    run_virtual(main())
    assert len(kept.ended) == len(kept.begun) == 3
