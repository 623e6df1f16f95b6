"""Text that every encoder takes. It stands down here because the text of an error may be a server's, too."""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text, its lone surrogates replaced by U+FFFD: no encoder takes them, and one would spoil a whole memory."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # a pair that came as two halves is one character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
