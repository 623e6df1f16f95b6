"""`read_rates`: the rate limit headers of an answer -> the remaining limits, on the local clock.

    x-ratelimit-limit-requests: 60                      anthropic-ratelimit-tokens-limit: 80000
    x-ratelimit-remaining-requests: 12                  anthropic-ratelimit-tokens-remaining: 5000
    x-ratelimit-reset-requests: 48s                     anthropic-ratelimit-tokens-reset: 2026-03-01T12:00:41Z

| sent by            | names                                                  | reset                                  |
|--------------------|--------------------------------------------------------|----------------------------------------|
| OpenAI, Groq       | `x-ratelimit-remaining-requests`, `-tokens`            | a duration: `1s`, `6m0s`, `20ms`       |
| Azure              | the same                                               | none, or seconds                       |
| Cerebras, Mistral  | `x-ratelimit-remaining-tokens-minute`, `-req-minute`   | seconds, or none                       |
| OpenRouter         | `x-ratelimit-remaining`                                | milliseconds since 1970                |
| Anthropic          | `anthropic-ratelimit-requests-remaining`, `-tokens-`,  | RFC 3339, by the server's clock (its   |
|                    | `-input-tokens-`, `-output-tokens-`                    | `date` header)                         |

At its reset a limit is full again. Anthropic, OpenAI and Groq refill evenly, so a small request fits long before the
reset: `refill` is the rate per second. An even refill is documented by Anthropic; for other providers it is assumed
only if the numbers fit one within a minute or a day. All other limits are assumed to stay as they are until the reset.
A limit without a reset is assumed to refill evenly within the window in its name, or a minute. Without `limit`, the
time of the refill is unknown.

A header never fails a call: a value that cannot be parsed is ignored, with a debug log message. A limit without its
remaining amount is ignored.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.lazy import pattern

Counted = Literal["requests", "tokens", "input_tokens", "output_tokens"]

_log = logging.getLogger("agentscope_rx")

_NAME = pattern(
    r"x-ratelimit-(?P<field>limit|remaining|reset)"
    r"(?P<name>(-project)?(-(?P<kind>requests|req|tokens|input-tokens|output-tokens))?"
    r"(-(?P<window>second|minute|hour|day|month))?)"
)
_ANTHROPIC = pattern(
    r"anthropic-ratelimit-(?P<name>requests|tokens|input-tokens|output-tokens)-(?P<field>limit|remaining|reset)"
)
_COUNTED: Mapping[str, Counted] = {
    "requests": "requests",
    "req": "requests",
    "tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
}
# its limit of all tokens is the tightest of the other two, and `max_tokens` counts towards neither
_ANTHROPIC_COUNTED: Mapping[str, Counted] = {**_COUNTED, "tokens": "input_tokens"}
_WINDOWS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "month": 30 * 86_400.0}
_MAX_LENGTH = 40
_MAX_AMOUNT = 2.0**53
_NUMBER = pattern(r"\d{1,20}(\.\d{1,20})?", re.ASCII)
_DURATION_PART = r"(\d{1,20}(?:\.\d{1,20})?)(ns|us|µs|ms|d|h|m|s)"
_PART = pattern(_DURATION_PART, re.ASCII)
_DURATION = pattern(rf"(?:{_DURATION_PART})+", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e11


@dataclass(frozen=True, slots=True)
class LimitWindow:
    """One limit as reported by a provider. `name` is from its headers; `counted` is the unit of its numbers.

    `reset` is a time on the clock given to `read_rates`; None if unknown. `refill` is the amount per second that is
    restored until then; 0 if everything is restored at the reset.
    """

    name: str
    counted: Counted
    remaining: float
    limit: float | None = None
    reset: float | None = None
    refill: float = 0.0


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """The limits in the headers of one answer; `at` is their time of arrival, on the same clock as the resets."""

    at: float
    limits: tuple[LimitWindow, ...]


class _LimitHeaders:
    """The headers of one limit."""

    __slots__ = ("anthropic", "counted", "fields", "window")

    def __init__(self, counted: Counted, window: float | None, *, anthropic: bool) -> None:
        self.counted: Counted = counted
        self.window = window
        self.anthropic = anthropic
        self.fields: dict[str, tuple[str, str]] = {}


def read_rates(headers: Mapping[str, str], now: float) -> RateHeaders | None:
    """The limits in these headers, which arrived at `now`; None if there are none."""
    found: dict[str, _LimitHeaders] = {}
    for header, value in headers.items():
        name = header.lower()
        if "ratelimit-" in name:
            _collect(name, value, found)
    if not found:
        return None
    date = {name.lower(): value for name, value in headers.items()}.get("date")
    limits = tuple(limit for name, each in found.items() if (limit := _limit(name, each, now, date)) is not None)
    return RateHeaders(now, limits) if limits else None


def _collect(header: str, value: str, found: dict[str, _LimitHeaders]) -> None:
    """Add a header to those of its limit."""
    match = _NAME().fullmatch(header)
    if match is not None:
        name = match["name"].removeprefix("-") or "requests"
        window = _WINDOWS.get(match["window"] or "")
        limit = found.setdefault(name, _LimitHeaders(_COUNTED[match["kind"] or "requests"], window, anthropic=False))
    else:
        match = _ANTHROPIC().fullmatch(header)
        if match is None:
            return
        name = match["name"]
        limit = found.setdefault(name, _LimitHeaders(_ANTHROPIC_COUNTED[name], None, anthropic=True))
    limit.fields[match["field"]] = (header, value.strip())


def _limit(name: str, headers: _LimitHeaders, now: float, date: str | None) -> LimitWindow | None:
    remaining = _amount(headers, "remaining")
    if remaining is None:
        return None
    limit = _amount(headers, "limit")
    if limit is not None and limit < max(remaining, 1):
        # inconsistent numbers; or 0 of 0, an account without any allowance, where waiting would not help
        limit = None
    wait = _wait(headers, date)
    refill = 0.0
    if limit is not None:
        missing = limit - remaining
        if wait is None:
            refill = limit / (headers.window or 60.0)
            wait = missing / refill
        elif wait > 0 and (headers.anthropic or _even(missing, limit, wait)):
            refill = missing / wait
    return LimitWindow(name, headers.counted, remaining, limit, None if wait is None else now + wait, refill)


def _even(missing: float, limit: float, wait: float) -> bool:
    """True if an even refill of `limit` per minute, or per day, takes `wait` seconds for the missing amount.

    The test is strict: if a fixed window were mistaken for an even refill, requests would be sent too early. Providers
    round the remaining amount down to whole numbers, so slightly less may be missing.
    """
    expected = [missing * window / limit for window in (_WINDOWS["minute"], _WINDOWS["day"])]
    return any(0.98 * each <= wait <= 1.01 * each for each in expected)


def _amount(headers: _LimitHeaders, field: str) -> float | None:
    header, text = headers.fields.get(field, ("", ""))
    if not header:
        return None
    value = float(text) if _NUMBER().fullmatch(text) else math.nan
    return value if value <= _MAX_AMOUNT else _ignored(header, text)


def _wait(headers: _LimitHeaders, date: str | None) -> float | None:
    """Seconds until the reset, 0 if it is past; None if there is no valid header."""
    header, text = headers.fields.get("reset", ("", ""))
    if not header:
        return None
    try:
        wait = _seconds_until(text, date)
    except (ValueError, TypeError, OverflowError):
        return _ignored(header, text)
    return max(0.0, wait) if math.isfinite(wait) else _ignored(header, text)


def _seconds_until(text: str, date: str | None) -> float:
    if len(text) > _MAX_LENGTH:
        raise ValueError("it is too long")
    if _NUMBER().fullmatch(text):
        number = float(text)
        if number < _EPOCH_SECONDS:
            return number
        # (not as a datetime, which ends in the year 9999)
        return (number / 1000 if number > _EPOCH_MILLISECONDS else number) - _server_time(date).timestamp()
    if _DURATION().fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART().findall(text))
    return (datetime.fromisoformat(text) - _server_time(date)).total_seconds()


def _server_time(date: str | None) -> datetime:
    """The server's `date` header, if valid: the local clock may be wrong."""
    from email.utils import parsedate_to_datetime

    try:
        if date is not None:
            parsed = parsedate_to_datetime(date)
            return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        pass
    return datetime.now(UTC)


def _ignored(header: str, text: str) -> None:
    _log.debug("ignoring the header %s with the invalid value %.60r", header, text)
