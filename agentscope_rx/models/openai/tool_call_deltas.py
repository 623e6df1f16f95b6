"""`ToolCallDeltas`: assigns the pieces of tool calls to their calls.

| the piece has                              | it belongs to                                                         |
|--------------------------------------------|-----------------------------------------------------------------------|
| an index that is open, no name             | the call at that index, with any id (some servers change it)          |
| an index that is open, a name, another id  | a new call, which takes the index over (gateways that number all 0)   |
| an index that is open, a name, no other id | that call; a new one if its arguments are a whole JSON object already |
| an index that is new                       | a new call; without name, the one with its id if there is one         |
| no index, an id                            | the call with that id; a new one if there is none                     |
| no index, no id, a name                    | a new call                                                            |
| none of these                              | the last call                                                         |

The first piece of each call carries its id. A call without one gets a generated id, because its result needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import cast
from uuid import uuid4

from agentscope_rx.errors import ProtocolError
from agentscope_rx.models.accumulate import MAX_BLOCKS
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
    writable,
)


class ToolCallDeltas:
    """The calls of one answer so far."""

    __slots__ = ("_at", "_by_id", "_count", "_last", "_make_id")

    def __init__(self, make_id: Callable[[], str] = lambda: f"call_{uuid4().hex}") -> None:
        self._make_id = make_id
        self._count = 0
        self._at: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._last: _Call | None = None

    def feed(self, delta: JsonObject) -> Iterator[ToolUseDelta]:
        """The pieces of one delta, each with our own index for its call."""
        for piece in objects_in(delta, "tool_calls"):
            yield from self._piece(piece)
        legacy = object_in(delta, "function_call")
        if legacy is not None:
            yield from self._piece({"index": 0, "function": legacy})

    def end(self) -> None:
        """Check the calls at the end of the answer: `ProtocolError` for one without a name."""
        for call in self._by_id.values():
            if not call.name:
                raise malformed("a tool call has no name", {"id": call.id, "arguments": "".join(call.pieces)})

    def _piece(self, piece: JsonObject) -> Iterator[ToolUseDelta]:
        function = object_in(piece, "function") or {}
        id = text_in(piece, "id") or None
        name = text_in(function, "name") or None
        text = _arguments(function.get("arguments"))
        extra = object_in(piece, "extra_content")
        if not (id or name or text or extra):
            return
        call = self._find(_index(piece), id, name)
        opened = not call.opened
        call.opened = True
        new_name = name if name and not call.name else None
        call.name = call.name or name
        text = call.characters.take(text)
        if not (opened or new_name or text or extra):
            return
        call.pieces.append(text)
        metadata = {"extra_content": writable(extra)} if extra else {}
        yield ToolUseDelta(call.index, call.id if opened else None, new_name, text, metadata)

    def _find(self, index: int | None, id: str | None, name: str | None) -> _Call:
        known: _Call | None
        if index is not None:
            known = self._at.get(index)
            if known is None and id and not name:
                # a piece that kept its id but not its index
                known = self._by_id.get(id)
            elif known is not None and name and known.name and (known.id != id if id else known.whole()):
                known = None
        elif id:
            known = self._by_id.get(id)
        else:
            known = None if name else self._last
        call = known or self._open(id)
        if index is not None:
            self._at[index] = call
        self._last = call
        return call

    def _open(self, id: str | None) -> _Call:
        if self._count >= MAX_BLOCKS:
            raise ProtocolError(f"The answer has more than {MAX_BLOCKS} tool calls.")
        id = id or self._make_id()
        if id in self._by_id:
            # results of two calls with one id could not be assigned
            id = self._make_id()
        call = _Call(self._count, id)
        self._count += 1
        self._by_id[id] = call
        return call


class _Call:
    __slots__ = ("characters", "id", "index", "name", "opened", "pieces")

    def __init__(self, index: int, id: str) -> None:
        self.index = index
        self.id = id
        self.name: str | None = None
        self.pieces: list[str] = []
        self.characters = Pieces()
        self.opened = False

    def whole(self) -> bool:
        """True if the arguments so far are a JSON object."""
        try:
            return isinstance(json.loads("".join(self.pieces)), dict)
        except (ValueError, RecursionError):
            return False


def _index(piece: JsonObject) -> int | None:
    return None if piece.get("index") is None else integer(piece, "index")


def _arguments(value: object) -> str:
    """The argument text; some servers send the object itself."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return json.dumps(cast("dict[str, object]", value), ensure_ascii=False)
    raise malformed("the arguments of a tool call must be text", value)
