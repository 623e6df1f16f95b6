"""The text of a file, piece by piece: encoding, line ends, and what cannot be stored.

| bytes                              | encoding                                                                     |
|------------------------------------|------------------------------------------------------------------------------|
| see `tools.files.encoding`         | UTF-8, UTF-16 and UTF-32 by their marks, UTF-16 without one, UTF-8           |
| pairs of high bytes, no UTF-8      | GB18030, if its older part GB 2312 can read the first 64 KiB                 |
| UTF-8 but for a few bytes          | UTF-8; the bytes are replaced by U+FFFD                                      |
| else                               | Windows-1252; no text if there are many control characters                   |

The first 64 KiB decide. Line ends become LF; NUL and single surrogates U+FFFD.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import BinaryIO

from agentscope_rx.errors import ConfigurationError, DamagedDocumentError
from agentscope_rx.knowledge.readers.formats.parts import clean
from agentscope_rx.tools.files.encoding import SAMPLE, Style, style_of

PIECE = 64 * 1024
"""The bytes that are read at once."""


def text_of(file: BinaryIO, document: str, encoding: str | None = None) -> Iterator[str]:
    """The text of the file in pieces; `DamagedDocumentError` if it is none. `encoding` None: found by the bytes."""
    head = file.read(SAMPLE)
    style = Style(encoding, _mark(head, encoding)) if encoding else _style(head)
    if style is None:
        raise DamagedDocumentError(document, "it is not text: its bytes are in no known encoding")
    file.seek(len(style.mark))
    # (a decoder and not a `TextIOWrapper`, which would have to be taken off the caller's file in the end)
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder(style.encoding)("replace"), translate=True)
    while data := file.read(PIECE):
        if piece := decoder.decode(data):
            yield clean(piece)
    if piece := decoder.decode(b"", final=True):
        yield clean(piece)


def lines_of(pieces: Iterator[str], most: int) -> Iterator[str]:
    """The lines with their ends; one of more than `most` characters comes in several."""
    rest = ""
    for piece in pieces:
        *lines, rest = _split(rest + piece)
        yield from lines
        while len(rest) > most:
            yield rest[:most]
            rest = rest[most:]
    if rest:
        yield rest


def check_encoding(encoding: str | None) -> str | None:
    """The name of an encoding that Python has; `ConfigurationError`."""
    try:
        return None if encoding is None else codecs.lookup(encoding).name
    except (LookupError, TypeError, ValueError) as error:
        what = f"encoding must be one that Python knows, such as 'gb18030', not {encoding!r:.60}."
        raise ConfigurationError(what) from error


def _split(text: str) -> list[str]:
    # (`splitlines` also splits at characters that belong to a line: form feeds, U+2028)
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + lines[-1:]


def _mark(head: bytes, encoding: str) -> bytes:
    style = style_of(head)
    return style.mark if style is not None and style.encoding == encoding else b""


def _style(head: bytes) -> Style | None:
    style = style_of(head)
    if style is None or style.encoding != "cp1252":
        return style
    if _decodes(head, "gb2312"):
        return Style("gb18030")
    # a few bad bytes in UTF-8: of a Western text nearly all bytes above 127 are bad
    text = head.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    return Style() if bad * 20 <= sum(each > "\x7f" for each in text) else style


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(head, len(head) < SAMPLE)
    except UnicodeDecodeError:
        return False
    return True
