"""`Best`: the exact result of a search in a database that only comes near to it.

Databases cannot evaluate every condition as `where.matches` does, and cut chunks of equal score anywhere. So a search
asks for some more than it needs, drops what does not match, and asks for more as long as the cut is not certain:

    ask 10  ->  9 8 8 7 7 7 7 7 7 7      limit 3: the third best is certain, because the last one is worse
    ask 10  ->  9 8 8 8 8 8 8 8 8 8      the cut may be in the middle of the eights: ask for more
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.where import Where, matches

_MORE = 6
_DIGITS = 6
"""The digits of a score that count: the last ones of a float depend on the order of addition."""


_MARGIN = 1e-12
"""How far out, as a part of itself, a database looks for the end of a range."""


class Best:
    """Asks a database for `ask` chunks until `take` returns the best ones."""

    def __init__(self, limit: int, where: Where | None, score: str) -> None:
        self.ask: int = limit + _MORE
        self._limit = limit
        self._where = where
        self._score = score

    def take(self, found: Sequence[Found], *, all: bool | None = None) -> tuple[Found, ...] | None:
        """The best of what the database found, best first; None if it has to be asked for more.

        `all` is True if there is no more to find, by default if fewer were found than asked for.
        """
        exhausted = len(found) < self.ask if all is None else all
        kept = sorted((each for each in found if matches(each.chunk, self._where)), key=self._order)
        if not exhausted:
            last = min(map(self._of, found))
            # (what is not found yet may be as good as the last one)
            certain = len(kept) >= self._limit and self._of(kept[self._limit - 1]) > last
            if not certain:
                self.ask *= 4
                return None
        return tuple(kept[: self._limit])

    def _of(self, found: Found) -> float:
        value: float | None = getattr(found, self._score)
        return value or 0.0

    def _order(self, found: Found) -> tuple[float, str, int]:
        return (-self._of(found), found.chunk.document.id, found.chunk.number)


def rounded(similarity: float | None) -> float:
    """A cosine as stores report it, -1 to 1; what is like nothing has 0."""
    if similarity is None or similarity != similarity:
        return 0.0
    return max(-1.0, min(1.0, round(similarity, _DIGITS)))


def loosened(end: float, sign: str) -> float:
    """The end of a range, so far out that the last digit of a float that was written as text makes no difference."""
    try:
        end = float(end)
    except OverflowError:
        return float("inf") if end > 0 else float("-inf")
    return end - abs(end) * _MARGIN if sign == ">=" else end + abs(end) * _MARGIN
