"""`Metrics`: the records of runs as OpenTelemetry metrics.

| metric                                        | kind      | unit      | attributes                                  |
|-----------------------------------------------|-----------|-----------|---------------------------------------------|
| `gen_ai.client.token.usage`                   | histogram | {token}   | model call, `gen_ai.token.type`             |
| `gen_ai.client.operation.duration`            | histogram | s         | model call, `error.type`                    |
| `gen_ai.client.operation.time_to_first_chunk` | histogram | s         | model call                                  |
| `agentscope.cost`                             | counter   | 1         | model call; only with `prices`              |
| `agentscope.run.duration`                     | histogram | s         | agent, `agentscope.outcome`, `error.type`   |
| `agentscope.run.queued`                       | histogram | s         | agent: the wait for its turn, if any        |
| `agentscope.runs.active`                      | up-down   | {run}     | agent                                       |
| `agentscope.tool.duration`                    | histogram | s         | tool, `agentscope.tool.result`; no waits    |
| `agentscope.tool.queued`                      | histogram | s         | tool: the wait for a limit, if any          |
| `agentscope.retries`                          | counter   | {attempt} | `agentscope.stage`, `error.type`            |
| `agentscope.background.jobs`                  | counter   | {job}     | `agentscope.job.state`                      |

The attributes of a model call are `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, and the
server's address and port. A model call is one attempt: the tokens of a failed one count, and each token once, for a
sub-agent's run not again for its caller. No attribute has ids or content; a tool that does not exist is `_OTHER`, as a
model can make up any number of names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import Context
from importlib.metadata import version
from typing import Final, Protocol, cast

from opentelemetry import metrics
from opentelemetry.util.types import AttributeValue

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import BackgroundEvent, Event, RetryEvent
from agentscope_rx.messages import ChatUsage, GenerateReason, ToolResultKind
from agentscope_rx.reactive import Outcome
from agentscope_rx.tracing import conventions as names
from agentscope_rx.tracing.recording import Recorder
from agentscope_rx.tracing.records import ModelRecord, Record, RunRecord, ToolRecord

TOKEN_USAGE: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
TOKEN_TYPE: Final = "gen_ai.token.type"
COST: Final = "agentscope.cost"
RUN_DURATION: Final = "agentscope.run.duration"
RUN_QUEUED: Final = "agentscope.run.queued"
RUNS_ACTIVE: Final = "agentscope.runs.active"
TOOL_DURATION: Final = "agentscope.tool.duration"
TOOL_QUEUED: Final = "agentscope.tool.queued"
RETRIES: Final = "agentscope.retries"
JOBS: Final = "agentscope.background.jobs"
OUTCOME: Final = "agentscope.outcome"
JOB_STATE: Final = "agentscope.job.state"

UNKNOWN: Final = "_OTHER"
SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The bounds of the buckets of a duration, by the conventions."""
TOKENS: Final = tuple(4**n for n in range(14))
"""Those of tokens."""

Attributes = Mapping[str, AttributeValue]


class PriceOf(Protocol):
    """A price of a model, such as `Price(input=0.25, output=2.0)`."""

    def of(self, usage: ChatUsage) -> float:
        """The cost of this usage."""
        ...


Prices = Mapping[str, PriceOf] | Callable[[str, ChatUsage], float]
"""Prices by the name of the model, as in `UsageLimits`; a model without one costs nothing here."""


