"""`create_app`: an agent behind HTTP, with our own events.

The requests are those of `agentscope_rx.service.protocols.events.routes`. A `RequestGuard` decides which clients are
answered. A client that is can follow, interrupt and stop every run whose id it knows; ids cannot be guessed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from inspect import isawaitable
from os import PathLike

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request

from agentscope_rx.agent import Agent
from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.events import StreamOptions
from agentscope_rx.guard import GuardOptions
from agentscope_rx.messages.sources import reading
from agentscope_rx.service.application import guarded
from agentscope_rx.service.bodies import read_body
from agentscope_rx.service.failure import answer_error
from agentscope_rx.service.protocols.events.bodies import RunBody
from agentscope_rx.service.protocols.events.routes import Sending, run_routes
from agentscope_rx.service.protocols.sse import HEARTBEAT_SECONDS, SEND_TIMEOUT_SECONDS, check_sending
from agentscope_rx.service.runs.finder import RunFinder
from agentscope_rx.service.runs.live_run import MAX_LOG_BYTES, LiveRun, OnDisconnect, OnDisconnectChoice, bounds_of
from agentscope_rx.service.runs.registry import KEEP_SECONDS, MAX_KEPT_RUNS, MAX_LIVE_RUNS, Runs

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

    async def begin(request: Request) -> LiveRun:
        body = await read_body(request, RunBody, files)
        chosen = await _agent_of(agent, request)
        events = chosen.stream(body.input, options)
        return runs.add(
            events, on_disconnect=on_disconnect, capacity=log_capacity, max_bytes=max_log_bytes, agent=chosen
        )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with runs:
            yield

    app = Starlette(
        routes=run_routes(RunFinder(runs), begin, Sending(heartbeat, retry, send_timeout), files),
        lifespan=lifespan,
        middleware=guarded(guard),
        exception_handlers={AgentScopeError: answer_error, HTTPException: answer_error, Exception: answer_error},
    )
    app.state.runs = runs
    return app


async def _agent_of(agent: Agent | AgentFactory, request: Request) -> Agent:
    if isinstance(agent, Agent):
        return agent
    made = agent(request)
    chosen = await made if isawaitable(made) else made
    if not isinstance(chosen, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"The factory must return an Agent, not {chosen!r:.60}.")
    return chosen
