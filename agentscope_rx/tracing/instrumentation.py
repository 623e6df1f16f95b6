"""`instrument`: every agent of the process has spans and metrics, those that exist already, too.

    instrument()              once, where the program begins
    uninstrument()            runs in progress keep their spans

An agent with a tracer of its own that stands alone, an `OpenTelemetryHook` or `UNTRACED`, has none of the process's.
"""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.metrics import MeterProvider

from agentscope_rx.hooks.process_wide import trace_process, untrace_process
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.tracing.content import Content
from agentscope_rx.tracing.metrics import Prices
from agentscope_rx.tracing.open_telemetry_hook import OpenTelemetryHook
from agentscope_rx.tracing.spans import Clock


class _Instrumented:
    """The tracer of the process."""

    __slots__ = ("hook", "lock", "options")

    def __init__(self) -> None:
        self.lock = new_lock()
        self.hook: OpenTelemetryHook | None = None
        self.options: tuple[object, ...] = ()


_INSTRUMENTED = _Instrumented()


def instrument(
    *,
    tracer_provider: trace.TracerProvider | None = None,
    stages: bool = True,
    content: Content | bool = False,
    clock: Clock | None = None,
    metrics: bool = True,
    meter_provider: MeterProvider | None = None,
    prices: Prices | None = None,
) -> OpenTelemetryHook:
    """Trace the runs of all agents that begin from now on; the options are those of `OpenTelemetryHook`.

        instrument(tracer_provider=provider, content=Content(max_chars=500))

    A second call with the same options changes nothing; with others it replaces the first. An agent with an
    `OpenTelemetryHook` of its own, or `UNTRACED`, is not traced by it. It may be called from any thread.
    """
    options = (tracer_provider, stages, content, clock, metrics, meter_provider, prices)
    with _INSTRUMENTED.lock:
        before = _INSTRUMENTED.hook
        if before is not None and _INSTRUMENTED.options == options:
            return before
        hook = OpenTelemetryHook(
            tracer_provider=tracer_provider,
            stages=stages,
            content=content,
            clock=clock,
            metrics=metrics,
            meter_provider=meter_provider,
            prices=prices,
        )
        trace_process(hook)
        if before is not None:
            untrace_process(before)
        _INSTRUMENTED.hook, _INSTRUMENTED.options = hook, options
        return hook


def uninstrument() -> None:
    """Undo `instrument()` for runs that begin from now on. It may be called from any thread."""
    with _INSTRUMENTED.lock:
        if _INSTRUMENTED.hook is not None:
            untrace_process(_INSTRUMENTED.hook)
            _INSTRUMENTED.hook = None
