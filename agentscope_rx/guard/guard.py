"""`RequestGuard`: in front of an ASGI application, it answers by itself what the application should not see.

    request --too many? host? origin? token? type?-- body, as far as it may go --> application
                  |                                          |
                  +-- 429, 421, 403, 401, 415                +-- 413, 408; no answer if the client has left

An answer is JSON: `{"error": {"type": "UnauthorizedError", "message": "..."}}`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from agentscope_rx.errors import RequestError
from agentscope_rx.guard.access import Access, headers_of
from agentscope_rx.guard.body import check_type, check_values, read_body
from agentscope_rx.guard.clients import Clients, client_of
from agentscope_rx.guard.options import GuardOptions

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODILESS = frozenset(("GET", "HEAD", "OPTIONS"))
_log = logging.getLogger("agentscope_rx")


class RequestGuard:
    """Lets requests through to `app` as `options` say. Bodies are read whole before the application is called."""

    def __init__(self, app: ASGIApp, options: GuardOptions | None = None) -> None:
        self._app = app
        self._options = options = GuardOptions() if options is None else options
        self._access = Access(options)
        self._clients = Clients(options.max_client_requests, options.client_requests_per_minute)
        self._announced = options.token is not None or options.allow_anonymous

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, as ASGI has it."""
        self._announce()
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        with ExitStack() as admitted:
            try:
                headers = headers_of(scope)
                admitted.enter_context(self._clients.admitted(client_of(scope)))
                self._access.check(scope, headers)
                if scope["type"] == "http" and scope["method"] not in _BODILESS:
                    body = await self._body(receive, headers)
                    if body is None:
                        # the client has left: there is nobody to answer, and nothing to report
                        return
                    receive = _after(body, receive)
                    del body
            except RequestError as error:
                with suppress(OSError):
                    await refuse(scope, send, error)
                return
            await self._app(scope, receive, send)

    async def _body(self, receive: Receive, headers: Mapping[str, str]) -> bytes | None:
        options = self._options
        check_type(headers)
        body = await read_body(receive, headers, limit=options.max_body_bytes, timeout=options.body_timeout)
        if body is not None:
            check_values(body, options.max_json_values)
        return body

    def _announce(self) -> None:
        """Say once that there is no token, when the server starts or the first request comes."""
        if not self._announced:
            self._announced = True
            _log.warning(
                "No token is set: requests are answered from this machine only. Set token= to let other machines in."
            )


async def refuse(scope: Scope, send: Send, error: RequestError) -> None:
    """Answer with the error."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _after(body: bytes, receive: Receive) -> Receive:
    """`receive`, with the body before what is still to come."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
