"""`Access`: the check of a request's headers: host, origin, token, and the client's address.

| the request                                                        | refused with                     |
|--------------------------------------------------------------------|----------------------------------|
| names no host, or one that is not allowed                          | `UnknownHostError` (421)         |
| comes from a web page of another origin                            | `ForeignOriginError` (403)       |
| has no token, or a wrong one                                       | `UnauthorizedError` (401)        |
| comes from another machine, or through a proxy, and no token is set | `RemoteClientError` (403)        |

A browser names the page that sends a request in `Origin`, or else in `Sec-Fetch-Site`, and pages can set neither.
Programs send neither.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from agentscope_rx.errors import (
    ConfigurationError,
    ForeignOriginError,
    RemoteClientError,
    UnauthorizedError,
    UnknownHostError,
)

if TYPE_CHECKING:
    from starlette.types import Scope

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers of proxies: behind a proxy, all clients seem to be on its machine."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9_.-]*)(?::([0-9]{1,5}))?")
_PATTERN = re.compile(r"(\[[0-9a-f:.]+\]|(?:\*\.)?[a-z0-9_-][a-z0-9_.-]*)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


def headers_of(scope: Scope) -> Mapping[str, str]:
    """The request's headers; repeated ones are joined by commas."""
    headers: dict[str, str] = {}
    raw: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in raw:
        name, text = key.decode("latin-1").lower(), value.decode("latin-1").strip()
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


class Access:
    """The rules of a guard for the headers of requests."""

    def __init__(
        self, token: str | None, allow_anonymous: bool, allowed_hosts: Iterable[str], allowed_origins: Iterable[str]
    ) -> None:
        self._token = None if token is None else token.encode()
        self._anonymous = allow_anonymous
        self._hosts = [host_pattern(each) for each in allowed_hosts]
        self._origins = {origin_of(each) for each in allowed_origins}

    def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Return if the request may be answered, or raise a `RequestError`."""
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
                f"This application does not serve the host {given!r:.200}. "
                "If the name is right, add it to allowed_hosts."
            )
        return host

    def _check_origin(self, scope: Scope, headers: Mapping[str, str], host: Host) -> None:
        given = headers.get("origin")
        if given is not None:
            origin = origin_of(given)
            if origin is not None and (origin in self._origins or same(origin, host, scope.get("scheme", "http"))):
                return
            raise ForeignOriginError(
                f"Web pages of {given!r:.200} may not send requests here. To allow them, add it to allowed_origins."
            )
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ForeignOriginError("A web page of another origin may not send requests here.")

    def _check_token(self, headers: Mapping[str, str], token: bytes) -> None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token):
            raise UnauthorizedError("This application requires its token, as in 'Authorization: Bearer TOKEN'.")


def _check_local(scope: Scope, headers: Mapping[str, str]) -> None:
    if not is_local(scope):
        raise RemoteClientError(
            "No token is set, so this application answers clients on its own machine only. Set token= to allow others."
        )
    if any(name in headers for name in _FORWARDED):
        raise RemoteClientError(
            "No token is set, so this application answers clients on its own machine only, and this request came "
            "through a proxy. Set token= to allow others."
        )


def is_local(scope: Scope) -> bool:
    """True if the client is on this machine: at a loopback address, or at a Unix socket."""
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


# --- names in `Host` and `Origin` -------------------------------------------------------------------------------------


class Host(NamedTuple):
    """A host and its port; None is the scheme's default port or, in a pattern, any port."""

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page."""

    scheme: str
    name: str
    port: int


def host_of(text: str) -> Host | None:
    """The host in a `Host` header; None if it is not valid."""
    found = _HOST.fullmatch(text.lower())
    return None if found is None else _host(found)


def host_pattern(text: str) -> Host:
    """A pattern of hosts: a name with or without a port, `*.` and a name, or `*`."""
    if text == "*":
        return Host("*", None)
    found = _PATTERN.fullmatch(text.lower())
    if found is None:
        raise ConfigurationError(
            f"allowed_hosts takes names such as 'agents.example.com' or 'localhost:8000', not {text!r:.200}."
        )
    return _host(found)


def _host(found: re.Match[str]) -> Host:
    return Host(found[1].removesuffix("."), None if found[2] is None else int(found[2]))


def matches(host: Host, pattern: Host) -> bool:
    """True if the host matches the pattern."""
    if pattern.port is not None and pattern.port != host.port:
        return False
    if pattern.name == "*":
        return True
    return host.name == pattern.name or (pattern.name.startswith("*.") and host.name.endswith(pattern.name[1:]))


def origin_of(text: str) -> Origin | None:
    """The origin in an `Origin` header; None if it is not that of a web page (`null`, an extension's)."""
    scheme, _, rest = text.lower().partition("://")
    host = host_of(rest)
    if host is None or scheme not in _PORTS:
        return None
    return Origin(scheme, host.name, host.port or _PORTS[scheme])


def same(origin: Origin, host: Host, scheme: str) -> bool:
    """True if the page is of this host. `scheme` is the request's own, which is `http` behind a TLS proxy."""
    if scheme == "https" and origin.scheme != "https":
        return False
    return origin.name == host.name and origin.port == (host.port or _PORTS[origin.scheme])
