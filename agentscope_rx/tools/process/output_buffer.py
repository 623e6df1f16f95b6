"""`Output`: what a command writes, in bounded memory: its beginning and its end, and how much there was between."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

# colours, cursor movements, titles; and what else is no text
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Output:
    """Takes bytes as they come; `show` is given them as text, until `most` bytes have been shown."""

    def __init__(self, most: int, show: Callable[[str], object] | None = None) -> None:
        self.total = 0
        self._half = max(1, most // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._show = show
        self._room = most
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, data: bytes) -> None:
        """The next piece."""
        self.total += len(data)
        self._progress(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """How many bytes are neither in the beginning nor in the end."""
        return max(0, self.total - len(self._head) - min(len(self._tail), self._half))

    def text(self) -> str:
        """All of it, or what is kept and how much is not."""
        if b"\0" in self._head or b"\0" in self._tail:
            return f"(binary output, {self.total:,} bytes, not shown)"
        tail = bytes(self._tail[-self._half :])
        if not self.left_out:
            return plain(bytes(self._head) + tail)
        head = plain(bytes(self._head)).rstrip("\ufffd")
        return f"{head}\n... ({self.left_out:,} bytes left out) ...\n{plain(tail).lstrip(chr(0xFFFD))}"

    def _progress(self, data: bytes) -> None:
        if self._show is None or self._room <= 0:
            return
        text = _clean(self._decoder.decode(data[: self._room]))
        self._room -= len(data)
        if self._room <= 0:
            text += "\n... (more, not shown)"
        if text:
            self._show(text)


def plain(data: bytes) -> str:
    """Bytes of a terminal as text for a model."""
    return _clean(data.decode("utf-8", "replace"))


def _clean(text: str) -> str:
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
