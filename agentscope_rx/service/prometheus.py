"""The figures of requests and runs, by OpenTelemetry, for Prometheus. Needs the extra `prometheus`.

| metric                            | kind      | attributes                                                      |
|-----------------------------------|-----------|-----------------------------------------------------------------|
| `http.server.request.duration`    | histogram | `http.request.method`, `http.route`, `http.response.status_code` |
| `http.server.active_requests`     | up-down   | `http.request.method`                                            |
| `agentscope.service.runs`         | gauge     | `agentscope.run.state`: live, kept                               |
| `agentscope.service.clients`      | gauge     | clients that follow runs                                         |

The first two are those of OpenTelemetry's conventions for HTTP servers. With
`instrument(meter_provider=meter_provider())` the route has those of agents, models and tools, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.service.host import AgentHost

try:
    from opentelemetry import metrics
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
except ModuleNotFoundError:
    raise MissingExtraError("opentelemetry-exporter-prometheus", "prometheus") from None

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.types import Scope

    from agentscope_rx.service.request_record import RequestRecord

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 300)
"""The conventions' bounds, and longer ones, because a run may stream for minutes."""
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"))


@cache
def meter_provider() -> MeterProvider:
    """The process's provider, whose figures `GET /metrics` gives. It is not the global one, which is the program's."""
    return MeterProvider([PrometheusMetricReader()])


def metrics_route(path: str = "/metrics") -> Route:
    """The route that Prometheus reads."""

    async def figures(request: Request) -> Response:
        return Response(generate_latest(REGISTRY), media_type=CONTENT_TYPE_LATEST)

    return Route(path, figures, methods=["GET"])


class HttpMetrics:
    """The figures of one application."""

    def __init__(self, host: AgentHost) -> None:
        meter: metrics.Meter = meter_provider().get_meter("agentscope_rx.service")
        self._host = host
        self._duration = meter.create_histogram(
            "http.server.request.duration",
            "s",
            "Duration of HTTP server requests.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._active = meter.create_up_down_counter(
            "http.server.active_requests", "{request}", "Number of active HTTP server requests."
        )
        meter.create_observable_gauge("agentscope.service.runs", [self._runs], "{run}", "Runs of the service.")
        meter.create_observable_gauge("agentscope.service.clients", [self._clients], "{client}", "Clients of the runs.")

    def begin(self, scope: Scope) -> None:
        """A request has come."""
        self._active.add(1, {"http.request.method": _method(scope)})

    def end(self, scope: Scope, record: RequestRecord) -> None:
        """Its response has ended."""
        method = _method(scope)
        self._active.add(-1, {"http.request.method": method})
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "http.response.status_code": record.status,
        }
        # without a route no attribute: clients make up any number of paths
        route = scope.get("route")
        if route is not None:
            attributes["http.route"] = str(route.path)
        self._duration.record(record.seconds, attributes)

    def _runs(self, options: CallbackOptions) -> Iterable[Observation]:
        numbers = self._host.runs.statistics()
        yield Observation(numbers.live, {"agentscope.run.state": "live"})
        yield Observation(numbers.kept, {"agentscope.run.state": "kept"})

    def _clients(self, options: CallbackOptions) -> Iterable[Observation]:
        yield Observation(self._host.runs.statistics().clients)


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in _METHODS else "_OTHER"
