"""`propagate_context`: W3C trace context in requests to models, and out of requests to the service.

    propagate_context()                                       both
    propagate_context(models=["gateway.example.com"])         to these hosts only
    propagate_context(models=False)                           out of requests to the service only
    stop_propagating()

| request                       | carries the trace context                                                          |
|-------------------------------|------------------------------------------------------------------------------------|
| to a model                    | `traceparent` and `tracestate` of the attempt's span; each retry has its own       |
| to the service                | a run that it begins is a child of the caller's span                               |
| to an MCP server              | in `_meta` of the request, by the MCP SDK, with the propagators of OpenTelemetry   |
| from an MCP client            | a tool call is a child of the caller's span, by the MCP SDK                        |

A `traceparent` holds two random ids and a flag; it says nothing of the conversation. As with OpenTelemetry's
instrumentation of HTTP clients it goes to every host, unless `models` names some. Baggage, which may hold data of
users, is not sent to models. A request whose headers already have a `traceparent` keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, cast

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.tools.options import check_flag
from agentscope_rx.trace_context import TRACE_CONTEXT

if TYPE_CHECKING:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator


class W3CTraceContext:
    """The trace context of OpenTelemetry's current span, as W3C headers."""

    __slots__ = ("_propagator", "models", "service")

    def __init__(
        self, propagator: TraceContextTextMapPropagator, models: bool | frozenset[str], *, service: bool
    ) -> None:
        self._propagator = propagator
        self.models: bool | frozenset[str] = models
        self.service: bool = service

    def outgoing(self, host: str) -> Mapping[str, str]:
        """The headers of the current span; none for a host that is not to have them."""
        headers: dict[str, str] = {}
        if self.models is True or (self.models is not False and host.lower() in self.models):
            self._propagator.inject(headers)
        return headers

    def incoming(self, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """The caller's span as the current one; nothing if there is one already, such as that of a web framework."""
        from opentelemetry import trace

        if not self.service or "traceparent" not in headers:
            return nullcontext()
        if trace.get_current_span().get_span_context().is_valid:
            return nullcontext()
        return self._within(headers)

    @contextmanager
    def _within(self, headers: Mapping[str, str]) -> Generator[None]:
        from opentelemetry import context

        token = context.attach(self._propagator.extract(headers))
        try:
            yield
        finally:
            context.detach(token)


def propagate_context(*, models: bool | Collection[str] = True, service: bool = True) -> None:
    """Send the trace context to models, and read it from requests to the service, in the whole process.

    `models` may name the hosts that get it; False is none. `service=False` does not read it. A second call replaces the
    first. Without a tracer there is no current span, and nothing is sent. Baggage is never sent to models.
    """
    check_flag("propagate_context: service", service)
    hosts = models if isinstance(models, bool) else _hosts(models)
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError as error:
        raise MissingExtraError("opentelemetry-api", "otel") from error
    TRACE_CONTEXT.here = W3CTraceContext(TraceContextTextMapPropagator(), hosts, service=service)


def stop_propagating() -> None:
    """Undo `propagate_context()`."""
    TRACE_CONTEXT.here = None


def _hosts(models: object) -> frozenset[str]:
    given = list(cast("Collection[object]", models)) if isinstance(models, (list, tuple, set, frozenset)) else [None]
    names = [each.lower() for each in given if isinstance(each, str) and each and not set(each) & set("/ @")]
    if len(names) < len(given):
        raise ConfigurationError(
            "propagate_context: models is True, False or names of hosts, such as ['api.openai.com'], not "
            f"{models!r:.60}."
        )
    return frozenset(names)
