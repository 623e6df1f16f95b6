"""Addresses, keys and headers, checked when a model is made, so that errors come before anything is sent.

No error shows a password, a query or the value of a header.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from agentscope_rx.errors import ConfigurationError

_HIDDEN = "***"
_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?")


def base_parts(base_url: str, example: str) -> SplitResult:
    """The parts of a base URL, its path without a slash at the end; `ConfigurationError` for any other text."""
    base = base_url.strip()
    try:
        parts = urlsplit(base)
        host = parts.hostname
        # (reading the port checks it)
        _ = parts.port
    except ValueError as error:
        # Python's message may quote the part with the password
        why = "it cannot be read" if "@" in base else error
        raise ConfigurationError(f"base_url {_shown(base)!r} is not a URL: {why}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigurationError(f"base_url must be an http(s) URL such as {example!r}, not {_shown(base)!r}.")
    return parts._replace(path=parts.path.rstrip("/"), fragment="")


def is_host(parts: SplitResult, domain: str) -> bool:
    """True if the address is at this domain or one below it."""
    host = (parts.hostname or "").lower()
    return host == domain or host.endswith(f".{domain}")


def url_with(parts: SplitResult, path: str, query: Mapping[str, str]) -> str:
    """The URL with this path, and these query parameters in place of its own of the same names."""
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in query]
    return urlunsplit(parts._replace(path=path, query=urlencode([*kept, *query.items()])))


def secret(given: str | None, *variables: str) -> str | None:
    """The given key, or else the first environment variable that is set; None for '' and without either."""
    if given is not None and not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"The API key must be text, not {type(given).__name__}.")
    key = given if given is not None else next((os.environ[name] for name in variables if os.environ.get(name)), "")
    key = key.strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigurationError("The API key has characters that a header cannot carry; was it copied whole?")
    return key or None


def sendable(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with names in lower case; `ConfigurationError` names a header that cannot be sent."""
    checked: dict[str, str] = {}
    for name, value in cast("Mapping[object, object]", headers).items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"{name!r:.60} is not the name of a header.")
        # the value is not shown: it may be a key
        if not isinstance(value, str):
            raise ConfigurationError(f"The header {name!r} must be text, not {type(value).__name__}.")
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"The header {name!r} cannot be sent: its value has a character that no header can carry (a line "
                "break, a character that is not ASCII) or white space around it. Was it copied whole?"
            )
        checked[name.lower()] = value
    return checked


def without_userinfo(url: str) -> str:
    """The URL with `***` in place of the name and the password in it."""
    scheme, found, rest = url.partition("://")
    if not found:
        return _HIDDEN if "@" in url else url
    end = min((at for at in (rest.find(mark) for mark in "/?#") if at >= 0), default=len(rest))
    userinfo, at, host = rest[:end].rpartition("@")
    return f"{scheme}://{_HIDDEN}@{host}{rest[end:]}" if at and userinfo else url


def shown_url(url: str) -> str:
    """The URL without its secrets: no user name, no password, no query."""
    scheme, found, rest = url.partition("#")[0].partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}"


def _shown(base: str) -> str:
    """The text of a supposed URL, without what may be a password."""
    shown = shown_url(base)
    return f"{_HIDDEN}@{shown.rpartition('@')[2]}" if "@" in shown else shown
