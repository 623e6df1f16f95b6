"""The numbers of a text: an answer may say those alone that the conversation holds. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def numbers(*texts: str) -> frozenset[str]:
    """The numbers as they are written: 58, 3.5, 1,000, 17:30."""
    return frozenset(found for text in texts for found in _NUMBER.findall(text))


def ungrounded(said: str, known: Iterable[str]) -> list[str]:
    """The numbers that are said and that no text in `known` holds, in order."""
    held = numbers(*known)
    return [number for number in _NUMBER.findall(said) if number not in held]
