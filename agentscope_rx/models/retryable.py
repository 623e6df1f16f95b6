"""Which errors are worth a retry, and the wait that an error asks for.

Errors of this library have the attributes `retryable` and `retry_after`. For other errors the status and headers of
their HTTP response decide, found where httpx, requests, aiohttp and urllib keep it: in `error.response` or the error
itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.checks import is_number

ErrorKinds = Callable[[BaseException], bool] | type[BaseException] | tuple[type[BaseException], ...]
"""A set of errors: an exception type, a tuple of types, or a predicate."""

TRANSIENT = frozenset({408, 425, 429})
"""Statuses below 500 that may succeed later. All from 500 on may, but for 501 (not implemented)."""


def is_retryable(error: BaseException) -> bool:
    """True if the error's `retryable` attribute is, or else its HTTP status or type is transient.

    Connection errors and timeouts are transient; any other error without a status is not.
    """
    answer = getattr(error, "retryable", None)
    if isinstance(answer, bool):
        return answer
    if isinstance(error, (TimeoutError, ConnectionError)):
        return True
    status = _status(error)
    return status is not None and (status in TRANSIENT or (500 <= status < 600 and status != 501))


def asked_wait(error: BaseException) -> float | None:
    """The seconds to wait before a retry: the error's `retry_after`, or the Retry-After of its HTTP response."""
    delay: object = getattr(error, "retry_after", None)
    if is_number(delay):
        return _seconds(delay)
    headers = _headers(error)
    return None if headers is None else retry_after(headers)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds to wait by the headers (names in lower case), given in milliseconds, seconds or as a date; or None.

    The value may be infinite: the retry policy has a limit.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    from email.utils import parsedate_to_datetime

    try:
        # the date is by the server's clock, so it is compared with the server's `date` header, if any
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else _seconds(float(text))
    except ValueError:
        return None


def _seconds(given: float) -> float | None:
    """As seconds from now; None for NaN."""
    try:
        seconds = float(given)
    except OverflowError:
        seconds = math.inf
    return None if math.isnan(seconds) else max(0.0, seconds)


def _status(error: BaseException) -> int | None:
    carrier: object = getattr(error, "response", None)
    if carrier is None:
        # `code` and `status` without headers prove nothing: errors of all kinds have them
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
        # (urllib's headers are not a Mapping)
        return {str(name).lower(): str(value) for name, value in items()}  # pyright: ignore
    except (TypeError, ValueError):
        return None


def check_error_kinds(name: str, given: object) -> None:
    """Raises `ConfigurationError` unless it is an `ErrorKinds`. (Any type is callable, but only exceptions fit.)"""
    kinds = cast("tuple[object, ...]", given) if isinstance(given, tuple) else (given,)
    typed = isinstance(given, (tuple, type))
    if not typed and callable(given):
        return
    if not (typed and kinds and all(isinstance(each, type) and issubclass(each, BaseException) for each in kinds)):
        raise ConfigurationError(
            f"{name} must be an exception type, a tuple of them, or a function of the error that is true for "
            f"those to retry, not {given!r:.60}."
        )


def error_predicate(kinds: ErrorKinds) -> Callable[[BaseException], bool]:
    """A predicate that is true for these errors."""
    if isinstance(kinds, (type, tuple)):
        return lambda error: isinstance(error, kinds)
    return kinds
