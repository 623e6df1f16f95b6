"""The common axis of a timeline: times to columns, ticks at round numbers, and short words for times and numbers."""

from __future__ import annotations

import math
import unicodedata
from typing import NamedTuple

_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between ticks from one second to a day."""
TICK_COLUMNS = 10
"""The least columns from one tick to the next."""


class Tick(NamedTuple):
    """A label at a column."""

    column: int
    label: str
    seconds: float


class Axis:
    """Times from `begin` to `end` on so many columns."""

    __slots__ = ("_per_column", "begin", "columns", "end")

    def __init__(self, begin: float, end: float, columns: int) -> None:
        self.begin: float = begin
        self.end: float = end
        self.columns: int = columns
        self._per_column = max(end - begin, 1e-6) / columns

    def column(self, at: float) -> int:
        """The column of a moment."""
        return min(self.columns - 1, max(0, int((at - self.begin) / self._per_column + 1e-9)))

    def cells(self, begin: float, end: float) -> tuple[int, int]:
        """The columns from a moment to another one: first, and behind the last; at least one."""
        first = self.column(begin)
        behind = math.ceil((end - self.begin) / self._per_column - 1e-9)
        return first, min(self.columns, max(first + 1, behind))

    def ticks(self) -> list[Tick]:
        """Ticks at round numbers of seconds after the beginning."""
        step = _step(self._per_column * TICK_COLUMNS)
        count = int((self.end - self.begin) / step + 1e-9)
        ticks = [
            Tick(int(n * step / self._per_column + 1e-9), tick_label(n * step, step), n * step)
            for n in range(count + 1)
        ]
        # the last label must not be cut off
        return [each for each in ticks if each.column + len(each.label) < self.columns]


def _step(least: float) -> float:
    if least > _STEPS[-1]:
        return _STEPS[-1] * math.ceil(least / _STEPS[-1])
    if least > 0.5:
        return next(float(each) for each in _STEPS if each >= least)
    power = 10.0 ** math.floor(math.log10(max(least, 1e-6)))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= least * (1 - 1e-9))


def tick_label(seconds: float, step: float) -> str:
    """The label of a tick, as exact as the step."""
    if seconds == 0:
        return "0"
    if step >= 3600:
        return f"{seconds / 3600:,.0f} h"
    if step >= 60:
        return f"{seconds / 60:,.0f} min"
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes}:{rest:02d} min"
    decimals = max(0, math.ceil(-math.log10(step) - 1e-9)) if step < 1 else 0
    return f"{seconds:.{decimals}f} s"


def short_seconds(seconds: float) -> str:
    """`410 ms`, `1.10 s`, `42.0 s`, `4m 05s`, `2h 03m`: at most eight characters below a thousand hours."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    return f"{minutes // 60}h {minutes % 60:02d}m"


def short_number(number: int) -> str:
    """`812`, `12.3k`, `1.2M`."""
    if number < 10_000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k" if number < 99_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def cell_width(text: str) -> int:
    """The columns of a text: wide characters take two, combining ones none."""
    return len(text) if text.isascii() else sum(_width(each) for each in text)


def fitted(text: str, columns: int) -> str:
    """The text in exactly so many columns: filled with spaces, or cut, with three dots if there is room."""
    width = cell_width(text)
    if width <= columns:
        return text + " " * (columns - width)
    dots = "..." if columns > 6 else ""
    kept, used = "", 0
    for each in text:
        if used + _width(each) > columns - len(dots):
            break
        kept += each
        used += _width(each)
    return f"{kept}{dots}" + " " * (columns - len(dots) - used)


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
