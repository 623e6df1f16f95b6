"""`wrapped`: a hint in the tags by which a model tells the program's words from those of a user."""

from __future__ import annotations

from typing import Final

from agentscope_rx.messages.tags import Tags

OPEN: Final = "<system-hint>"
CLOSE: Final = "</system-hint>"

_TAGS: Final = Tags("system-hint")


def wrapped(text: str) -> str:
    """The hint as the model reads it. No text in it, such as the name of a plan, closes the tag."""
    return f"{OPEN}\n{_TAGS.escaped(text)}\n{CLOSE}"
