"""Short forms: what a request sends in the place of parts of a message that memory keeps whole.

    message  text . call(10,000 characters of arguments) . result(2 MB)      in memory, in sessions, in `memory.read()`
    sent     text . call(short arguments)                . result(head, tail)    in requests

A short form is kept in the message's metadata, by the index of the block that it stands for, so every store keeps it,
and the original is not lost: `restored` gives the message without short forms. What the short form of a result has in
common with the result, such as a picture, is kept once: `{"same": <index in the output>}`.

A short form stands for the block that it was made of, and for no other one. If the block is changed later, such as by a
hook that removes a secret from it, the changed block is sent: `of` has a checksum of the block.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Final, cast

from pydantic import TypeAdapter

from agentscope_rx.messages import ContentBlock, Msg, ToolResultBlock
from agentscope_rx.messages.frozen import thaw

SHORT_FORMS: Final = "memory_short_forms"
"""The key in a message's metadata: {"<index of the block>": <block as JSON, and `of`>}."""


@cache
def _adapter() -> TypeAdapter[ContentBlock]:
    # built on first use: it costs more than importing the module
    return TypeAdapter(ContentBlock)


_forms: dict[int, tuple[weakref.ref[Msg], Msg]] = {}
"""What is sent for a message, by the identity of the message object."""


def has_short_forms(message: Msg) -> bool:
    """True if a request sends other blocks than memory has."""
    return bool(message.metadata) and SHORT_FORMS in message.metadata


def shortened(message: Msg, forms: Mapping[int, ContentBlock]) -> Msg:
    """The message with these short forms added, by the index of the block that each stands for.

    Requests send the short forms, and memory keeps the message whole: `restored` removes them again.
    """
    kept = cast("Mapping[str, object]", message.metadata.get(SHORT_FORMS, {}))
    added = {
        str(index): {**_dumped(message.content[index], block), "of": _checksum(message.content[index])}
        for index, block in forms.items()
    }
    return message.replace(metadata={**message.metadata, SHORT_FORMS: {**kept, **added}})


def restored(message: Msg) -> Msg:
    """The message without short forms, whole: a request sends all of it again."""
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
        _read(block, forms[str(index)]) if str(index) in forms else block for index, block in enumerate(message.content)
    )
    form = restored(message).replace(content=content)
    _forms[key] = (weakref.ref(message, lambda _: _forms.pop(key, None)), form)
    return form


def _dumped(whole: ContentBlock, form: ContentBlock) -> dict[str, object]:
    """The short form as JSON; blocks of a result's own output by their index, so that no media is kept twice."""
    if not isinstance(whole, ToolResultBlock) or not isinstance(form, ToolResultBlock):
        return _adapter().dump_python(form, mode="json")
    own = {id(block): index for index, block in enumerate(whole.output)}
    dumped = _adapter().dump_python(
        form.replace(output=[block for block in form.output if id(block) not in own]), mode="json"
    )
    others = iter(dumped["output"])
    dumped["output"] = [{"same": own[id(block)]} if id(block) in own else next(others) for block in form.output]
    return dumped


def _read(whole: ContentBlock, form: object) -> ContentBlock:
    """The short form that the JSON describes; the block itself if it was made of another one."""
    data = cast("dict[str, object]", thaw({"form": form})["form"])
    if data.pop("of", None) != _checksum(whole):
        return whole
    if not isinstance(whole, ToolResultBlock) or data.get("type") != "tool_result":
        return _adapter().validate_python(data)
    output = cast("list[dict[str, object]]", data["output"])
    short = {**data, "output": [x for x in output if "same" not in x]}
    made = cast("ToolResultBlock", _adapter().validate_python(short))
    others = iter(made.output)
    return made.replace(output=[whole.output[cast("int", x["same"])] if "same" in x else next(others) for x in output])


def _checksum(block: ContentBlock) -> int:
    return zlib.crc32(_adapter().dump_json(block))
