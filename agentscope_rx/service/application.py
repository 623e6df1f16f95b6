"""`protocol_app`: a whole ASGI application from the routes of protocols.

host = AgentHost({"friday": friday}, sessions="conversations.db")
app = protocol_app(host, openai_routes(host), events_routes(host), token="...")

request --> access log, metrics --> /healthz, /readyz
                               \\-> CORS --> guard --> parent span --> routes --> host
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.guard import GuardOptions, RequestGuard
from agentscope_rx.service.drain import draining_at_signals
from agentscope_rx.service.failure import answer_error
from agentscope_rx.service.health import HealthChecks
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.request_log import RequestLog
from agentscope_rx.service.trace_parent import TraceParent

_METHODS = ("GET", "POST", "DELETE")
_HEADERS = (
    "authorization",
    "content-type",
    "last-event-id",
    "traceparent",
    "tracestate",
)


def protocol_app(
    host: AgentHost,
    *routes: Sequence[BaseRoute],
    token: str | None = None,
    guard: GuardOptions | None = None,
    access_log: bool = False,
    metrics: bool = False,
    drain_at_signals: bool = False,
) -> Starlette:
    """An ASGI application with these routes, a guard, and `GET /healthz` and `GET /readyz`. It enters the host.

    - **Access**: with `token` requests need `Authorization: Bearer <token>`; without one only clients on this machine
      are answered. `guard` has host names, origins and limits of requests. The two health requests are always answered.
    - `access_log`: a record for each request in the logger `agentscope_rx.access`, whose `request` has its fields: see
      `RequestLog`.
    - `metrics`: requests and runs are measured by OpenTelemetry, and `GET /metrics` gives the figures to Prometheus.
      Needs the extra `prometheus`.
    - `drain_at_signals`: the first SIGTERM or SIGINT drains the host before the server gets it: requests that would
      begin a run get 503, and runs in progress have the time of the host's `shutdown`.
    """
    guard = guard or GuardOptions()
    if token is not None:
        guard = replace(guard, token=token)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with host:
            with draining_at_signals(host) if drain_at_signals else nullcontext():
                yield

    outer = [Middleware(RequestLog, host=host, log=access_log, metrics=metrics)] if access_log or metrics else []
    whole = [route for group in routes for route in group]
    if metrics:
        # imported here: it needs the packages of an extra
        from agentscope_rx.service.prometheus import metrics_route

        whole.append(metrics_route())
    app = Starlette(
        routes=whole,
        lifespan=lifespan,
        middleware=[*outer, Middleware(HealthChecks, host=host), *guarded(guard)],
        exception_handlers={AgentScopeError: answer_error, HTTPException: answer_error, Exception: answer_error},
    )
    app.state.host = host
    return app


def guarded(guard: GuardOptions) -> list[Middleware]:
    """The middleware that lets requests in: CORS for the pages of `allowed_origins`, the guard, the parent span."""
    guarding = Middleware(RequestGuard, options=guard)
    parent = Middleware(TraceParent)
    if not guard.allowed_origins:
        return [guarding, parent]
    # before the guard: a browser's preflight request carries no token
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(guard.allowed_origins),
        allow_methods=list(_METHODS),
        allow_headers=list(_HEADERS),
    )
    return [cors, guarding, parent]
