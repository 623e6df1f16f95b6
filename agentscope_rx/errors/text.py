"""Lone surrogates: halves of a character that no encoder takes. Text from models and servers may hold them.

| text goes to            | function                | a lone surrogate becomes             |
|-------------------------|-------------------------|--------------------------------------|
| a message, an error     | `encodable`             | U+FFFD                               |
| JSON                    | `encode_json`           | its escape, which JSON reads back    |
| a file with an encoding | `encodable_in`          | an escape, as all that it cannot say |
| an id, a name           | `check_encodable`       | an error, in `messages.frozen`       |

It stands below everything else, because the text of an error may come from a server.
"""

from __future__ import annotations

from typing import TextIO


def is_encodable(text: str) -> bool:
    """True for a text without lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodable(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD; two halves that follow each other become one character."""
    # (`isascii` first: every text of a run comes through here, and a call of a function costs more)
    if text.isascii() or is_encodable(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode_json(text: str) -> bytes:
    """JSON text in UTF-8; a lone surrogate, which only a string can hold, is written as its escape."""
    return text.encode(errors="backslashreplace")


def encodable_in(text: str, file: TextIO) -> str:
    """The text with escapes in place of the characters that the encoding of the file does not have."""
    encoding: str = getattr(file, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text
