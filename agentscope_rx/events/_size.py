"""`event_size`: an estimate of the bytes that an event holds, for buffers and logs that are bounded in bytes.

    ReasoningChunkEvent(delta=TextBlock("sunny"))      EVENT_BYTES + OBJECT_BYTES + len("sunny") + ...

| counted                                                        | not counted                                   |
|----------------------------------------------------------------|-----------------------------------------------|
| texts, as UTF-8: of blocks, arguments, results, messages       | `history`, `messages`, `options`, `schema`    |
| media that a message includes, as base64                       | the error object of an `ErrorEvent`           |
| a fixed number for each event, object and number               | `source`, which all events of a run share     |

So it counts the content of the event's JSON. A message in two events counts in both. The cost is that of the content:
O(1) for an ASCII text, whatever its length, and O(length) for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import cast

from agentscope_rx.events.base import Event
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import ReasoningChunkEvent, SummaryChunkEvent
from agentscope_rx.messages.blocks import TextBlock

EVENT_BYTES = 256
"""Counted for an event, apart from its content."""
OBJECT_BYTES = 64
"""Counted for each message, block, list and dict in it, apart from their content."""
NUMBER_BYTES = 8
"""Counted for each number."""

_CHUNK_BYTES = EVENT_BYTES + OBJECT_BYTES + 3 * NUMBER_BYTES
_CHUNKS = frozenset((ReasoningChunkEvent, SummaryChunkEvent))
_NUMBERS = frozenset((int, float, bool))


def event_size(event: Event) -> int:
    """An estimate of the bytes of this event's own content.

    The default of `EventStream.buffered(max_bytes=...)`; for other flows of events give `size_of=event_size`."""
    kind = type(event)
    if kind in _CHUNKS and isinstance(event, ChunkEvent):
        delta = event.delta
        if type(delta) is TextBlock and event.usage is None and event.snapshot is None and delta.text.isascii():
            # nearly all events of a run: the same sum, in one call
            return _CHUNK_BYTES + len(event.message_id) + len(delta.text)
    size = EVENT_BYTES
    waiting: list[object] = [getattr(event, name) for name in _own_fields(kind)]
    # a loop: arguments are nested up to 100 levels deep
    while waiting:
        value = waiting.pop()
        part = type(value)
        if part is NoneType:
            continue
        if part is TextBlock:
            size += OBJECT_BYTES + _text_size(cast("TextBlock", value).text)
        elif isinstance(value, str):
            size += _text_size(value)
        elif part in _NUMBERS:
            size += NUMBER_BYTES
        elif isinstance(value, (bytes, bytearray)):
            size += len(value)
        else:
            size += OBJECT_BYTES
            waiting.extend(_parts(value))
    return size


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return [*mapping.keys(), *mapping.values()]
    if isinstance(value, (list, tuple)):
        return cast("list[object]", value)
    return [getattr(value, name) for name in _fields(type(value))]


@cache
def _own_fields(kind: type[Event]) -> tuple[str, ...]:
    """The fields of an event that are part of its JSON: those that are compared."""
    return tuple(each.name for each in fields(kind) if each.compare and each.name != "source")


@cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else ()
