"""`Access`: whether a request may be answered, by its head alone.

| the request                                                        | refused with                     |
|--------------------------------------------------------------------|----------------------------------|
| names no host, or one that is not allowed                          | `UnknownHostError` (421)         |
| comes from a web page of another origin                            | `ForeignOriginError` (403)       |
| has no token, or a wrong one                                       | `UnauthorizedError` (401)        |
| comes from another machine, or through a proxy, and no token is set | `RemoteClientError` (403)        |

A browser says where a request comes from in `Origin`, and in `Sec-Fetch-Site` where it sends no `Origin`: pages cannot
set either. Programs send neither.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agentscope_rx.errors import ForeignOriginError, RemoteClientError, UnauthorizedError, UnknownHostError
from agentscope_rx.guard.names import Host, host_of, host_pattern, matches, origin_of, same
from agentscope_rx.guard.options import GuardOptions

if TYPE_CHECKING:
    from starlette.types import Scope

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
"""What a proxy adds: behind one all clients seem to be on the proxy's machine."""


def headers_of(scope: Scope) -> Mapping[str, str]:
    """The request's headers; of several of one name all, joined by commas."""
    headers: dict[str, str] = {}
    raw: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in raw:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1").strip()
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


class Access:
    """The rules of a guard for the heads of requests."""

    def __init__(self, options: GuardOptions) -> None:
        self._token = None if options.token is None else options.token.encode()
        self._anonymous = options.allow_anonymous
        self._hosts = [host_pattern(each) for each in options.allowed_hosts]
        self._origins = {origin_of(each) for each in options.allowed_origins}

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Return if the request may be answered; `RequestError` says why not."""
        host = self._host(headers)
        self._check_origin(scope, headers, host)
        if self._token is not None:
            self._check_token(headers, self._token)
        elif not self._anonymous:
            _check_local(scope, headers)

    def _host(self, headers: Mapping[str, str]) -> Host:
        given = headers.get("host", "")
        host = host_of(given)
        if host is None or not any(matches(host, pattern) for pattern in self._hosts):
            raise UnknownHostError(
                f"This application does not answer to the host {given!r:.200}. "
                "If it is its own, name it in allowed_hosts."
            )
        return host

    def _check_origin(self, scope: Scope, headers: Mapping[str, str], host: Host) -> None:
        given = headers.get("origin")
        if given is not None:
            origin = origin_of(given)
            if origin is not None and (origin in self._origins or same(origin, host, scope.get("scheme", "http"))):
                return
            raise ForeignOriginError(
                f"Web pages of {given!r:.200} may not send requests here. To let them, name it in allowed_origins."
            )
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ForeignOriginError("A web page of another origin may not send requests here.")

    def _check_token(self, headers: Mapping[str, str], token: bytes) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token):
            raise UnauthorizedError("This application wants its token, as in 'Authorization: Bearer TOKEN'.")


def _check_local(scope: Scope, headers: Mapping[str, str]) -> None:
    if not is_local(scope):
        raise RemoteClientError(
            "No token is set, so this application answers clients on its own machine only. Set token= to let others in."
        )
    if any(name in headers for name in _FORWARDED):
        raise RemoteClientError(
            "No token is set, so this application answers clients on its own machine only, and this request came "
            "through a proxy. Set token= to let others in."
        )


def is_local(scope: Scope) -> bool:
    """Whether the client is on this machine: at a loopback address, or at a Unix socket."""
    client, server = scope.get("client"), scope.get("server")
    if not client:
        # a Unix socket has a path and no port
        return server is not None and server[1] is None
    try:
        address = ipaddress.ip_address(client[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
