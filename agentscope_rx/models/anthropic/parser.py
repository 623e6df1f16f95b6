"""`MessageParser`: the events of one Messages answer -> increments. Pure: an `AnswerParser`.

| event                 | gives                                                                        |
|-----------------------|------------------------------------------------------------------------------|
| `message_start`       | the id and the input tokens, with the first increment                        |
| `content_block_start` | a call's id and name; content that the block has already                     |
| `content_block_delta` | a piece of text, thinking or arguments; a signature; a citation, as metadata |
| `content_block_stop`  | content that was held back                                                   |
| `message_delta`       | the stop reason, and the whole usage                                         |
| `message_stop`        | nothing: the answer is whole                                                 |
| `error`               | the error, as if it had come with its status                                 |
| `ping`, others        | nothing                                                                      |

An answer in one piece is read block by block in the same way. Other blocks than text, thinking and calls (those of
tools that run at the server) are kept whole, see `anthropic.parts`. An answer is whole when a stop reason or
`message_stop` came; anything less is a `ModelConnectionError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentscope_rx.messages import ChatUsage
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.accumulate import MAX_BLOCKS
from agentscope_rx.models.anthropic.blocks import OpenBlock, open_block
from agentscope_rx.models.anthropic.parts import kept_parts
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.answers import CUT, broken_off, event_value, withheld
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
)

LAST_EVENT = "message_stop"
"""The name of the last event."""

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
}
_COUNTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")

Increments = tuple[ChatResponse, ...]


class MessageParser:
    """Reads one answer. `clock` gives seconds; the usage's time counts from the making of the parser."""

    __slots__ = (
        "_begun",
        "_clock",
        "_content",
        "_counts",
        "_finish",
        "_id",
        "_kept",
        "_number",
        "_numbers",
        "_open",
        "_started",
        "_whole",
        "_why",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock()
        self._id: str | None = None
        self._counts: dict[str, int] = {}
        self._open: dict[int, OpenBlock] = {}
        self._kept: list[JsonObject] = []
        # numbers of our blocks: consecutive kept blocks become one, which has a number of its own
        self._number = 0
        self._numbers: dict[int, int] = {}
        self._finish: FinishReason | None = None
        self._content = False
        self._begun = False
        self._whole = False
        self._why = ""

    def read(self, event: ServerEvent) -> Increments:
        """The increments of one server-sent event: none or one."""
        value = event_value(event)
        if value is CUT:
            return ()
        if event.whole:
            return self.read_whole(value)
        if not isinstance(value, Mapping):
            raise malformed("an event must be a JSON object", value)
        fields = cast("JsonObject", value)
        match text_in(fields, "type"):
            case "content_block_delta":
                return self._delta(fields)
            case "content_block_start":
                return self._start(integer(fields, "index"), _required(fields, "content_block"))
            case "content_block_stop":
                return self._stop(integer(fields, "index"))
            case "message_start":
                self._begin(_required(fields, "message"))
            case "message_delta":
                self._count(object_in(fields, "usage") or {})
                return self._finished(object_in(fields, "delta") or {})
            case "message_stop":
                self._whole = True
            case "ping":
                pass
            case _:
                if (error := answered_error(fields)) is not None:
                    raise error
        return ()

    def read_whole(self, answer: object) -> Increments:
        """The increments of an answer that came in one piece."""
        if not isinstance(answer, Mapping):
            raise malformed("an answer must be a JSON object", answer)
        fields = cast("JsonObject", answer)
        if "content" not in fields:
            raise answered_error(fields) or malformed("it is no message", fields)
        self._begin(fields)
        increments: list[ChatResponse] = []
        for index, block in enumerate(objects_in(fields, "content")):
            increments += (*self._start(index, block), *self._stop(index))
        increments += self._finished(fields)
        self._whole = True
        return tuple(increments)

    def end(self) -> Increments:
        """The content held back until the end; an error if the answer is not whole, or was withheld."""
        if not (self._finish or self._whole):
            raise broken_off()
        closed = [increment for index in list(self._open) for increment in self._stop(index)]
        rest = self._rest()
        if self._finish is FinishReason.CONTENT_FILTER and not self._content:
            raise withheld(self._why)
        return (*closed, *rest)

    def _begin(self, message: JsonObject) -> None:
        self._id = text_in(message, "id") or None
        self._count(object_in(message, "usage") or {})

    def _start(self, index: int, block: JsonObject) -> Increments:
        if len(self._open) + len(self._kept) >= MAX_BLOCKS:
            raise malformed(f"more than {MAX_BLOCKS} blocks are open", block)
        opened = open_block(index, block)
        self._open[index] = opened
        before = () if opened.kept else self._rest()
        self._numbers[index] = self._next_number()
        return (*before, *self._increment(tuple(opened.start()), block=self._numbers[index]))

    def _delta(self, fields: JsonObject) -> Increments:
        index = integer(fields, "index")
        delta = _required(fields, "delta")
        opened = self._open.get(index)
        if opened is None:
            raise malformed("a piece belongs to no block", fields)
        citation = object_in(delta, "citation")
        if citation is not None:
            return self._increment((), {"citations": [citation]})
        return self._increment(tuple(opened.delta(delta)), block=self._numbers[index])

    def _stop(self, index: int) -> Increments:
        return self._increment(tuple(self._closed(index)), block=self._numbers.get(index))

    def _closed(self, index: int) -> tuple[ChunkBlock, ...]:
        opened = self._open.pop(index, None)
        if opened is None:
            return ()
        if opened.kept:
            self._kept.append(opened.whole())
            return ()
        return tuple(opened.stop())

    def _rest(self) -> Increments:
        """The kept blocks, once another block or the end follows."""
        if not self._kept:
            return ()
        blocks, self._kept = self._kept, []
        return self._increment((kept_parts(blocks),), block=self._next_number())

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _finished(self, delta: JsonObject) -> Increments:
        reason = text_in(delta, "stop_reason")
        if not reason:
            return ()
        self._finish = _REASONS.get(reason, FinishReason.OTHER)
        details = object_in(delta, "stop_details") or {}
        rest = self._rest()
        self._why = text_in(details, "explanation") or "no explanation"
        about: dict[str, object] = {name: delta[name] for name in ("stop_sequence", "container") if delta.get(name)}
        if self._finish is FinishReason.CONTENT_FILTER:
            about |= {"refusal": True, "stop_details": details}
        if written := self._counts.get("cache_creation_input_tokens"):
            about["cache_creation_tokens"] = written
        return (*rest, ChatResponse((), self._usage(), self._finish, reason, self._id, about))

    def _count(self, usage: JsonObject) -> None:
        # totals so far: a count that a later event does not have stays
        self._counts |= {name: integer(usage, name) for name in _COUNTS if usage.get(name) is not None}
        details = object_in(usage, "output_tokens_details")
        if details is not None:
            self._counts["thinking_tokens"] = integer(details, "thinking_tokens")

    def _usage(self) -> ChatUsage:
        counts = self._counts
        cached = counts.get("cache_read_input_tokens", 0)
        return ChatUsage(
            # the wire counts tokens read from and written to the cache apart
            input_tokens=counts.get("input_tokens", 0) + counts.get("cache_creation_input_tokens", 0) + cached,
            output_tokens=counts.get("output_tokens", 0),
            cached_tokens=cached,
            reasoning_tokens=counts.get("thinking_tokens", 0),
            time=self._clock() - self._started,
        )

    def _increment(
        self, content: tuple[ChunkBlock, ...], about: Mapping[str, object] = EMPTY, block: int | None = None
    ) -> Increments:
        if not (content or about):
            return ()
        self._content = self._content or bool(content)
        if self._begun:
            return (ChatResponse(content, metadata=about, id=self._id, block=block),)
        # an answer that is cut short has cost its input tokens, too
        self._begun = True
        usage = self._usage() if self._counts else None
        return (ChatResponse(content, usage, id=self._id, metadata=about, block=block),)


def _required(fields: JsonObject, name: str) -> JsonObject:
    value = object_in(fields, name)
    if value is None:
        raise malformed(f"there is no {name!r}", fields)
    return value
