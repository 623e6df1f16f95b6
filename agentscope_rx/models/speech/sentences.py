"""`Sentences`: splits streamed text into sentences, each as soon as it is complete. Pure; no character is lost.

| a sentence ends                                                        |                                   |
|------------------------------------------------------------------------|-----------------------------------|
| after `.`, `!`, `?`, `…` and closing quotes, where white space follows | so 3.14 and a.b.c are not split    |
| after `。`, `！`, `？`, `；` and closing quotes                        | with the next character            |
| at the end of a line                                                   |                                   |
| at `longest` characters, after the last `,`, `，` or space             | so a long sentence is not delayed  |

The result does not depend on the chunks of the text.
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
    """Splits streamed text into sentences. The result does not depend on how the text was cut."""

    __slots__ = ("_buffer", "_longest")

    def __init__(self, longest: int = 300) -> None:
        if longest < 20:
            raise ConfigurationError(f"longest must be a whole number >= 20, not {longest}.")
        self._longest = longest
        self._buffer = ""

    def take(self, piece: str) -> list[str]:
        """The sentences that this piece completes."""
        self._buffer += piece
        found: list[str] = []
        while (end := self._end()) is not None:
            found.append(self._buffer[:end])
            self._buffer = self._buffer[end:]
        return found

    def rest(self) -> list[str]:
        """The rest at the end of the text; empty if it is blank."""
        rest, self._buffer = self._buffer, ""
        return [rest] if rest.strip() else []

    def _end(self) -> int | None:
        match = _END.search(self._buffer, 0, self._longest + 1)
        if match is not None and match.end() <= self._longest:
            return match.end()
        if len(self._buffer) <= self._longest:
            return None
        pauses = [m.end() for m in _PAUSE.finditer(self._buffer, 1, self._longest)]
        return pauses[-1] if pauses else self._longest


def without_marks(text: str) -> str:
    """A Markdown text without markup, for a voice to read."""
    text = _LINK.sub(r"\1", _FENCE.sub("", text))
    return " ".join(_MARKS.sub("", text).split())
