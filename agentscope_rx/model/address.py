"""Addresses and keys as a caller gives them: checked, with what to do said in the error."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from agentscope_rx.errors import ConfigurationError


def http_address(base: str, example: str) -> SplitResult:
    """The parts of an http(s) URL; `ConfigurationError` if it is none."""
    try:
        parts = urlsplit(base.strip())
        host = parts.hostname
        # a port that is none is found only when it is asked for
        parts.port  # noqa: B018
    except ValueError as error:
        raise ConfigurationError(f"base_url {base!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"base_url must be an http(s) URL such as {example!r}, not {base!r}.")
    return parts


def checked_key(key: str | None) -> str | None:
    """The key without blanks around it; None if it is empty; `ConfigurationError` if no header can carry it."""
    key = (key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("The API key has characters that a header cannot carry; was it copied whole?")
    return key or None


def with_query(url: str, query: Mapping[str, str]) -> str:
    """The URL with these query parameters in place of its own of the same names."""
    if not query:
        return url
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    return urlunsplit(parts._replace(query=urlencode([*kept, *query.items()])))
