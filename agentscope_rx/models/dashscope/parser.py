"""`DashScopeParser`: the events of one DashScope answer -> increments. Pure: an `AnswerParser`.

An answer is whole when a finish reason came (`"null"` is none: the API sends it until the end), or when it came in one
piece; anything less is a `ModelConnectionError`. Texts are increments if the request has `incremental_output`, else the
whole answer so far. Content is text or parts, in `choices` or, from old models, in `output.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agentscope_rx.messages import AudioBlock, ChatUsage, ImageBlock
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.models.dashscope.cumulative import CumulativeText
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.openai.tool_call_deltas import ToolCallDeltas
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.answers import (
    CUT,
    DONE,
    broken_off,
    error_of_event,
    event_value,
    text_blocks,
    thinking_blocks,
    withheld,
)
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    address,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
)

_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_METADATA = ("search_info", "ocr_result", "logprobs")
"""Fields that go into a chunk's metadata, wherever in the answer they stand."""


class DashScopeParser:
    """Reads one answer. The usage's time counts from the making of the parser."""

    __slots__ = (
        "_about",
        "_calls",
        "_clock",
        "_content",
        "_cumulative",
        "_finish",
        "_id",
        "_started",
        "_text",
        "_thinking",
        "_whole",
    )

    def __init__(self, clock: Clock, *, incremental: bool = True) -> None:
        self._clock = clock
        self._started = clock()
        self._cumulative = None if incremental else CumulativeText()
        self._text = Pieces()
        self._thinking = Pieces()
        self._calls = ToolCallDeltas()
        self._about: dict[str, object] = {}
        self._finish: FinishReason | None = None
        self._id: str | None = None
        self._content = False
        self._whole = False

    def read(self, event: ServerEvent) -> Iterable[ChatResponse]:
        """The increments of one event: none or one."""
        if event.data.strip() == DONE or event.event == "done":
            self._whole = True
            return ()
        chunk = event_value(event)
        if chunk is CUT:
            return ()
        if event.event == "error":
            raise error_of_event(chunk)
        return self.read_whole(chunk) if event.whole else self._feed(chunk)

    def read_whole(self, answer: object) -> Iterable[ChatResponse]:
        """The increments of an answer that came in one piece."""
        increments = self._feed(answer)
        self._whole = True
        if not (self._content or self._finish):
            raise malformed("it has no output with a message", answer)
        return increments

    def end(self) -> Iterable[ChatResponse]:
        """The content held back until the end; an error if the answer is not whole, or was withheld."""
        if not (self._finish or self._whole):
            raise broken_off()
        self._calls.end()
        content = (*thinking_blocks(self._thinking.rest()), *text_blocks(self._text.rest()))
        if self._finish is FinishReason.CONTENT_FILTER and not (self._content or content):
            raise withheld()
        return (ChatResponse(content),) if content else ()

    def _feed(self, chunk: object) -> tuple[ChatResponse, ...]:
        if not isinstance(chunk, Mapping):
            raise malformed("a chunk must be a JSON object", chunk)
        fields = cast("JsonObject", chunk)
        output = object_in(fields, "output")
        if text_in(fields, "code") or output is None:
            error = answered_error(fields)
            if error is not None:
                raise error
        output = output or {}
        choice = _first_choice(output)
        raw = _reason(choice) or _reason(output)
        message = object_in(choice, "message") or object_in(choice, "delta")
        if message is None and output.get("text") is not None:
            message = {"content": output["text"]}
        content = tuple(self._blocks(message)) if message is not None else ()
        content += tuple(_media(output))
        finished = self._finish is not None
        if raw:
            self._finish = _REASONS.get(raw, FinishReason.OTHER)
        self._content = self._content or bool(content)
        self._id = self._id or text_in(fields, "request_id") or None
        about = self._new_metadata(output, choice, message or {})
        if not (content or raw or about or finished):
            # an id and the usage so far are no increment: an attempt without content may be repeated
            return ()
        about |= _cache_written(fields)
        return (ChatResponse(content, self._usage(fields), self._finish if raw else None, raw, self._id, about),)

    def _blocks(self, message: JsonObject) -> Iterable[ChunkBlock]:
        if self._cumulative is not None:
            message = self._cumulative.new(message)
        yield from thinking_blocks(self._thinking.take(text_in(message, "reasoning_content") or ""))
        content = message.get("content")
        if isinstance(content, list):
            for part in objects_in(message, "content"):
                yield from text_blocks(self._text.take(text_in(part, "text") or ""))
                yield from _media(part)
        else:
            yield from text_blocks(self._text.take(text_in(message, "content") or ""))
        yield from self._calls.feed(message)

    def _new_metadata(self, *places: JsonObject) -> dict[str, object]:
        found = {name: place[name] for place in places for name in _METADATA if place.get(name)}
        # a server may repeat all of it with every event
        new = {name: value for name, value in found.items() if self._about.get(name) != value}
        self._about |= new
        return new

    def _usage(self, fields: JsonObject) -> ChatUsage | None:
        used = object_in(fields, "usage")
        if not used:
            return None
        read = object_in(used, "prompt_tokens_details") or object_in(used, "input_tokens_details") or {}
        written = object_in(used, "output_tokens_details") or object_in(used, "completion_tokens_details") or {}
        return ChatUsage(
            input_tokens=integer(used, "input_tokens"),
            output_tokens=integer(used, "output_tokens"),
            cached_tokens=integer(read, "cached_tokens") or integer(used, "cached_tokens"),
            reasoning_tokens=integer(written, "reasoning_tokens"),
            time=self._clock() - self._started,
        )


def _first_choice(output: JsonObject) -> JsonObject:
    """Choice 0; the other choices of a request for several are ignored."""
    for at, choice in enumerate(objects_in(output, "choices")):
        if (at if choice.get("index") is None else integer(choice, "index")) == 0:
            return choice
    return {}


def _reason(fields: JsonObject) -> str | None:
    reason = text_in(fields, "finish_reason")
    return None if reason in (None, "", "null") else reason


def _cache_written(fields: JsonObject) -> dict[str, object]:
    read = object_in(object_in(fields, "usage") or {}, "prompt_tokens_details") or {}
    written = integer(read, "cache_creation_input_tokens")
    return {"cache_creation_tokens": written} if written else {}


def _media(fields: JsonObject) -> Iterable[ChunkBlock]:
    image = fields.get("image")
    if isinstance(image, str) and image:
        yield ImageBlock(address(encodable(image), fields))
    audio = fields.get("audio")
    url = text_in(cast("JsonObject", audio), "url") if isinstance(audio, Mapping) else audio
    if isinstance(url, str) and url:
        yield AudioBlock(address(encodable(url), fields))
