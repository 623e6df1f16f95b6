"""An answer says no number that the conversation does not hold: `Grounded` tells UNSEEN in its place. Pure.

    held: 3, 58      "3 tickets at 5" "8 euros are 17" "6."      ->  3 tickets at / 58 euros are / [?].

An answer that quotes cannot write one in the first place (`quoting.py`). This is for free text, for an answer that is
cut off within a number, and for a server that heeds no grammar. A number is what is written in digits: 58, 3.5, 1,000,
17:30; one that is written out ("twelve") is a word like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from agentscope_rx.messages import TextBlock
from agentscope_rx.models.response import ChatResponse, ChunkBlock

UNSEEN = "[?]"
"""What stands for a number that the model has from nowhere."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_OPEN = re.compile(r"\d[\d.,:]*$")


def numbers(*texts: str) -> frozenset[str]:
    """The numbers in texts, as they are written."""
    return frozenset(found for text in texts for found in _NUMBER.findall(text))


def ungrounded(said: str, known: Iterable[str]) -> list[str]:
    """The numbers that are said and that no text in `known` holds, in order."""
    held = numbers(*known)
    return [number for number in _NUMBER.findall(said) if number not in held]


class Grounded:
    """The text of one answer: a number is told when it is whole, and only if it is held."""

    __slots__ = ("_held", "_open")

    def __init__(self, held: Iterable[str]) -> None:
        self._held = frozenset(held)
        self._open = ""

    def feed(self, response: ChatResponse) -> Iterator[ChatResponse]:
        """What can be told at an increment: one, or none while a number is incomplete."""
        content: list[ChunkBlock] = []
        for block in response.content:
            if not isinstance(block, TextBlock):
                content.append(block)
            elif text := self._told(block.text):
                content.append(replace(block, text=text))
        if response.finish_reason and self._open:
            rest, self._open = self._open, ""
            content.append(TextBlock(self._shown(rest)))
        if content or response.usage or response.finish_reason:
            yield replace(response, content=tuple(content))

    def _told(self, text: str) -> str:
        text = self._open + text
        found = _OPEN.search(text)
        self._open = found[0] if found else ""
        return self._shown(text[: found.start()] if found else text)

    def _shown(self, text: str) -> str:
        return _NUMBER.sub(lambda found: found[0] if found[0] in self._held else UNSEEN, text)
