"""`TraceParent`: ASGI middleware that makes the span of a request's caller the parent of the runs that it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.trace_context import TRACE_CONTEXT

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_FIELDS = (b"traceparent", b"tracestate")


class TraceParent:
    """Passes requests on; those with a `traceparent` in its context, if one is wanted (`propagate_context`)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = TRACE_CONTEXT.here
        if here is None or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            if name in _FIELDS:
                # several lines of tracestate are one list
                key, text = name.decode("latin-1"), value.decode("latin-1")
                headers[key] = f"{headers[key]},{text}" if key in headers else text
        with here.incoming(headers):
            await self._app(scope, receive, send)
