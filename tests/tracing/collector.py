"""A small OTLP collector on loopback: takes spans and metrics by HTTP, as protobuf, and keeps them."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Serves on its own thread; `raw` are the bodies, as they came. All get this status."""

    def __init__(self, status: int = 200) -> None:
        self.raw: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.raw.append((self.path, body))
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        """All spans, in the order of their beginnings."""
        found: list[Span] = []
        for path, body in self.raw:
            if path.endswith("/v1/traces"):
                request = ExportTraceServiceRequest.FromString(body)
                found += [span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans]
        return sorted(found, key=lambda span: span.start_time_unix_nano)

    @property
    def metrics(self) -> dict[str, list[dict[str, object]]]:
        """The attributes of the points of each metric."""
        found: dict[str, list[dict[str, object]]] = {}
        for path, body in self.raw:
            if path.endswith("/v1/metrics"):
                request = ExportMetricsServiceRequest.FromString(body)
                for metric in (
                    m for each in request.resource_metrics for scope in each.scope_metrics for m in scope.metrics
                ):
                    points = [*metric.histogram.data_points, *metric.sum.data_points]
                    found[metric.name] = [fields(point.attributes) for point in points]
        return found


def fields(attributes: object) -> dict[str, object]:
    """Attributes as a dict."""
    return {each.key: value(each.value) for each in attributes if isinstance(each, KeyValue)}  # type: ignore[attr-defined]


def value(given: AnyValue) -> object:
    kind = given.WhichOneof("value")
    if kind == "array_value":
        return [value(each) for each in given.array_value.values]
    return None if kind is None else getattr(given, kind)
