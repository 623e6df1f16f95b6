"""The metrics of runs: what they count for every way that a run can end, and that each token counts once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    MetricsData,
    NumberDataPoint,
)
from tenacity import wait_fixed

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.agent.limits import Price, UsageLimits
from agentscope_rx.errors import ConfigurationError, ModelConnectionError
from agentscope_rx.events import BackgroundEvent
from agentscope_rx.hooks.wrapping.requests import CallRequest
from agentscope_rx.messages import ChatUsage, ToolUseBlock
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.models.wrappers import FallbackModel
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from agentscope_rx.testing.scripted_model import Delay, Turn
from agentscope_rx.tracing import Metrics, RunRecord, instrument, uninstrument
from agentscope_rx.tracing.recording import RecordingTracer

PRICES = {"scripted": Price(input=1_000_000, output=2_000_000), "other": Price(input=3_000_000, output=0)}
KINDS = (HistogramDataPoint, NumberDataPoint)
BROKEN = ModelConnectionError("No connection.")


class Measured:
    """Agents with metrics, and what these say."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        meter = MeterProvider([self.reader], shutdown_on_exit=False).get_meter("test")
        self.metrics = Metrics(meter, prices=PRICES)
        self.tracer = RecordingTracer([self.metrics], stages=False)

    def points(self, name: str) -> Sequence[HistogramDataPoint | NumberDataPoint]:
        data = self.reader.get_metrics_data()
        found: list[HistogramDataPoint | NumberDataPoint] = []
        for each in _metrics(data):
            if each.name == name:
                found += [point for point in each.data.data_points if isinstance(point, KINDS)]
        return found

    def sums(self, name: str, *keys: str) -> Mapping[tuple[str, ...], float]:
        """The sum of each combination of these attributes."""
        sums: dict[tuple[str, ...], float] = {}
        for point in self.points(name):
            key = tuple(str((point.attributes or {}).get(each, "")) for each in keys)
            value = point.sum if isinstance(point, HistogramDataPoint) else point.value
            sums[key] = sums.get(key, 0) + value
        return sums

    def counts(self, name: str, *keys: str) -> Mapping[tuple[str, ...], int]:
        """The number of values of each combination of these attributes."""
        counts: dict[tuple[str, ...], int] = {}
        for point in self.points(name):
            assert isinstance(point, HistogramDataPoint)
            key = tuple(str((point.attributes or {}).get(each, "")) for each in keys)
            counts[key] = counts.get(key, 0) + point.count
        return counts

    @property
    def tokens(self) -> tuple[float, float]:
        sums = self.sums("gen_ai.client.token.usage", "gen_ai.token.type")
        return sums.get(("input",), 0), sums.get(("output",), 0)

    @property
    def active(self) -> float:
        return sum(self.sums("agentscope.runs.active").values())


def _metrics(data: MetricsData | None) -> Iterator[Metric]:
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            yield from scope.metrics


@tool
async def search(q: str) -> str:
    """Finds."""
    await asyncio.sleep(2)
    if q == "bad":
        raise ValueError("nothing")
    return q


def used(input: int, output: int) -> ChatResponse:
    return ChatResponse(usage=ChatUsage(input, output))


def test_model_calls_tools_and_run_are_measured() -> None:
    measured = Measured()
    model = ScriptedModel((Delay(3), call("search", "c1", q="a"), used(10, 4)), (Delay(1), "done", used(20, 5)))
    agent = ReActAgent("friday", model, toolkit=Toolkit([search]), tracer=measured.tracer)
    run_virtual(agent.call("hi"))
    model_call = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "error.type")
    key = ("chat", "scripted", "scripted", "")
    assert measured.counts("gen_ai.client.operation.duration", *model_call) == {key: 2}
    assert measured.sums("gen_ai.client.operation.duration")[()] == pytest.approx(4)
    assert measured.sums("gen_ai.client.operation.time_to_first_chunk")[()] == pytest.approx(4)
    assert measured.tokens == (30, 9)
    assert measured.sums("agentscope.cost", "gen_ai.request.model") == {("scripted",): 30 + 18}
    assert measured.sums("agentscope.tool.duration", "gen_ai.tool.name", "agentscope.tool.result") == {
        ("search", "completed"): pytest.approx(2)
    }
    assert measured.sums("agentscope.run.duration", "gen_ai.agent.name", "agentscope.outcome") == {
        ("friday", "completed"): pytest.approx(6)
    }
    assert measured.active == 0


