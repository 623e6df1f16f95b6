"""`read_rates`: the rate limit headers of an answer -> what the provider has left for us, on our own clock.

    x-ratelimit-limit-requests: 60                      anthropic-ratelimit-tokens-limit: 80000
    x-ratelimit-remaining-requests: 12                  anthropic-ratelimit-tokens-remaining: 5000
    x-ratelimit-reset-requests: 48s                     anthropic-ratelimit-tokens-reset: 2026-03-01T12:00:41Z

| sent by            | names                                                  | reset                                  |
|--------------------|--------------------------------------------------------|----------------------------------------|
| OpenAI, Groq       | `x-ratelimit-remaining-requests`, `-tokens`            | a duration: `1s`, `6m0s`, `20ms`       |
| Azure              | the same                                               | none, or seconds                       |
| Cerebras, Mistral  | `x-ratelimit-remaining-tokens-minute`, `-req-minute`   | seconds, or none                       |
| OpenRouter         | `x-ratelimit-remaining`                                | milliseconds since 1970                |
| Anthropic          | `anthropic-ratelimit-requests-remaining`, `-tokens-`,  | RFC 3339, by the server's clock, which |
|                    | `-input-tokens-`, `-output-tokens-`                    | its `date` header tells                |

A reset is when the limit is whole again. Anthropic, OpenAI and Groq refill theirs evenly, so that there is room for a
small request long before: `refill` says how much comes in a second. It is told by Anthropic's documentation, and of
others by figures that fit an even refill within a minute or a day. All other limits have nothing before the reset.
Without a reset, the limit is taken to refill evenly within the time in its name, or a minute; without `limit` nothing
is known of when there is more.

A value that cannot be read is as good as not sent, and logged for debugging: a header never fails a call. A limit that
does not tell what remains says nothing.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Literal

Counted = Literal["requests", "tokens", "input_tokens", "output_tokens"]

_log = logging.getLogger("agentscope_rx")

_NAME = re.compile(
    r"x-ratelimit-(?P<field>limit|remaining|reset)"
    r"(?P<name>(-project)?(-(?P<kind>requests|req|tokens|input-tokens|output-tokens))?"
    r"(-(?P<window>second|minute|hour|day|month))?)"
)
_ANTHROPIC = re.compile(
    r"anthropic-ratelimit-(?P<name>requests|tokens|input-tokens|output-tokens)-(?P<field>limit|remaining|reset)"
)
_COUNTED: Mapping[str, Counted] = {
    "requests": "requests",
    "req": "requests",
    "tokens": "tokens",
    "input-tokens": "input_tokens",
    "output-tokens": "output_tokens",
}
# its limit of all tokens is the tightest of the others, and `max_tokens` counts for none of them
_ANTHROPIC_COUNTED: Mapping[str, Counted] = {**_COUNTED, "tokens": "input_tokens"}
_WINDOWS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0, "month": 30 * 86_400.0}
_LONGEST_VALUE = 40
_MOST = 2.0**53
_NUMBER = re.compile(r"\d{1,20}(\.\d{1,20})?", re.ASCII)
_PART = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)(ns|us|µs|ms|d|h|m|s)", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH_SECONDS = 1e9
_EPOCH_MILLISECONDS = 1e11


@dataclass(frozen=True, slots=True)
class LimitWindow:
    """One limit as a provider tells it. `name` is that of its headers, `counted` what it is a number of.

    `reset` is an instant of the clock that was given to `read_rates`; None if it is not known. `refill` is what comes
    back in a second until then; 0 if all comes at the reset.
    """

    name: str
    counted: Counted
    remaining: float
    limit: float | None = None
    reset: float | None = None
    refill: float = 0.0


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """What the headers of one answer say of limits, and when they came, by the same clock as the resets."""

    at: float
    limits: tuple[LimitWindow, ...]


class _Told:
    """The headers of one limit."""

    __slots__ = ("anthropic", "counted", "fields", "window")

    def __init__(self, counted: Counted, window: float | None, *, anthropic: bool) -> None:
        self.counted: Counted = counted
        self.window = window
        self.anthropic = anthropic
        self.fields: dict[str, tuple[str, str]] = {}


def read_rates(headers: Mapping[str, str], now: float) -> RateHeaders | None:
    """What the headers, which came at `now`, say of limits; None if that is nothing."""
    told: dict[str, _Told] = {}
    for header, value in headers.items():
        name = header.lower()
        if "ratelimit-" in name:
            _sort(name, value, told)
    if not told:
        return None
    date = {name.lower(): value for name, value in headers.items()}.get("date")
    limits = tuple(limit for name, each in told.items() if (limit := _limit(name, each, now, date)) is not None)
    return RateHeaders(now, limits) if limits else None


def _sort(header: str, value: str, told: dict[str, _Told]) -> None:
    """Put a header to the others of its limit."""
    found = _NAME.fullmatch(header)
    if found is not None:
        name = found["name"].removeprefix("-") or "requests"
        window = _WINDOWS.get(found["window"] or "")
        each = told.setdefault(name, _Told(_COUNTED[found["kind"] or "requests"], window, anthropic=False))
    else:
        found = _ANTHROPIC.fullmatch(header)
        if found is None:
            return
        name = found["name"]
        each = told.setdefault(name, _Told(_ANTHROPIC_COUNTED[name], None, anthropic=True))
    each.fields[found["field"]] = (header, value.strip())


def _limit(name: str, told: _Told, now: float, date: str | None) -> LimitWindow | None:
    remaining = _amount(told, "remaining")
    if remaining is None:
        return None
    limit = _amount(told, "limit")
    if limit is not None and limit < max(remaining, 1):
        # what cannot be; and 0 of 0, an account without any allowance, for which nothing is worth a wait
        limit = None
    wait = _wait(told, date)
    refill = 0.0
    if limit is not None:
        missing = limit - remaining
        if wait is None:
            refill = limit / (told.window or 60.0)
            wait = missing / refill
        elif wait > 0 and (told.anthropic or _even(missing, limit, wait)):
            refill = missing / wait
    return LimitWindow(name, told.counted, remaining, limit, None if wait is None else now + wait, refill)


def _even(missing: float, limit: float, wait: float) -> bool:
    """Whether that is how long an even refill of `limit` a minute, or a day, takes for what is missing.

    Strictly so: a window that is taken for an even refill would be asked too early. What remains is told in whole
    numbers, so slightly less may be missing.
    """
    whole = [missing * window / limit for window in (_WINDOWS["minute"], _WINDOWS["day"])]
    return any(0.98 * each <= wait <= 1.01 * each for each in whole)


def _amount(told: _Told, field: str) -> float | None:
    header, text = told.fields.get(field, ("", ""))
    if not header:
        return None
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    return value if value <= _MOST else _ignored(header, text)


def _wait(told: _Told, date: str | None) -> float | None:
    """Seconds until the reset, none for one in the past; None if it does not tell."""
    header, text = told.fields.get("reset", ("", ""))
    if not header:
        return None
    try:
        wait = _seconds_until(text, date)
    except (ValueError, TypeError, OverflowError):
        return _ignored(header, text)
    return max(0.0, wait) if math.isfinite(wait) else _ignored(header, text)


def _seconds_until(text: str, date: str | None) -> float:
    if len(text) > _LONGEST_VALUE:
        raise ValueError("it is too long")
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number < _EPOCH_SECONDS:
            return number
        # (not as a date: those end in the year 9999)
        return (number / 1000 if number > _EPOCH_MILLISECONDS else number) - _server_time(date).timestamp()
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return (datetime.fromisoformat(text) - _server_time(date)).total_seconds()


def _server_time(date: str | None) -> datetime:
    """Its clock, where it tells: ours may be wrong."""
    try:
        if date is not None:
            told = parsedate_to_datetime(date)
            return told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        pass
    return datetime.now(UTC)


def _ignored(header: str, text: str) -> None:
    _log.debug("the header %s is ignored: it cannot be read: %.60r", header, text)