class Metrics(Recorder):
    """Records tokens, durations, waits, retries, jobs and costs as OpenTelemetry metrics.

        ReActAgent(..., tracer=RecordingTracer([Metrics()], stages=False))        # without spans

    `meter` is that of the global provider unless it is given. `prices` are those of `UsageLimits`, all in one currency.
    No attribute holds an id or content, so that your models, agents and tools bound the number of series.
    """

    def __init__(self, meter: metrics.Meter | None = None, *, prices: Prices | None = None) -> None:
        given = cast("object", prices)
        if given is not None and not callable(given) and not isinstance(given, Mapping):
            raise ConfigurationError(f"prices is a table by model name, or a function, not {prices!r:.60}.")
        for model, price in cast("Mapping[str, object]", given).items() if isinstance(given, Mapping) else ():
            if not callable(getattr(price, "of", None)):
                raise ConfigurationError(
                    f"prices[{model!r}] must be a Price(input=..., output=...), not {price!r:.60}."
                )
        self._prices = prices
        meter = meter_of(None) if meter is None else meter

        def histogram(name: str, description: str, unit: str = "s") -> metrics.Histogram:
            bounds = TOKENS if unit == "{token}" else SECONDS
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = histogram(TOKEN_USAGE, "Number of input and output tokens used.", "{token}")
        self._duration = histogram(DURATION, "GenAI operation duration.")
        self._first_chunk = histogram(FIRST_CHUNK, "Time to receive the first chunk.")
        self._cost = meter.create_counter(COST, "1", "Cost of model calls, in the currency of the prices.")
        self._run = histogram(RUN_DURATION, "Duration of runs, with the wait for their turn and their clean-up.")
        self._run_queued = histogram(RUN_QUEUED, "Time that runs waited for their turn.")
        self._active = meter.create_up_down_counter(RUNS_ACTIVE, "{run}", "Runs in progress.")
        self._tool = histogram(TOOL_DURATION, "Duration of tool calls, from their beginning to their result.")
        self._tool_queued = histogram(TOOL_QUEUED, "Time that tool calls waited for their limits.")
        self._retries = meter.create_counter(RETRIES, "{attempt}", "Further attempts of model and tool calls.")
        self._jobs = meter.create_counter(JOBS, "{job}", "Changes of work in the background, by the new state.")

    def begin(self, record: Record, context: Context) -> None:
        """Count a run that is in progress."""
        if isinstance(record, RunRecord):
            self._active.add(1, {names.AGENT_NAME: names.shown(record.agent)})

    def event(self, record: RunRecord, event: Event) -> None:
        """Count retries and background work."""
        if isinstance(event, RetryEvent):
            self._retries.add(1, {names.STAGE: event.stage, names.ERROR_TYPE: event.error_type})
        elif isinstance(event, BackgroundEvent):
            self._jobs.add(1, {JOB_STATE: event.state})

    def end(self, record: Record) -> None:
        """Record the times, the tokens and the cost of the part."""
        if isinstance(record, ModelRecord):
            self._model_ended(record)
        elif isinstance(record, ToolRecord):
            self._tool_ended(record)
        elif isinstance(record, RunRecord):
            self._run_ended(record)

    def _model_ended(self, record: ModelRecord) -> None:
        request = record.request
        given: dict[str, AttributeValue] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: names.provider_name(request.provider),
            names.REQUEST_MODEL: request.model_name,
        }
        if request.address is not None:
            given[names.SERVER_ADDRESS], given[names.SERVER_PORT] = request.address
        if (first := record.time_to_first_chunk) is not None:
            self._first_chunk.record(first, given)
        usage = record.usage
        if usage is not None:
            self._tokens.record(usage.input_tokens, {**given, TOKEN_TYPE: "input"})
            self._tokens.record(usage.output_tokens, {**given, TOKEN_TYPE: "output"})
            cost = self._cost_of(request.model_name, usage)
            if cost:
                self._cost.add(cost, given)
        self._duration.record(record.seconds, {**given, **_failure(record)})

    def _cost_of(self, model: str, usage: ChatUsage) -> float:
        prices = self._prices
        if prices is None:
            return 0.0
        if isinstance(prices, Mapping):
            price = cast("Mapping[str, PriceOf]", prices).get(model)
            return 0.0 if price is None else price.of(usage)
        return prices(model, usage)

    def _tool_ended(self, record: ToolRecord) -> None:
        request = record.request
        given = {names.TOOL_NAME: UNKNOWN if request.schema is None else names.shown(request.call.name)}
        if record.queued > 0:
            self._tool_queued.record(record.queued, given)
        taken = max(record.seconds - record.queued, 0.0)
        self._tool.record(taken, {**given, names.RESULT: _result(record), **_failure(record)})

    def _run_ended(self, record: RunRecord) -> None:
        given = {names.AGENT_NAME: names.shown(record.agent)}
        self._active.add(-1, given)
        if record.began is not None and record.began > record.started:
            self._run_queued.record(record.began - record.started, given)
        self._run.record(record.seconds, {**given, OUTCOME: _outcome(record), **_failure(record)})


def meter_of(provider: metrics.MeterProvider | None) -> metrics.Meter:
    """This library's meter of the provider, None being the global one."""
    given = cast("object", provider)
    if given is not None and not isinstance(given, metrics.MeterProvider):
        raise ConfigurationError(f"meter_provider must be an OpenTelemetry MeterProvider, not {provider!r:.60}.")
    return metrics.get_meter(names.SCOPE, version("agentscope-rx"), provider, names.SCHEMA_URL)


def _failure(record: Record) -> Attributes:
    return {} if record.error is None else {names.ERROR_TYPE: names.error_type(record.error)}


def _result(record: ToolRecord) -> str:
    """The kind of the result; `completed` for a success, `cancelled` without a result."""
    if record.result is None:
        return "failed" if record.outcome is Outcome.FAILED else "cancelled"
    return "completed" if record.kind is None else record.kind.value


_WAITS = (GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED)


def _outcome(record: RunRecord) -> str:
    """How the run ended, in few words: completed, waits, interrupted, limited, failed, cancelled."""
    if record.outcome is not Outcome.COMPLETED:
        return "failed" if record.outcome is Outcome.FAILED else "cancelled"
    reason = record.reason
    if reason is GenerateReason.INTERRUPTED:
        return ToolResultKind.INTERRUPTED.value
    if reason in (GenerateReason.MAX_ITERATIONS, GenerateReason.LIMIT_REACHED):
        return "limited"
    return "waits" if reason in _WAITS else "completed"
