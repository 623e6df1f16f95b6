"""`create_app`: an agent behind HTTP.

| request                   | answer                                                                                   |
|---------------------------|------------------------------------------------------------------------------------------|
| POST /run                 | the run's events; body `{"text": "..."}` or `{"messages": [Msg as JSON, ...]}`; and to   |
|                           | pending calls `{"answers": [{"type": "approve", "call_id": "..."}, ...]}`                |
| GET /runs/{id}/events     | its events after `Last-Event-ID`; 204 if the client has all events of an ended run       |
| POST /runs/{id}/interrupt | `{"interrupted": true}`, false if it has ended; optional body `{"text": "the reply"}`    |
| POST /runs/{id}/input     | 202, `{"enqueued": true}`: input to the live run; body as of /run, without answers, and  |
|                           | `"when": "next_round"` (default) or `"idle"`; 409 if the run has ended                   |
| DELETE /runs/{id}         | 204 when the run has been stopped and cleaned up                                         |

Errors before a stream begins are JSON, see `failure`. A `RequestGuard` decides which clients are answered. A client
that is can follow, interrupt and stop every run whose id it knows; ids cannot be guessed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from inspect import isawaitable
from os import PathLike

from pydantic import BaseModel, ConfigDict, model_validator
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentscope_rx.agent import Agent
from agentscope_rx.agent.inbox import When
from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.events import StreamOptions
from agentscope_rx.guard import GuardOptions, RequestGuard
from agentscope_rx.messages import ApprovalAnswer, Msg
from agentscope_rx.messages.sources import reading
from agentscope_rx.service.bodies import read_body
from agentscope_rx.service.failure import answer_error
from agentscope_rx.service.protocols.sse import (
    HEARTBEAT_SECONDS,
    SEND_TIMEOUT_SECONDS,
    SSEResponse,
    check_sending,
    last_event_id,
    sse_response,
)
from agentscope_rx.service.runs.live_run import MAX_LOG_BYTES, OnDisconnect, OnDisconnectChoice, bounds_of
from agentscope_rx.service.runs.registry import KEEP_SECONDS, MAX_KEPT_RUNS, MAX_LIVE_RUNS, Runs
from agentscope_rx.service.trace_parent import TraceParent

AgentFactory = Callable[[Request], Agent | Awaitable[Agent]]
"""Returns the agent for a request, by its path, headers or body."""


def create_app(
    agent: Agent | AgentFactory,
    *,
    options: StreamOptions | None = None,
    on_disconnect: OnDisconnectChoice = OnDisconnect.STOP,
    log_capacity: int | None = None,
    max_log_bytes: int = MAX_LOG_BYTES,
    keep_seconds: float = KEEP_SECONDS,
    heartbeat: float | None = HEARTBEAT_SECONDS,
    retry: float | None = None,
    send_timeout: float | None = SEND_TIMEOUT_SECONDS,
    file_root: str | PathLike[str] | None = None,
    token: str | None = None,
    guard: GuardOptions | None = None,
    max_live_runs: int | None = MAX_LIVE_RUNS,
    max_kept_runs: int | None = MAX_KEPT_RUNS,
) -> Starlette:
    """An ASGI application for an agent, or for a function that returns the agent of a request.

        app = create_app(agent_of, on_disconnect="continue", token=settings.token)
        # uvicorn module:app --timeout-graceful-shutdown 5

    | request | does |
    |---|---|
    | `POST /run` | begins a run, or continues one with answers to its pending calls; sends its events |
    | `GET /runs/{id}/events` | sends the events after `Last-Event-ID` |
    | `POST /runs/{id}/input` | gives the run more input |
    | `POST /runs/{id}/interrupt` | interrupts it |
    | `DELETE /runs/{id}` | stops it |

    - **Access**: with `token` requests need `Authorization: Bearer <token>`; without one only clients on this machine
      are answered. `guard` has host names, origins and limits of requests.
    - **Runs**: `max_live_runs` bounds the live ones, `max_kept_runs` the ended ones that can still be read; None is no
      limit. They are in `app.state.runs`. At shutdown all are stopped and cleaned up.
    - **One agent** answers one client at a time: another one gets 409, or waits with `when_busy="queue"`.
    - **Files**: a message that names a local file gets 422, unless it lies below `file_root`. Every client can send
      each file there to the model.

    `options` select the events of a run. `log_capacity` and `max_log_bytes` bound the log of
    a run, `keep_seconds` is how long an ended one is kept. For the other arguments see `Runs.add` and `sse_response`.
    """
    files = reading(file_root)
    # a request could not answer for these
    bounds_of(on_disconnect, log_capacity, max_log_bytes)
    check_sending(heartbeat, retry, send_timeout)
    guard = guard or GuardOptions()
    if token is not None:
        guard = replace(guard, token=token)
    runs = Runs(keep_seconds=keep_seconds, max_live=max_live_runs, max_kept=max_kept_runs)

    async def run(request: Request) -> SSEResponse:
        body = await read_body(request, _RunBody, files)
        chosen = await _agent_of(agent, request)
        events = chosen.stream(body.input, options)
        live = runs.add(
            events, on_disconnect=on_disconnect, capacity=log_capacity, max_bytes=max_log_bytes, agent=chosen
        )
        return sse_response(live, heartbeat=heartbeat, retry=retry, send_timeout=send_timeout)

    async def events(request: Request) -> SSEResponse:
        live, after = runs.find(request.path_params["run_id"]), last_event_id(request)
        return sse_response(live, after=after, heartbeat=heartbeat, retry=retry, send_timeout=send_timeout)

    async def interrupt(request: Request) -> JSONResponse:
        live = runs.find(request.path_params["run_id"])
        body = await read_body(request, _InterruptBody)
        return JSONResponse({"interrupted": live.interrupt(body.text)})

    async def enqueue(request: Request) -> JSONResponse:
        live = runs.find(request.path_params["run_id"])
        body = await read_body(request, _EnqueueBody, files)
        live.enqueue(body.input, body.when)
        return JSONResponse({"enqueued": True}, 202)

    async def stop(request: Request) -> Response:
        await runs.stop(request.path_params["run_id"])
        return Response(status_code=204)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with runs:
            yield

    routes = [
        Route("/run", run, methods=["POST"]),
        Route("/runs/{run_id}/events", events, methods=["GET"]),
        Route("/runs/{run_id}/interrupt", interrupt, methods=["POST"]),
        Route("/runs/{run_id}/input", enqueue, methods=["POST"]),
        Route("/runs/{run_id}", stop, methods=["DELETE"]),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=_middleware(guard),
        exception_handlers={AgentScopeError: answer_error, HTTPException: answer_error, Exception: answer_error},
    )
    app.state.runs = runs
    return app


def _middleware(guard: GuardOptions) -> list[Middleware]:
    guarding = Middleware(RequestGuard, options=guard)
    parent = Middleware(TraceParent)
    if not guard.allowed_origins:
        return [guarding, parent]
    headers = ["authorization", "content-type", "last-event-id", "traceparent", "tracestate"]
    # before the guard: a browser's preflight request carries no token
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(guard.allowed_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=headers,
    )
    return [cors, guarding, parent]


class _RunBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    messages: list[Msg] | None = None
    answers: list[ApprovalAnswer] | None = None

    @model_validator(mode="after")
    def _something(self) -> _RunBody:
        if self.text is not None and self.messages is not None:
            raise ValueError("give either text or messages")
        if self.text is None and self.messages is None and self.answers is None:
            raise ValueError("give either text or messages, or answers to pending calls")
        return self

    @property
    def input(self) -> list[Msg | ApprovalAnswer] | None:
        messages = self.messages or [] if self.text is None else [Msg.user(self.text)]
        return [*messages, *(self.answers or ())] or None


class _EnqueueBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    messages: list[Msg] | None = None
    when: When = "next_round"

    @model_validator(mode="after")
    def _either(self) -> _EnqueueBody:
        if (self.text is None) is (self.messages is None):
            raise ValueError("give either text or messages")
        return self

    @property
    def input(self) -> list[Msg]:
        return self.messages or [] if self.text is None else [Msg.user(self.text)]


class _InterruptBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str | None = None


async def _agent_of(agent: Agent | AgentFactory, request: Request) -> Agent:
    if isinstance(agent, Agent):
        return agent
    made = agent(request)
    chosen = await made if isawaitable(made) else made
    if not isinstance(chosen, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"The factory must return an Agent, not {chosen!r:.60}.")
    return chosen