def test_buckets_are_those_of_the_conventions() -> None:
    measured = Measured()
    run_virtual(ReActAgent("friday", ScriptedModel(("a", used(1, 1))), tracer=measured.tracer).call("hi"))
    (tokens, _) = measured.points("gen_ai.client.token.usage")
    (duration,) = measured.points("gen_ai.client.operation.duration")
    assert isinstance(tokens, HistogramDataPoint) and isinstance(duration, HistogramDataPoint)
    assert tuple(tokens.explicit_bounds) == tuple(4.0**n for n in range(14))
    assert tuple(duration.explicit_bounds) == tuple(0.01 * 2**n for n in range(14))


def ended(turns: Sequence[Turn], end: Callable[[ReActAgent], object], **options: object) -> Measured:
    measured = Measured()
    agent = ReActAgent(
        "friday",
        ScriptedModel(*turns),
        toolkit=Toolkit([search]),
        tracer=measured.tracer,
        **options,  # pyright: ignore[reportArgumentType]
    )

    async def run() -> None:
        stream = agent.stream("hi").subscribe(lambda event: None, lambda error: None)
        await asyncio.sleep(1)
        end(agent)
        if end is disposed:
            stream.dispose()
        await agent.idle()

    run_virtual(run())
    return measured


def nothing(agent: ReActAgent) -> None: ...
def disposed(agent: ReActAgent) -> None: ...
def interrupted(agent: ReActAgent) -> None:
    agent.interrupt()


LOOPS = [call("search", q="a")] * 3
ENDS: dict[str, tuple[Sequence[Turn], Callable[[ReActAgent], object], dict[str, object], tuple[str, str]]] = {
    "completed": (["a"], nothing, {}, ("completed", "")),
    "failed": ([BROKEN], nothing, {}, ("failed", "agentscope_rx.errors.model.ModelConnectionError")),
    "interrupted in a model call": ([HANG], interrupted, {}, ("interrupted", "")),
    "interrupted in a tool": ([LOOPS[0], "a"], interrupted, {}, ("interrupted", "")),
    "disposed of in a model call": ([HANG], disposed, {}, ("cancelled", "")),
    "disposed of in a tool": ([LOOPS[0]], disposed, {}, ("cancelled", "")),
    "limited": ([*LOOPS, "summary"], nothing, {"max_iters": 2}, ("limited", "")),
}


@pytest.mark.parametrize("way", ENDS)
def test_every_end_of_a_run_is_counted_once(way: str) -> None:
    turns, end, options, expected = ENDS[way]
    measured = ended(turns, end, **options)
    assert measured.counts("agentscope.run.duration", "agentscope.outcome", "error.type") == {expected: 1}
    assert measured.active == 0


def test_results_of_tools_are_told_apart() -> None:
    measured = Measured()
    calls = [
        call("search", "c1", q="bad"),
        call("made_up_4711", "c2"),
        call("search", "c3"),
        call("search", "c4", q="a"),
    ]
    agent = ReActAgent("friday", ScriptedModel(calls, "done"), toolkit=Toolkit([search]), tracer=measured.tracer)
    run_virtual(agent.call("hi"))
    assert measured.counts("agentscope.tool.duration", "gen_ai.tool.name", "agentscope.tool.result") == {
        ("search", "failed"): 1,
        ("_OTHER", "not_found"): 1,
        ("search", "invalid_arguments"): 1,
        ("search", "completed"): 1,
    }


def test_waits_are_measured_apart_from_the_work() -> None:
    measured = Measured()

    @tool(max_concurrency=1)
    async def narrow() -> str:
        """One at a time."""
        await asyncio.sleep(2)
        return "ok"

    model = ScriptedModel([call("narrow", f"c{n}") for n in range(3)], "done", "again")
    tools = Toolkit([narrow], parallel=True)
    agent = ReActAgent("friday", model, toolkit=tools, tracer=measured.tracer, when_busy="queue")

    async def ask() -> None:
        await agent.call("hi")

    async def both() -> None:
        await asyncio.gather(ask(), ask())

    run_virtual(both())
    assert measured.sums("agentscope.tool.duration") == {(): pytest.approx(6)}
    assert measured.sums("agentscope.tool.queued") == {(): pytest.approx(2 + 4)}
    assert measured.sums("agentscope.run.queued") == {(): pytest.approx(6)}


# --- tokens -----------------------------------------------------------------------------------------------------------

