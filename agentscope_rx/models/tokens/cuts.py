"""Where conversations and texts are cut so that they fit into a number of tokens.

`steady` cuts a conversation before its newest messages so that prompt caches stay valid. All cuts that use between a
part and all of the limit form a window of positions. The cut is at the roundest number in this window (the one with the
most zeros in binary): as the conversation grows the window moves, and the cut stays the same until the window has
passed it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Cut(NamedTuple):
    """A position where the conversation may be cut, and the tokens from there on."""

    at: int
    tokens: int


def steady(fitting: Sequence[Cut], low: float) -> int:
    """Of the cuts that fit, newest first, the most stable one that uses at least `low` tokens."""
    places = [cut.at for cut in fitting]
    last = next((cut.at for cut in reversed(fitting) if cut.tokens <= low), places[0])
    window = [at for at in reversed(places) if at <= last]
    # the roundest position, or the next cut after it
    return window[bisect_left(window, _roundest(window[0], last))]


def _roundest(low: int, high: int) -> int:
    """The number from `low` to `high` with the most trailing zeros in binary."""
    while high & (high - 1) >= low and high:
        high &= high - 1
    return high


def most_that_fits(least: int, most: int, fits: Callable[[int], bool]) -> int:
    """The greatest number up to `most` that was seen to fit; `least` fits.

    Found by doubling, then by halving, so that not much more than what fits is ever measured.
    """
    low, step = least, 1
    while low < most and fits(high := min(most, low + step)):
        low, step = high, 2 * step
    if low == most:
        return most
    high = min(most, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
