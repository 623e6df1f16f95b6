"""`RequestGuard`: ASGI middleware that refuses requests before the application sees them.

    request --too many? host? origin? token? type?-- the body, up to its limits --> application
                  |                                          |
                  +-- 429, 421, 403, 401, 415                +-- 413, 408; no answer if the client has left

An answer is JSON: `{"error": {"type": "UnauthorizedError", "message": "..."}}`.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import field
from typing import TYPE_CHECKING

from agentscope_rx.errors import ConfigurationError, RequestError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.guard.access import Access, headers_of, host_pattern, origin_of
from agentscope_rx.guard.body import check_type, check_values, max_values, read_body
from agentscope_rx.guard.clients import Clients, client_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BODILESS = frozenset(("GET", "HEAD", "OPTIONS"))
_log = logging.getLogger("agentscope_rx")

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY_BYTES = 10 * 1024 * 1024
BODY_SECONDS = 30.0
MAX_CLIENT_REQUESTS = 32
CLIENT_REQUESTS_PER_MINUTE = 600
TOKEN_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The clients that may send requests, and the limits of their requests.

    | option | meaning |
    |---|---|
    | `token` | requests need `Authorization: Bearer <token>`; None: only clients on this machine are answered |
    | `allowed_hosts` | names of the application, with any port or one; `"*.example.com"`: all names below; `"*"`: any |
    | `allowed_origins` | other origins whose pages may send requests: `"https://app.example.com"` |
    | `allow_anonymous` | True: no token is needed, for applications with their own authentication in front |
    | `max_body_bytes`, `body_timeout` | bound the body of a request, in bytes and seconds |
    | `max_client_requests` | open requests of one client |
    | `client_requests_per_minute` | requests of one client in a minute |

    None is no limit, except for `max_body_bytes`. A client is an IPv4 address, or an IPv6 network of 64 bits.
    """

    token: str | None = field(default=None, repr=False)
    allowed_hosts: Iterable[str] = LOOPBACK_HOSTS
    allowed_origins: Iterable[str] = ()
    allow_anonymous: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    body_timeout: float | None = BODY_SECONDS
    max_client_requests: int | None = MAX_CLIENT_REQUESTS
    client_requests_per_minute: int | None = CLIENT_REQUESTS_PER_MINUTE

    def __post_init__(self) -> None:
        if self.token is not None:
            _check_token(self.token)
        for name in ("allowed_hosts", "allowed_origins"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ConfigurationError(f"{name} takes a list, as in {name}=[{given!r}].")
            object.__setattr__(self, name, tuple(given))
        for host in self.allowed_hosts:
            host_pattern(host)
        for origin in self.allowed_origins:
            if origin_of(origin) is None:
                raise ConfigurationError(
                    f"allowed_origins takes origins such as 'https://app.example.com', not {origin!r:.200}."
                )
        for name in ("max_body_bytes", "max_client_requests", "client_requests_per_minute"):
            count = getattr(self, name)
            if (count is None and name != "max_body_bytes") or (type(count) is int and count >= 1):
                continue
            raise ConfigurationError(f"{name} must be a whole number of at least 1, not {count!r:.60}.")
        seconds = self.body_timeout
        if seconds is not None and not 0 < seconds < math.inf:
            raise ConfigurationError(f"body_timeout must be more than 0 seconds, or None, not {seconds!r:.60}.")

    @property
    def max_json_values(self) -> int:
        """The largest number of values in the JSON of a body."""
        return max_values(self.max_body_bytes)


class RequestGuard:
    """ASGI middleware: passes the requests that `options` allow on to `app`, and answers the others.

        Starlette(routes, middleware=[Middleware(RequestGuard, options=GuardOptions(token=...))])

    It reads each body completely before it calls the application.
    """

    def __init__(self, app: ASGIApp, options: GuardOptions | None = None) -> None:
        self._app = app
        self._options = options = GuardOptions() if options is None else options
        self._access = Access(options.token, options.allow_anonymous, options.allowed_hosts, options.allowed_origins)
        self._clients = Clients(options.max_client_requests, options.client_requests_per_minute)
        self._warned = options.token is not None or options.allow_anonymous

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        self._warn()
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
                        # the client has left: there is nothing to answer or to report
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

    def _warn(self) -> None:
        """Warn once if there is no token, when the server starts or the first request comes."""
        if not self._warned:
            self._warned = True
            _log.warning(
                "No token is set: only requests from this machine are answered. Set token= to allow other machines."
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
    """A `receive` that gives the body first, and then the messages after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


def _check_token(token: object) -> None:
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("token must be text of printable ASCII characters without spaces.")
    if len(token) < TOKEN_CHARACTERS:
        raise ConfigurationError(
            f"token must have at least {TOKEN_CHARACTERS} characters, or it can be guessed. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
