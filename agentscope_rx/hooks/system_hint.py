"""`wrapped`: a hint in the tags by which a model tells the program's words from those of a user."""

from __future__ import annotations

import re
from typing import Final

OPEN: Final = "<system-hint>"
CLOSE: Final = "</system-hint>"

_TAGS = re.compile(r"<(?=\s*/?\s*system-hint)", re.IGNORECASE)


def wrapped(text: str) -> str:
    """The hint as the model reads it. No text in it, such as the name of a plan, closes the tag."""
    return f"{OPEN}\n{_TAGS.sub('&lt;', text)}\n{CLOSE}"
