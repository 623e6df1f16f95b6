"""`GuardOptions`: what a `RequestGuard` lets through."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.guard.names import host_pattern, origin_of

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_BODY_BYTES = 10 * 1024 * 1024
BODY_SECONDS = 30.0
MAX_CLIENT_REQUESTS = 32
CLIENT_REQUESTS_PER_MINUTE = 600
BYTES_PER_VALUE = 64
"""A JSON value takes up to about 250 bytes of memory, however few bytes it is written in."""
TOKEN_CHARACTERS = 16


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """Who may send requests, and how much.

    `token`: requests need `Authorization: Bearer <token>`. Without one only clients on this machine are answered;
    `allow_anonymous=True` is for applications that have an authentication of their own in front.
    `allowed_hosts`: the names that the application is reached by, with any port (`"agents.example.com"`) or one
    (`"localhost:8000"`); `"*.example.com"` is all names below, `"*"` is any name.
    `allowed_origins`: the web pages of other origins that may send requests (`"https://app.example.com"`).
    `max_body_bytes` and `body_timeout` (seconds; None is no limit) bound one request's body, `max_client_requests` the
    open requests of one client, `client_requests_per_minute` how many it may send (None is no limit). A client is an
    IPv4 address, or an IPv6 network of 64 bits.
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
                raise ConfigurationError(f"{name} takes several, as in {name}=[{given!r}].")
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
            raise ConfigurationError(f"body_timeout must be more than 0 seconds (None is never), not {seconds!r:.60}.")

    @property
    def max_json_values(self) -> int:
        """How many values the JSON of a body may hold."""
        return max(1000, self.max_body_bytes // BYTES_PER_VALUE)


def _check_token(token: object) -> None:
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("token must be text of printable ASCII characters without spaces.")
    if len(token) < TOKEN_CHARACTERS:
        raise ConfigurationError(
            f"token must have at least {TOKEN_CHARACTERS} characters, or it can be guessed. "
            "Make one with: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
