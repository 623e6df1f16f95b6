"""What an error says of another attempt: whether it is worth one, and how long to wait before it.

An error of this library says it itself (`retryable`, `retry_after`). Of others the HTTP answer that they carry tells,
in the places where httpx, requests, aiohttp and urllib keep it: `error.response`, or the error itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import cast

from agentscope_rx.errors import ConfigurationError

ErrorKinds = Callable[[BaseException], bool] | type[BaseException] | tuple[type[BaseException], ...]
"""Which errors: those of a type, of one of several, or those that a function is true of."""

TRANSIENT = frozenset({408, 425, 429})
"""Statuses that are no word on the request itself; neither are those of 500 and more, which are the server's own, but
for 501: what it cannot do it will not do later."""


def is_retryable(error: BaseException) -> bool:
    """What the error says of itself in `retryable`, or by the status of the HTTP answer that it carries.

    OS-level I/O errors and timeouts are, anything else is not.
    """
    answer = getattr(error, "retryable", None)
    if isinstance(answer, bool):
        return answer
    if isinstance(error, (TimeoutError, ConnectionError)):
        return True
    status = _status(error)
    return status is not None and (status in TRANSIENT or (500 <= status < 600 and status != 501))


def asked_wait(error: BaseException) -> float | None:
    """Seconds to wait that the error asks for: its `retry_after`, or the Retry-After of the HTTP answer it carries."""
    asked: object = getattr(error, "retry_after", None)
    if isinstance(asked, (int, float)) and not isinstance(asked, bool):
        return _seconds(asked)
    headers = _headers(error)
    return None if headers is None else retry_after(headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait that headers (names in lower case) ask for, in milliseconds, seconds or as a date, or None.

    May be infinite: what is too long is for the retry policy to say.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    if asked is None:
        return None
    seconds = _number(asked)
    if seconds is not None:
        return seconds
    try:
        # a date is the server's: its own clock, where it tells, makes the difference right
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (parsedate_to_datetime(asked) - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else _seconds(float(text))
    except ValueError:
        return None


def _seconds(given: float) -> float | None:
    """As seconds from now; None for what is no number."""
    try:
        seconds = float(given)
    except OverflowError:
        seconds = math.inf
    return None if math.isnan(seconds) else max(0.0, seconds)


def _status(error: BaseException) -> int | None:
    carrier: object = getattr(error, "response", None)
    if carrier is None:
        # `code` and `status` alone say nothing: errors of all kinds have them
        carrier = error if getattr(error, "headers", None) is not None else None
    for name in ("status_code", "status", "code"):
        value: object = getattr(carrier, name, None)
        if type(value) is int:
            return value
    return None


def _headers(error: BaseException) -> Mapping[str, str] | None:
    carrier: object = getattr(error, "response", None)
    found: object = getattr(error if carrier is None else carrier, "headers", None)
    items = getattr(found, "items", None)
    if not callable(items):
        return None
    try:
        # (the headers of urllib are no Mapping)
        return {str(name).lower(): str(value) for name, value in items()}  # pyright: ignore
    except (TypeError, ValueError):
        return None


def check_error_kinds(name: str, given: object) -> None:
    """`ConfigurationError` for what are no `ErrorKinds`; a type that is no exception would pass for a function."""
    kinds = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    typed = isinstance(given, (tuple, type))
    if not typed and callable(given):
        return
    if not (typed and kinds and all(isinstance(each, type) and issubclass(each, BaseException) for each in kinds)):
        raise ConfigurationError(
            f"{name} must be an exception type, a tuple of them, or a function of the error that says whether to try "
            f"again, not {given!r:.60}."
        )


def error_predicate(kinds: ErrorKinds) -> Callable[[BaseException], bool]:
    """Whether an error is of these kinds."""
    if isinstance(kinds, (type, tuple)):
        return lambda error: isinstance(error, kinds)
    return kinds
