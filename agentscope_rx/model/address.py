"""Addresses and keys of providers, checked where they are given: what is wrong is said before anything is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from agentscope_rx.errors import ConfigurationError


def base_parts(base_url: str, example: str) -> SplitResult:
    """The parts of a base URL, its path without a slash at the end; `ConfigurationError` if it is none."""
    base = base_url.strip()
    try:
        parts = urlsplit(base)
        host = parts.hostname
    except ValueError as error:
        raise ConfigurationError(f"base_url {base!r} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"base_url must be an http(s) URL such as {example!r}, not {base!r}.")
    return parts._replace(path=parts.path.rstrip("/"), fragment="")


def is_host(parts: SplitResult, domain: str) -> bool:
    """Whether the address is at this domain or one below it."""
    host = (parts.hostname or "").lower()
    return host == domain or host.endswith(f".{domain}")


def url_with(parts: SplitResult, path: str, query: Mapping[str, str]) -> str:
    """The URL with this path, and these query parameters in place of its own of the same names."""
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    return urlunsplit(parts._replace(path=path, query=urlencode([*kept, *query.items()])))


def secret(given: str | None, *variables: str) -> str | None:
    """The key that was given, or the first of the environment variables that is set; '' and nothing are None."""
    if given is not None and not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"The API key must be text, not {type(given).__name__}.")
    key = given if given is not None else next((os.environ[name] for name in variables if os.environ.get(name)), "")
    key = key.strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("The API key has characters that a header cannot carry; was it copied whole?")
    return key or None
