"""The routes of our own events.

| request                   | answer                                                                                   |
|---------------------------|------------------------------------------------------------------------------------------|
| POST /run                 | the run's events; body `{"text": "..."}` or `{"messages": [Msg as JSON, ...]}`; and to   |
|                           | pending calls `{"answers": [{"type": "approve", "call_id": "..."}, ...]}`                |
| GET /runs/{id}/events     | its events after `Last-Event-ID`; 204 if the client has all events of an ended run       |
| POST /runs/{id}/interrupt | `{"interrupted": true}`, false if it has ended; optional body `{"text": "the reply"}`    |
| POST /runs/{id}/input     | 202, `{"enqueued": true}`: input to the live run; body as of /run, without answers, and  |
|                           | `"when": "next_round"` (default) or `"idle"`; 409 if the run has ended                   |
| DELETE /runs/{id}         | 204 when the run has been stopped and cleaned up                                         |

Errors before a stream begins are JSON, see `agentscope_rx.service.failure`. A client can follow, interrupt and stop
every run whose id it knows; ids cannot be guessed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.events import StreamOptions
from agentscope_rx.messages.sources import reading
from agentscope_rx.service.bodies import read_body
from agentscope_rx.service.failure import error_response
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.events.bodies import HostRunBody, InputBody, InterruptBody
from agentscope_rx.service.protocols.sse import (
    HEARTBEAT_SECONDS,
    SEND_TIMEOUT_SECONDS,
    SSEResponse,
    check_sending,
    last_event_id,
    sse_response,
)
from agentscope_rx.service.runs.finder import RunFinder
from agentscope_rx.service.runs.live_run import LiveRun
from agentscope_rx.service.runs.relayed_run import RelayedRun

Endpoint = Callable[[Request], Awaitable[Response]]


class Sending(NamedTuple):
    """The times of a response with events: see `sse_response`."""

    heartbeat: float | None
    retry: float | None
    send_timeout: float | None

    def respond(self, run: LiveRun | RelayedRun, after: int | None = None) -> SSEResponse:
        """A response with the events of this run."""
        return sse_response(
            run, after=after, heartbeat=self.heartbeat, retry=self.retry, send_timeout=self.send_timeout
        )


def events_routes(
    host: AgentHost,
    *,
    prefix: str = "",
    options: StreamOptions | None = None,
    heartbeat: float | None = HEARTBEAT_SECONDS,
    retry: float | None = None,
    send_timeout: float | None = SEND_TIMEOUT_SECONDS,
) -> list[Route]:
    """Our own events, for the agents of this host. Enter the host in the lifespan of the application.

    They are the routes of `create_app`. The body of `POST /run` may also have `agent`, the name of one of several, and
    `session_id`: the run is then one of the stored conversation with this id. `options` select the events of a run; for
    the other arguments see `sse_response`.
    """
    check_sending(heartbeat, retry, send_timeout)
    files = reading(host.file_root)

    async def begin(request: Request) -> LiveRun:
        body = await read_body(request, HostRunBody, files)
        return host.begin(
            body.agent,
            body.input,
            user=host.user_of(request),
            session_id=body.session_id,
            stream_options=options,
            record=LoggedEvent.of,
        )

    return run_routes(host.finder, begin, Sending(heartbeat, retry, send_timeout), files, prefix)


def run_routes(
    runs: RunFinder,
    begin: Callable[[Request], Awaitable[LiveRun]],
    sending: Sending,
    files: dict[str, object],
    prefix: str = "",
) -> list[Route]:
    """The routes for runs that `begin` begins. `files` is the context in which messages of bodies may name files."""

    async def run(request: Request) -> Response:
        return sending.respond(await begin(request))

    async def events(request: Request) -> Response:
        return sending.respond(await runs.find(request.path_params["run_id"]), last_event_id(request))

    async def interrupt(request: Request) -> Response:
        await runs.find(request.path_params["run_id"])
        body = await read_body(request, InterruptBody)
        return JSONResponse({"interrupted": await runs.interrupt(request.path_params["run_id"], body.text)})

    async def enqueue(request: Request) -> Response:
        await runs.find(request.path_params["run_id"])
        body = await read_body(request, InputBody, files)
        await runs.enqueue(request.path_params["run_id"], body.input, body.when)
        return JSONResponse({"enqueued": True}, 202)

    async def stop(request: Request) -> Response:
        await runs.stop(request.path_params["run_id"])
        return Response(status_code=204)

    return [
        Route(f"{prefix}/run", answered(run), methods=["POST"]),
        Route(f"{prefix}/runs/{{run_id}}/events", answered(events), methods=["GET"]),
        Route(f"{prefix}/runs/{{run_id}}/interrupt", answered(interrupt), methods=["POST"]),
        Route(f"{prefix}/runs/{{run_id}}/input", answered(enqueue), methods=["POST"]),
        Route(f"{prefix}/runs/{{run_id}}", answered(stop), methods=["DELETE"]),
    ]


def answered(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose errors have our own form in every application."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except Exception as error:
            return error_response(error)

    return answer
