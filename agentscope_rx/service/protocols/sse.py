"""`sse_response`: the response that sends a run as server-sent events.

| the client                    | the run                                                                           |
|-------------------------------|-----------------------------------------------------------------------------------|
| reads slowly                  | waits: its sources stop reading, such as the model's HTTP response                |
| does not read                 | waits; after `send_timeout` seconds the client counts as gone                     |
| disconnects                   | stops and is cleaned up, or goes on: see `on_disconnect`                          |

The status is sent with the first bytes: of an event, or of a heartbeat if that is earlier. Before it an error is a
status with a JSON body (see `failure`); after it an error is the last event, of type `error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing

from reactivex import Observable
from reactivex import operators as ops
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from agentscope_rx.agent import RunHandle
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import Event
from agentscope_rx.reactive import from_callable
from agentscope_rx.reactive.replay_log import LogStatistics
from agentscope_rx.service.failure import error_response
from agentscope_rx.service.protocols.sse_format import EventEncoder, body
from agentscope_rx.service.runs.followed import EventReader, Followed
from agentscope_rx.service.runs.live_run import LiveRun
from agentscope_rx.service.runs.relayed_run import RelayedRun

HEARTBEAT_SECONDS = 15.0
SEND_TIMEOUT_SECONDS = 300.0

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
"""Proxies must neither buffer nor cache events."""


def sse_response(
    run: Observable[Event] | RunHandle | LiveRun | RelayedRun,
    *,
    after: int | None = None,
    heartbeat: float | None = HEARTBEAT_SECONDS,
    retry: float | None = None,
    send_timeout: float | None = SEND_TIMEOUT_SECONDS,
    headers: Mapping[str, str] | None = None,
    encoder: EventEncoder | None = None,
    refused: Callable[[Exception], Response] = error_response,
) -> SSEResponse:
    """A response that sends the events of a run. It begins the run, or joins it, when it is sent.

    | argument | meaning |
    |---|---|
    | `run` | an agent's stream, which stops when the client leaves; a `RunHandle`; a run of `Runs` or of a relay |
    | `after` | the number of the last event that the client has: `last_event_id(request)` |
    | `heartbeat` | seconds of silence after which a comment is sent; None: never |
    | `retry` | seconds after which the client is to reconnect; None: its default |
    | `send_timeout` | seconds after which a client that does not read counts as gone; None: never |
    | `encoder` | another protocol's form of the events |
    | `refused` | the response to an error before the first bytes |

    A client that has all events of an ended run gets 204, so that a browser does not reconnect.
    """
    check_sending(heartbeat, retry, send_timeout)
    live = run if isinstance(run, (LiveRun, RelayedRun)) else LiveRun(run)
    return SSEResponse(live, after, heartbeat, retry, send_timeout, headers, encoder, refused)


def check_sending(heartbeat: float | None, retry: float | None, send_timeout: float | None) -> None:
    """`ConfigurationError` unless events can be sent with these times."""
    for name, seconds in (("heartbeat", heartbeat), ("send_timeout", send_timeout)):
        if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
            raise ConfigurationError(f"{name} must be more than 0 seconds, or None for never, not {seconds!r:.60}.")
    if retry is not None and (type(retry) not in (int, float) or not retry >= 0):
        raise ConfigurationError(f"retry must be at least 0 seconds, not {retry!r:.60}.")


def last_event_id(request: Request) -> int | None:
    """The number of the last event that a returning client has: its `Last-Event-ID`, or `?last_event_id=`.

    `InvalidInputError` if it is not the number of an event.
    """
    given = request.headers.get("last-event-id") or request.query_params.get("last_event_id")
    if not given:
        return None
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise InvalidInputError(f"Last-Event-ID must be the number of an event, not {given!r:.80}.")
    return int(given)


class SSEResponse(Response):
    """The ASGI response that `sse_response` returns; `run` is the run whose events it sends."""

    media_type = "text/event-stream"

    def __init__(
        self,
        run: Followed,
        after: int | None,
        heartbeat: float | None,
        retry: float | None,
        send_timeout: float | None,
        headers: Mapping[str, str] | None,
        encoder: EventEncoder | None = None,
        refused: Callable[[Exception], Response] = error_response,
    ) -> None:
        # without the base class's __init__, which sets a content-length of 0
        self.status_code = 200
        self.background: None = None
        self.run: Followed = run
        self._after = after
        self._heartbeat = heartbeat
        self._retry = retry
        self._send_timeout = send_timeout
        self._encoder = encoder
        self._refused = refused
        self.init_headers({**_HEADERS, **(headers or {})})

    def statistics(self) -> LogStatistics:
        """The statistics of the run's log."""
        return self.run.statistics()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._begin(send)
            await send({"type": "http.response.body", "body": b""})
            return
        if self.run.ended_at(self._after):
            await Response(status_code=204)(scope, receive, send)
            return
        try:
            reader = self.run.follow(self._after)
        except Exception as error:
            await self._refused(error)(scope, receive, send)
            return
        sending = from_callable(lambda: self._write(reader, scope, receive, send))
        try:
            # the first to end disposes the other
            await sending.pipe(ops.merge(from_callable(lambda: disconnected(receive))), ops.first())
        finally:
            await self.run.leave(reader)

    async def _write(self, reader: EventReader, scope: Scope, receive: Receive, send: Send) -> None:
        async def put(message: Message) -> None:
            async with asyncio.timeout(self._send_timeout):
                await send(message)

        async with aclosing(
            body(reader, encoder=self._encoder, heartbeat=self._heartbeat, retry=self._retry, refuse=True)
        ) as chunks:
            try:
                first = await anext(chunks, b"")
            except Exception as error:
                await self._refused(error)(scope, receive, send)
                return
            try:
                await self._begin(put)
                await put({"type": "http.response.body", "body": first, "more_body": True})
                async for chunk in chunks:
                    await put({"type": "http.response.body", "body": chunk, "more_body": True})
                await put({"type": "http.response.body", "body": b"", "more_body": False})
            except (TimeoutError, OSError):
                # the client does not read, or the server reports that it has disconnected
                return

    async def _begin(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})


async def disconnected(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
