"""`Sentences`: a text that comes in pieces -> its sentences, as soon as each is whole. Pure; no letter is lost.

| a sentence ends                                                        |                                   |
|------------------------------------------------------------------------|-----------------------------------|
| after `.`, `!`, `?`, `…` and closing quotes, where white space follows | so 3.14 and a.b.c stay whole      |
| after `。`, `！`, `？`, `；` and closing quotes                        | at once, when the next letter is there |
| at the end of a line                                                   |                                   |
| at `longest` characters, after the last `,`, `，` or space             | nobody waits for a long one       |

How the text is cut into pieces makes no difference.
"""

from __future__ import annotations

import re

from agentscope_rx.errors import ConfigurationError

_CLOSING = "\"'”’」』)）\\]】*_`"
_END = re.compile(
    rf"\n\s*(?=\S)|(?:[.!?…]+[{_CLOSING}]*)[^\S\n]+(?=\S)|(?:[。！？；]+[{_CLOSING}]*)(?=[^{_CLOSING}。！？；])"
)
_PAUSE = re.compile(r"[,;:，、：]\s*|\s+")
_FENCE = re.compile(r"^\s*(```|~~~).*$", re.M)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"^\s*(#{1,6}|[-*+>])\s+|[*`|]+|\b__|__\b", re.M)


class Sentences:
    """The sentences of one text."""

    __slots__ = ("_held", "_longest")

    def __init__(self, longest: int = 300) -> None:
        if longest < 20:
            raise ConfigurationError(f"A sentence of at most {longest} characters is none; longest must be >= 20.")
        self._longest = longest
        self._held = ""

    def take(self, piece: str) -> list[str]:
        """The sentences that this piece completes."""
        self._held += piece
        found: list[str] = []
        while (end := self._end()) is not None:
            found.append(self._held[:end])
            self._held = self._held[end:]
        return found

    def rest(self) -> list[str]:
        """What is left when nothing follows; nothing if that is blank."""
        held, self._held = self._held, ""
        return [held] if held.strip() else []

    def _end(self) -> int | None:
        match = _END.search(self._held, 0, self._longest + 1)
        if match is not None and match.end() <= self._longest:
            return match.end()
        if len(self._held) <= self._longest:
            return None
        pauses = [m.end() for m in _PAUSE.finditer(self._held, 1, self._longest)]
        return pauses[-1] if pauses else self._longest


def without_marks(text: str) -> str:
    """The words of a text in Markdown: what a voice should not read out is left out."""
    text = _LINK.sub(r"\1", _FENCE.sub("", text))
    return " ".join(_MARKS.sub("", text).split())
