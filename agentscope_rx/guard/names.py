"""The names in a request's `Host` and `Origin`, as they are compared."""

from __future__ import annotations

import re
from typing import NamedTuple

from agentscope_rx.errors import ConfigurationError

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_-][a-z0-9_.-]*)(?::([0-9]{1,5}))?")
_PATTERN = re.compile(r"(\[[0-9a-f:.]+\]|(?:\*\.)?[a-z0-9_-][a-z0-9_.-]*)(?::([0-9]{1,5}))?")
_PORTS = {"http": 80, "https": 443}


class Host(NamedTuple):
    """A host and its port, None if it is the scheme's own (or, in a pattern, any)."""

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page."""

    scheme: str
    name: str
    port: int


def host_of(text: str) -> Host | None:
    """What a `Host` header names; None if that is no host."""
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
    """Whether the pattern stands for the host."""
    if pattern.port is not None and pattern.port != host.port:
        return False
    if pattern.name == "*":
        return True
    return host.name == pattern.name or (pattern.name.startswith("*.") and host.name.endswith(pattern.name[1:]))


def origin_of(text: str) -> Origin | None:
    """What an `Origin` header names; None if that is no origin of a web page (`null`, an extension's)."""
    scheme, _, rest = text.lower().partition("://")
    host = host_of(rest)
    if host is None or scheme not in _PORTS:
        return None
    return Origin(scheme, host.name, host.port or _PORTS[scheme])


def same(origin: Origin, host: Host, scheme: str) -> bool:
    """Whether the page is of this host; `scheme` is the request's own, which behind a TLS proxy is `http`."""
    if scheme == "https" and origin.scheme != "https":
        return False
    return origin.name == host.name and origin.port == (host.port or _PORTS[origin.scheme])
