"""`OllamaParser`: the lines of one Ollama answer -> increments. Pure: an `AnswerParser`.

An answer is whole when a line has `done`; anything less is a `ModelConnectionError`. Calls come whole, each in a piece
of its own. A call without an id (older servers send none) gets a generated one, because its result needs it. A model
that stops for its calls gives the reason `stop`; with calls that is TOOL_CALLS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast
from uuid import uuid4

from agentscope_rx.messages import Base64Source, ChatUsage, ImageBlock
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason, ToolUseDelta
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.answers import CUT, broken_off, event_value, text_blocks, thinking_blocks
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    encode_json,
    integer,
    malformed,
    object_in,
    objects_in,
    text_in,
)

_REASONS = {"": FinishReason.STOP, "stop": FinishReason.STOP, "length": FinishReason.LENGTH}
_DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


class OllamaParser:
    """Reads one answer. The usage's time counts from the making of the parser; the server's own are in `metadata`."""

    __slots__ = ("_calls", "_clock", "_done", "_ids", "_started", "_text", "_thinking")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock()
        self._text = Pieces()
        self._thinking = Pieces()
        self._calls = 0
        self._ids: set[str] = set()
        self._done = False

    def read(self, event: ServerEvent) -> Iterable[ChatResponse]:
        """The increments of one line: none or one."""
        line = event_value(event)
        return () if line is CUT else self._feed(line)

    def read_whole(self, answer: object) -> Iterable[ChatResponse]:
        """The increments of an answer that came in one piece."""
        increments = self._feed(answer)
        if not increments and not self._done:
            raise malformed("it has no message", answer)
        self._done = True
        return increments

    def end(self) -> Iterable[ChatResponse]:
        """The content held back until the end; an error if the answer is not whole."""
        if not self._done:
            raise broken_off()
        content = (*thinking_blocks(self._thinking.rest()), *text_blocks(self._text.rest()))
        return (ChatResponse(content),) if content else ()

    def _feed(self, line: object) -> tuple[ChatResponse, ...]:
        if not isinstance(line, Mapping):
            raise malformed("a line must be a JSON object", line)
        fields = cast("JsonObject", line)
        if fields.get("error") is not None:
            error = answered_error(fields)
            if error is not None:
                raise error
        content = tuple(self._blocks(object_in(fields, "message") or {}))
        about: Mapping[str, object] = {"logprobs": fields["logprobs"]} if fields.get("logprobs") else EMPTY
        if fields.get("done") is not True:
            return (ChatResponse(content, metadata=about),) if content else ()
        self._done = True
        raw = text_in(fields, "done_reason")
        finish = _REASONS.get(raw or "", FinishReason.OTHER)
        if finish is FinishReason.STOP and self._calls:
            finish = FinishReason.TOOL_CALLS
        about = {**about, **_durations(fields)}
        return (ChatResponse(content, self._usage(fields), finish, raw, metadata=about),)

    def _blocks(self, message: JsonObject) -> Iterable[ChunkBlock]:
        yield from thinking_blocks(self._thinking.take(text_in(message, "thinking") or ""))
        yield from text_blocks(self._text.take(text_in(message, "content") or ""))
        images = message.get("images")
        for image in cast("list[object]", images if isinstance(images, list) else []):
            if isinstance(image, str) and image:
                if not image.isascii():
                    raise malformed("an image must be base64", image)
                yield ImageBlock(Base64Source("image/png", image))
        for call in objects_in(message, "tool_calls"):
            yield self._call(call)

    def _call(self, call: JsonObject) -> ToolUseDelta:
        function = object_in(call, "function") or {}
        name = text_in(function, "name")
        if not name:
            raise malformed("a tool call has no name", call)
        arguments = function.get("arguments")
        id = text_in(call, "id")
        if not id or id in self._ids:
            # results of two calls with one id could not be told apart
            id = f"call_{uuid4().hex}"
        self._ids.add(id)
        self._calls += 1
        # some proxies send the arguments as text, as Chat Completions does
        text = arguments if isinstance(arguments, str) else encode_json({} if arguments is None else arguments)
        return ToolUseDelta(self._calls - 1, id, name, text)

    def _usage(self, fields: JsonObject) -> ChatUsage:
        return ChatUsage(
            input_tokens=integer(fields, "prompt_eval_count"),
            output_tokens=integer(fields, "eval_count"),
            time=self._clock() - self._started,
        )


def _durations(fields: JsonObject) -> dict[str, object]:
    """The server's own times, in seconds."""
    return {name: integer(fields, name) / 1e9 for name in _DURATIONS if fields.get(name) is not None}