ONCE_MORE = ExecutionConfig(max_attempts=4, wait=wait_fixed(1))


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tokens_are_those_of_the_run(data: st.DataObject) -> None:
    """Each token once: of retries, fallbacks, several rounds and sub-agents."""
    counts = st.builds(used, st.integers(0, 50), st.integers(0, 50))

    def turns(rounds: int, name: str | None) -> list[Turn]:
        found: list[Turn] = []
        for n in range(rounds):
            for _ in range(data.draw(st.integers(0, 2))):
                found.append((data.draw(counts), BROKEN))
            last = n == rounds - 1
            asks = call(name or "search", **({"message": "go"} if name else {"q": "a"}))
            found.append(("done", data.draw(counts)) if last else (asks, data.draw(counts)))
        return found

    def model(rounds: int, name: str | None) -> FallbackModel:
        first = ScriptedModel(*[(data.draw(counts), BROKEN)] * rounds, model_name="other")
        return FallbackModel(first, ScriptedModel(*turns(rounds, name), execution_config=ONCE_MORE))

    measured = Measured()
    inner = ReActAgent(
        "inner", model(data.draw(st.integers(1, 2)), None), toolkit=Toolkit([search]), tracer=measured.tracer
    )
    tools = Toolkit([inner.as_tool()])
    rounds = data.draw(st.integers(1, 2))
    outer = ReActAgent("outer", model(rounds, "call_inner"), toolkit=tools, tracer=measured.tracer)
    handle_cost: list[float] = []

    async def run() -> ChatUsage | None:
        handle = outer.start("hi", limits=UsageLimits(cost=1e12, prices=PRICES))
        message = await handle.result()
        handle_cost.append(handle.stats().run.cost)  # pyright: ignore[reportOptionalMemberAccess]
        return message.usage

    usage = run_virtual(run())
    assert usage is not None
    assert measured.tokens == (usage.input_tokens, usage.output_tokens)
    assert sum(measured.sums("agentscope.cost").values()) == pytest.approx(handle_cost[0])


def test_retries_are_counted_by_their_stage() -> None:
    measured = Measured()
    tries: list[int] = []

    @tool(execution_config=ONCE_MORE)
    async def flaky() -> str:
        """Fails once."""
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError
        return "ok"

    model = ScriptedModel(BROKEN, BROKEN, call("flaky"), "done", execution_config=ONCE_MORE)
    run_virtual(ReActAgent("friday", model, toolkit=Toolkit([flaky]), tracer=measured.tracer).call("hi"))
    assert measured.sums("agentscope.retries", "agentscope.stage", "error.type") == {
        ("model", "ModelConnectionError"): 2,
        ("tool", "TimeoutError"): 1,
    }


def test_background_work_is_counted_by_its_state() -> None:
    measured = Measured()
    record = RunRecord(clock=float, started=0.0, request=CallRequest())
    event = BackgroundEvent(job="j", tool_use=ToolUseBlock("c", "f"))
    for state in ("started", "started", "completed"):
        measured.metrics.event(record, replace(event, state=state))
    assert measured.sums("agentscope.background.jobs", "agentscope.job.state") == {("started",): 2, ("completed",): 1}


def test_attributes_are_few_and_name_no_run() -> None:
    measured = Measured()
    for n in range(30):
        calls = [call(f"made_up_{n}", f"c{n}")]
        run_virtual(
            ReActAgent("friday", ScriptedModel((*calls, used(1, 1)), "a"), tracer=measured.tracer).call(f"hi {n}")
        )
    points = [point for each in _metrics(measured.reader.get_metrics_data()) for point in each.data.data_points]
    assert 0 < len(points) < 12
    assert not any("made_up" in str(point.attributes) or "hi " in str(point.attributes) for point in points)


def test_bad_prices_and_providers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="prices is a table"):
        Metrics(prices=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="meter_provider must be"):
        instrument(meter_provider="here")  # pyright: ignore[reportArgumentType]


def test_prices_by_a_function_and_unknown_models() -> None:
    measured = Measured()
    by_function = Metrics(
        MeterProvider([reader := InMemoryMetricReader()], shutdown_on_exit=False).get_meter("x"),
        prices=lambda model, usage: 0.5,
    )
    measured.reader, measured.tracer = reader, RecordingTracer([by_function])
    model = ScriptedModel(("a", used(1, 1)), model_name="unknown")
    run_virtual(ReActAgent("friday", model, tracer=measured.tracer).call("hi"))
    assert measured.sums("agentscope.cost") == {(): 0.5}
    other = Measured()
    model = ScriptedModel(("a", used(1, 1)), model_name="unknown")
    run_virtual(ReActAgent("friday", model, tracer=other.tracer).call("hi"))
    assert other.sums("agentscope.cost") == {}


def test_instrumented_process_has_metrics() -> None:
    reader = InMemoryMetricReader()
    measured = Measured()
    measured.reader = reader
    instrument(meter_provider=MeterProvider([reader], shutdown_on_exit=False), prices=PRICES)
    try:
        run_virtual(ReActAgent("friday", ScriptedModel(("a", used(2, 1)))).call("hi"))
    finally:
        uninstrument()
    assert measured.tokens == (2, 1)
