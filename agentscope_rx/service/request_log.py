"""`RequestLog`: ASGI middleware that logs and measures requests.

A record of the logger `agentscope_rx.access` for each request, when its response has ended:

| field of `record.request` | |
|---|---|
| `method`, `path`, `client` | of the request; the path without its query, which may hold secrets |
| `status` | of the response; 499 if the client left before it |
| `seconds`, `first_byte_seconds` | until the end of the response, and until its first bytes |
| `bytes` | of the response's body |
| `complete` | the response was sent to its end |
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from agentscope_rx.guard.clients import client_of
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.request_record import RequestRecord

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentscope_rx.service.prometheus import HttpMetrics

CLIENT_LEFT = 499
"""The status in the log if no response was sent: nginx's."""

ACCESS_LOG = "agentscope_rx.access"
_log = logging.getLogger(ACCESS_LOG)


class RequestLog:
    """Passes requests on to `app`; logs them with `log`, measures them with `metrics`."""

    def __init__(self, app: ASGIApp, *, host: AgentHost, log: bool = True, metrics: bool = False) -> None:
        self._app = app
        self._log = log
        self._metrics: HttpMetrics | None = None
        if metrics:
            # imported here: it needs the packages of an extra
            from agentscope_rx.service.prometheus import HttpMetrics

            self._metrics = HttpMetrics(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status, first, size, complete = 0, None, 0, False

        async def watched(message: Message) -> None:
            nonlocal status, first, size, complete
            await send(message)
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                first = time.perf_counter() - began if first is None else first
                size += len(message.get("body", b""))
                complete = not message.get("more_body", False)

        if self._metrics is not None:
            self._metrics.begin(scope)
        try:
            await self._app(scope, receive, watched)
        finally:
            record = RequestRecord(
                scope["method"],
                scope["path"],
                client_of(scope),
                status or CLIENT_LEFT,
                time.perf_counter() - began,
                first,
                size,
                complete,
            )
            self._ended(scope, record)

    def _ended(self, scope: Scope, record: RequestRecord) -> None:
        if self._metrics is not None:
            self._metrics.end(scope, record)
        if self._log:
            _log.info(
                "%s %s %d %d bytes %.3f s%s",
                record.method,
                record.path,
                record.status,
                record.bytes,
                record.seconds,
                "" if record.complete else " cut",
                extra={"request": record._asdict()},
            )
