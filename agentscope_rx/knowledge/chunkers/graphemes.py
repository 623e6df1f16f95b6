"""Where a text can be cut between two characters without damage to one that a reader sees.

    e + combining accent     thumb + skin tone     man + joiner + woman     flag of two letters     CR + LF

A cut that would fall into one of these moves to its beginning. It moves back 32 positions at most: text that is made of
marks only is cut anywhere, because a chunk has a greatest size.
"""

from __future__ import annotations

import unicodedata

_BACK = 32
_JOINER = "\u200d"


def whole_characters(text: str, at: int, least: int) -> int:
    """The last position of at most `at` that does not divide a visible character; `at` if there is none > `least`."""
    for place in range(at, max(least, at - _BACK), -1):
        if place >= len(text) or not _joined(text, place):
            return place
    return at


def _joined(text: str, at: int) -> bool:
    before, after = text[at - 1], text[at]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if after == _JOINER or before == _JOINER or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"):
        return True
    return _is_flag(after) and _flags_before(text, at) % 2 == 1


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    count = 0
    while count < _BACK and at - count > 0 and _is_flag(text[at - count - 1]):
        count += 1
    return count
