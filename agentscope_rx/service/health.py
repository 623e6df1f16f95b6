"""`HealthChecks`: answers the questions of a load balancer, without a token.

| request | 200 | 503 |
|---|---|---|
| `GET /healthz` | the process answers | |
| `GET /readyz` | requests are welcome | the host drains, or its store does not answer |
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from agentscope_rx.reactive import timeout
from agentscope_rx.service.host import AgentHost

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

STORE_SECONDS = 2.0
"""How long the store may take to answer."""

_log = logging.getLogger("agentscope_rx")


class HealthChecks:
    """ASGI middleware: answers the two requests, and passes all others on to `app`."""

    def __init__(self, app: ASGIApp, host: AgentHost) -> None:
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            if scope["path"] == "/healthz":
                await JSONResponse({"status": "ok"})(scope, receive, send)
                return
            if scope["path"] == "/readyz":
                await (await self._ready())(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _ready(self) -> JSONResponse:
        host = self._host
        if host.draining:
            return _not_ready("draining")
        try:
            # any key: the store must be able to look
            await host.session.exists("readyz").pipe(timeout(total=STORE_SECONDS))
        except Exception as error:
            # without a token nobody learns more: the text may name hosts and paths
            _log.warning("not ready: the store fails with %s: %s", type(error).__name__, error)
            return _not_ready("store")
        return JSONResponse({"status": "ready"})


def _not_ready(why: str) -> JSONResponse:
    return JSONResponse({"status": why}, 503, {"retry-after": "5"})
