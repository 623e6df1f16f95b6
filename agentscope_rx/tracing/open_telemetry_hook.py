"""`OpenTelemetryHook`: the runs of an agent as OpenTelemetry spans and metrics.

    ReActAgent("Friday", model, tracer=OpenTelemetryHook())          one agent, and what its tools and models do
    instrument()                                                     every agent of the process: see `instrumentation`

The providers are the global ones unless they are given. Without a provider OpenTelemetry makes spans that record
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from opentelemetry import trace
from opentelemetry.metrics import MeterProvider

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.options import check_flag
from agentscope_rx.tracing import conventions as names
from agentscope_rx.tracing.content import Content
from agentscope_rx.tracing.metrics import Metrics, Prices, meter_of
from agentscope_rx.tracing.recording import Recorder, RecordingTracer
from agentscope_rx.tracing.spans import Clock, Spans


class OpenTelemetryHook(RecordingTracer):
    """A tracer that makes spans and metrics of runs, stages, model attempts and tool calls.

    | option | meaning |
    |---|---|
    | `tracer_provider`, `meter_provider` | where spans and metrics go; None: the global providers |
    | `stages` | False: no spans of stages; model and tool calls are children of the run |
    | `content` | False: no messages, arguments and results; True: all, without secrets; a `Content` selects |
    | `metrics` | False: no metrics |
    | `prices` | prices of models, as in `UsageLimits`: adds the metric `agentscope.cost` |
    | `clock` | the time of spans, in nanoseconds |

    Names and attributes follow OpenTelemetry's GenAI semantic conventions (`SEMCONV_VERSION`). No span stays open: it
    ends with its part, or when the part is disposed of.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        stages: bool = True,
        content: Content | bool = False,
        clock: Clock | None = None,
        metrics: bool = True,
        meter_provider: MeterProvider | None = None,
        prices: Prices | None = None,
    ) -> None:
        if not isinstance(content, (Content, bool)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"content must be True, False or Content(...), not {content!r:.60}.")
        if tracer_provider is not None and not isinstance(tracer_provider, trace.TracerProvider):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"tracer_provider must be an OpenTelemetry TracerProvider, not {tracer_provider!r:.60}."
            )
        check_flag("metrics", metrics)
        tracer = trace.get_tracer(names.SCOPE, version("agentscope-rx"), tracer_provider, names.SCHEMA_URL)
        shown = Content() if content is True else content or None
        recorders: Sequence[Recorder] = (Spans(tracer, content=shown, clock=clock),)
        if metrics:
            recorders = (*recorders, Metrics(meter_of(meter_provider), prices=prices))
        super().__init__(recorders, stages=stages)
