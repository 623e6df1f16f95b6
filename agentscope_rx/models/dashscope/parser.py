"""`DashScopeParser`: the events of one DashScope answer -> increments. Pure; one parser for one answer.

An answer is whole when a finish reason came (`"null"` is none: it is what the API says while it goes on), or when it
came in one piece. Anything less is `ModelConnectionError`. Texts are increments where `incremental_output` was asked
for, else snapshots; content is text or parts, in `choices` or, from old models, `output.text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from agentscope_rx.errors import ContentFilterError, ModelConnectionError, ProtocolError
from agentscope_rx.messages import AudioBlock, ChatUsage, ImageBlock, TextBlock, ThinkingBlock
from agentscope_rx.messages.frozen import encodable
from agentscope_rx.models.dashscope.cumulative import CumulativeText
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.openai.tool_call_deltas import ToolCallDeltas
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    address,
    decode_json,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
)

DONE = "[DONE]"

_REASONS = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_TOLD = ("search_info", "ocr_result", "logprobs")
"""What goes into a chunk's metadata, wherever in the answer it stands."""


class DashScopeParser:
    """Reads one answer. The usage's time counts from the making of the parser."""

    __slots__ = (
        "_about",
        "_calls",
        "_clock",
        "_content",
        "_finish",
        "_id",
        "_snapshots",
        "_started",
        "_text",
        "_thinking",
        "_whole",
    )

    def __init__(self, clock: Clock, *, incremental: bool = True) -> None:
        self._clock = clock
        self._started = clock()
        self._snapshots = None if incremental else CumulativeText()
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
        try:
            chunk = decode_json(event.data)
        except ProtocolError:
            if event.cut:
                # half an event at the end: whether the answer is whole without it is for the end to say
                return ()
            if event.event != "error":
                raise
            chunk = {"message": event.data}
        if event.event == "error":
            raise _told(chunk)
        return self.read_whole(chunk) if event.whole else self._feed(chunk)

    def read_whole(self, answer: object) -> Iterable[ChatResponse]:
        """The increments of an answer that came in one piece."""
        increments = self._feed(answer)
        self._whole = True
        if not (self._content or self._finish):
            raise malformed("it has no output with a message", answer)
        return increments

    def end(self) -> Iterable[ChatResponse]:
        """What was held back; an error if the answer is not whole, or was withheld."""
        if not (self._finish or self._whole):
            raise ModelConnectionError("The stream ended before the answer was whole.")
        self._calls.end()
        content = (*_thoughts(self._thinking.rest()), *_words(self._text.rest()))
        if self._finish is FinishReason.CONTENT_FILTER and not (self._content or content):
            raise ContentFilterError("The provider's content filter withheld the whole answer.")
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
        about = self._new_about(output, choice, message or {})
        if not (content or raw or about or finished):
            # an id and a running account alone are no increment: an attempt that has said nothing may be made again
            return ()
        about |= _cache_written(fields)
        return (ChatResponse(content, self._usage(fields), self._finish if raw else None, raw, self._id, about),)

    def _blocks(self, message: JsonObject) -> Iterable[ChunkBlock]:
        if self._snapshots is not None:
            message = self._snapshots.new(message)
        yield from _thoughts(self._thinking.take(text_in(message, "reasoning_content") or ""))
        content = message.get("content")
        if isinstance(content, list):
            for part in objects_in(message, "content"):
                yield from _words(self._text.take(text_in(part, "text") or ""))
                yield from _media(part)
        else:
            yield from _words(self._text.take(text_in(message, "content") or ""))
        yield from self._calls.feed(message)

    def _new_about(self, *places: JsonObject) -> dict[str, object]:
        found = {name: place[name] for place in places for name in _TOLD if place.get(name)}
        # snapshots of it may come with every event
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
    """Choice 0: of several that were asked for, the others are passed over."""
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


def _words(text: str) -> tuple[TextBlock, ...]:
    return (TextBlock(text),) if text else ()


def _thoughts(text: str) -> tuple[ThinkingBlock, ...]:
    return (ThinkingBlock(text),) if text else ()


def _told(complaint: object) -> Exception:
    """The error that an event named `error` carries, whatever its data looks like."""
    given = cast("Mapping[str, object]", complaint if isinstance(complaint, Mapping) else {"message": complaint})
    told = answered_error(given) or answered_error({"error": given})
    return told or ProtocolError("The server sent an error event without saying more.", body=str(given))
