"""Short forms: what a request sends in the place of parts of a message that memory keeps whole.

    message  text . call(10,000 characters of arguments) . result(2 MB)      in memory, in sessions, in `memory.read()`
    sent     text . call(short arguments)                . result(head, tail)    in requests

A short form is kept in the message's metadata, by the index of the block that it stands for, so every store keeps it,
and the original is not lost: `restored` gives the message without short forms.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Final, cast

from pydantic import TypeAdapter

from agentscope_rx.messages import ContentBlock, Msg
from agentscope_rx.messages.frozen import thaw

SHORT_FORMS: Final = "memory_short_forms"
"""The key in a message's metadata: {"<index of the block>": <block as JSON>}."""

_BLOCK: Final[TypeAdapter[ContentBlock]] = TypeAdapter(ContentBlock)
_forms: dict[int, tuple[weakref.ref[Msg], Msg]] = {}
"""What is sent for a message, by the identity of the message object."""


def has_short_forms(message: Msg) -> bool:
    """True if a request sends other blocks than memory has."""
    return bool(message.metadata) and SHORT_FORMS in message.metadata


def shortened(message: Msg, forms: Mapping[int, ContentBlock]) -> Msg:
    """The message with these short forms added, by the index of the block that each stands for."""
    kept = cast("Mapping[str, object]", message.metadata.get(SHORT_FORMS, {}))
    added = {str(index): _BLOCK.dump_python(block, mode="json") for index, block in forms.items()}
    return message.replace(metadata={**message.metadata, SHORT_FORMS: {**kept, **added}})


def restored(message: Msg) -> Msg:
    """The message without short forms: a request sends all of it again."""
    if not has_short_forms(message):
        return message
    return message.replace(metadata={key: value for key, value in message.metadata.items() if key != SHORT_FORMS})


def sent_form(message: Msg) -> Msg:
    """The message as a request sends it: the same object if it has no short forms, and the same one each time."""
    if not has_short_forms(message):
        return message
    key = id(message)
    known = _forms.get(key)
    # the id may be that of a message that is gone
    if known is not None and known[0]() is message:
        return known[1]
    forms = cast("Mapping[str, object]", message.metadata[SHORT_FORMS])
    content = tuple(
        _BLOCK.validate_python(thaw({"form": forms[str(index)]})["form"]) if str(index) in forms else block
        for index, block in enumerate(message.content)
    )
    form = restored(message).replace(content=content)
    _forms[key] = (weakref.ref(message, lambda _: _forms.pop(key, None)), form)
    return form
