"""Bytes as text and back. An edited file keeps its encoding, byte order mark and line ends.

| bytes                                     | encoding                                  |
|-------------------------------------------|-------------------------------------------|
| begin with a byte order mark              | that of the mark: UTF-8, UTF-16, UTF-32   |
| every other one is NUL, or nearly         | UTF-16 without a mark                     |
| contain a NUL                             | none: binary                              |
| are UTF-8                                 | UTF-8                                     |
| else                                      | Windows-1252, or Latin-1 where that fails |
| else, with many control characters        | none: binary                              |

A table and not a library: charset-normalizer guesses by statistics of languages, so that a small edit of a file could
change the encoding that it is read in. Here decoding always gives text that encodes to the same bytes.
"""

from __future__ import annotations

import codecs
import re

from agentscope_rx.errors import WorkspaceError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.files.paths import shown

SAMPLE = 64 * 1024
"""How many bytes of a file decide its style."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_IMAGES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)


@dataclass(frozen=True, slots=True)
class Style:
    """The encoding, byte order mark and line ends of a file."""

    encoding: str = "utf-8"
    mark: bytes = b""
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        """The bytes of this text in this style; its line ends are not changed."""
        return self.mark + text.encode(self.encoding)

    def lines_ended(self, text: str) -> str:
        """The text with the line ends of this style."""
        return unix(text).replace("\n", self.newline)

    def __str__(self) -> str:
        parts = [self.encoding] if self.encoding != "utf-8" else ["utf-8 with a mark"] if self.mark else []
        if self.newline != "\n":
            parts.append({"\r\n": "lines end with CR LF", "\r": "lines end with CR"}[self.newline])
        return ", ".join(parts)


PLAIN = Style()
"""The style of a new file."""


def style_of(data: bytes) -> Style | None:
    """The style of a file that begins with these bytes; None if it is not text."""
    head = data[:SAMPLE]
    encoding, mark = _encoding(head, len(data) > SAMPLE)
    if encoding is None:
        return None
    text = head[len(mark) :].decode(encoding, "replace")
    # (`\r\n` counts once)
    windows = text.count("\r\n")
    unix, old = text.count("\n") - windows, text.count("\r") - windows
    newline = "\r\n" if windows > unix else "\r" if old > unix + windows else "\n"
    return Style(encoding, mark, newline)


def decoded(data: bytes, path: str) -> tuple[str, Style]:
    """The text of a file and its style; encoding gives the same bytes. `WorkspaceError` if it is not text."""
    style = style_of(data)
    for encoding in (style.encoding, "cp1252", "latin-1") if style is not None else ():
        assert style is not None
        if style.mark and encoding != style.encoding:
            break
        try:
            text = data[len(style.mark) :].decode(encoding)
        except UnicodeDecodeError:
            continue
        return text, Style(encoding, style.mark, style.newline)
    hint = "It cannot be read or searched as text"
    raise WorkspaceError(f"{shown(path)} is not a text file ({_sort(data)}). {hint}.", path=path, reason="binary")


def lines_of(text: str) -> list[str]:
    """The lines without their ends; an empty last one is left out."""
    lines = unix(text).split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def line_count(text: str) -> int:
    """How many lines `lines_of` gives."""
    ends = text.count("\n") + text.count("\r") - text.count("\r\n")
    return ends + (text != "" and text[-1] not in "\r\n")


def unix(text: str) -> str:
    """The text with each line end as LF."""
    # (a pattern of `re` would take ten times as long for many short lines)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def image_type(data: bytes) -> str | None:
    """The media type of an image in a format that models take, or None."""
    for beginning, media_type in _IMAGES:
        if beginning.match(data):
            return media_type
    return None


def _encoding(head: bytes, cut: bool) -> tuple[str | None, bytes]:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, mark
    if b"\0" in head:
        return _wide(head), b""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, not cut)
    except UnicodeDecodeError:
        odd = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head)
        return (None if odd > len(head) // 20 else "cp1252"), b""
    return "utf-8", b""


def _wide(head: bytes) -> str | None:
    """UTF-16 without a mark: of text in Latin script every other byte is NUL."""
    even, odd = head[::2], head[1::2]
    if len(head) < 4 or len(head) % 2:
        return None
    if odd.count(0) > 0.7 * len(odd) and not even.count(0):
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and not odd.count(0) else None


def _sort(data: bytes) -> str:
    sorts = ((b"%PDF", "a PDF"), (b"PK\x03\x04", "a zip archive"), (b"\x7fELF", "a program"), (b"\x1f\x8b", "gzip"))
    return next((name for beginning, name in sorts if data.startswith(beginning)), f"{len(data):,} bytes of data")
