"""`ChunkParser`: the chunks of one Chat Completions answer -> increments. Pure: an `AnswerParser`.

An answer is whole when a finish reason or `[DONE]` came, when it came in one piece, or when its closing usage came: a
usage without content, after content without usage. Anything less is a `ModelConnectionError`, because a server that
disappears must not look like a model that has finished.

A whole completion (`message` instead of `delta`) is a chunk like any other. Unknown fields are ignored; known fields of
a wrong type are a `ProtocolError`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from agentscope_rx.errors import OverloadedError, ServerError
from agentscope_rx.messages import ChatUsage, ImageBlock, TextBlock
from agentscope_rx.messages.frozen import EMPTY, freeze
from agentscope_rx.models.openai.fast_path import OTHER_FIELDS, plain_text
from agentscope_rx.models.openai.reasoning import Reasoning
from agentscope_rx.models.openai.tool_call_deltas import ToolCallDeltas
from agentscope_rx.models.response import AudioDelta, ChatResponse, ChunkBlock, FinishReason
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.answers import CUT, DONE, broken_off, error_of_event, event_value, text_blocks, withheld
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    address,
    integer,
    malformed,
    name_in,
    object_in,
    objects_in,
    text_in,
)

_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "completed": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_call": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}
_FAILURES = {
    # the server failed in the middle of the answer
    "error": ServerError,
    "network_error": ServerError,
    "insufficient_system_resource": OverloadedError,
}


_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "opus": "audio/opus", "aac": "audio/aac"}
"""Media types by format; any other format is raw samples."""
_LONGEST_DONE = 64
"""Nothing longer is `[DONE]` with white space around it."""
_REFUSED = freeze({"refusal": True})


class ChunkParser:
    """Reads the chunks of one answer. `clock` gives seconds; the usage's time counts from the making of the parser.

    `audio` is the audio format that the request asks for.
    """

    __slots__ = (
        "_at_rest",
        "_audio",
        "_calls",
        "_clock",
        "_closing_usage",
        "_content",
        "_finish",
        "_id",
        "_reasoning",
        "_started",
        "_text",
        "_whole",
    )

    def __init__(self, clock: Callable[[], float], audio: str | None = None) -> None:
        self._clock = clock
        self._audio = _AUDIO_TYPES.get(audio or "", "audio/pcm")
        self._started = clock()
        self._text = Pieces()
        self._reasoning = Reasoning()
        self._calls = ToolCallDeltas()
        self._finish: FinishReason | None = None
        self._id: str | None = None
        self._content = False
        self._closing_usage = _ClosingUsage()
        self._whole = False
        # True once content has begun and nothing is held back: a chunk of text alone changes no other state
        self._at_rest = False

    def read(self, event: ServerEvent) -> tuple[ChatResponse, ...]:
        """The increments of one server-sent event: none or one."""
        if len(event.data) <= _LONGEST_DONE and event.data.strip() == DONE:
            self._whole = True
            return ()
        chunk = event_value(event)
        if chunk is CUT:
            return ()
        if event.event == "error":
            raise error_of_event(chunk)
        return self.read_whole(chunk) if event.whole else self.feed(chunk)

    def feed(self, chunk: object) -> tuple[ChatResponse, ...]:
        """The increments of one chunk: none or one."""
        text = plain_text(chunk) if self._at_rest else None
        if text is not None:
            self._closing_usage.is_last = False
            return (ChatResponse((TextBlock(text),), id=self._id),)
        increments = self._feed(chunk)
        self._at_rest = self._content and self._id is not None and self._text.at_rest and self._reasoning.at_rest
        return increments

    def _feed(self, chunk: object) -> tuple[ChatResponse, ...]:
        if not isinstance(chunk, Mapping):
            raise malformed("a chunk must be a JSON object", chunk)
        fields = cast("JsonObject", chunk)
        error = answered_error(fields)
        if error is not None:
            raise error
        choice = _first_choice(fields)
        content, about = self._choice(choice) if choice is not None else ((), EMPTY)
        reason = text_in(choice, "finish_reason") if choice is not None else None
        finish = self._finished(reason, choice) if reason else None
        if finish is not None:
            content = (*content, *self._reasoning.close())
        usage = self._usage(fields, choice)
        self._closing_usage.note(usage is not None, bool(content) or finish is not None)
        self._content = self._content or bool(content)
        self._id = self._id or text_in(fields, "id") or None
        if not (content or usage or finish):
            # an id alone is no increment: an attempt without content may be repeated
            return ()
        return (ChatResponse(content, usage, finish, reason or None, self._id, about),)

    def read_whole(self, answer: object) -> tuple[ChatResponse, ...]:
        """The increments of an answer that came in one piece."""
        increments = self._feed(answer)
        # Azure's filter leaves the message out
        self._whole = self._whole or self._finish is FinishReason.CONTENT_FILTER
        if not self._whole:
            raise malformed("it has no choice with a message", answer)
        return increments

    def end(self) -> tuple[ChatResponse, ...]:
        """The text held back until the end; an error if the answer is not whole, or was withheld."""
        if not (self._finish or self._whole or self._closing_usage.came(self._content)):
            raise broken_off()
        self._calls.end()
        content = (*self._reasoning.close(), *text_blocks(self._text.rest()))
        if self._finish is FinishReason.CONTENT_FILTER and not (self._content or content):
            raise withheld()
        return (ChatResponse(content),) if content else ()

    def _choice(self, choice: JsonObject) -> tuple[tuple[ChunkBlock, ...], Mapping[str, object]]:
        delta = object_in(choice, "delta")
        if delta is None:
            delta = object_in(choice, "message")
            self._whole = self._whole or delta is not None
        if delta is None:
            return (), EMPTY
        if OTHER_FIELDS.isdisjoint(delta) or all(delta.get(name) is None for name in OTHER_FIELDS):
            return self._text_and_calls(delta), EMPTY
        blocks: list[ChunkBlock] = list(self._reasoning.feed(delta))
        rest: list[ChunkBlock] = []
        refusal = self._text.take(text_in(delta, "refusal") or "")
        for text in (*self._contents(delta.get("content"), blocks), refusal):
            rest += text_blocks(text)
        for image in objects_in(delta, "images"):
            url = name_in(object_in(image, "image_url") or {}, "url")
            if not url:
                raise malformed("an image must have an image_url with a url", image)
            rest.append(ImageBlock(address(url, image)))
        rest += self._audio_blocks(object_in(delta, "audio") or {})
        rest += self._calls.feed(delta)
        if rest:
            blocks += self._reasoning.close()
        return (*blocks, *rest), _REFUSED if refusal else EMPTY

    def _text_and_calls(self, delta: JsonObject) -> tuple[ChunkBlock, ...]:
        """The content of a delta that has nothing else, as most have."""
        blocks: list[ChunkBlock] = []
        rest: list[ChunkBlock] = []
        for text in self._contents(delta.get("content"), blocks):
            rest += text_blocks(text)
        if delta.get("tool_calls") is not None:
            rest += self._calls.feed(delta)
        if rest and not self._reasoning.at_rest:
            blocks += self._reasoning.close()
        return (*blocks, *rest)

    def _audio_blocks(self, audio: JsonObject) -> Iterator[ChunkBlock]:
        """Audio, and its transcript."""
        yield from text_blocks(self._text.take(text_in(audio, "transcript") or ""))
        data = text_in(audio, "data")
        if data:
            try:
                b64decode(data, validate=True)
            except ValueError:
                raise malformed("audio must be base64", audio) from None
            yield AudioDelta(data, self._audio)

    def _contents(self, content: object, blocks: list[ChunkBlock]) -> list[str]:
        """The texts of a content: a string or, with some servers, parts. Thinking among them goes to `blocks`."""
        if content is None:
            return []
        if isinstance(content, str):
            return [self._text.take(content)]
        if not isinstance(content, list):
            raise malformed("content must be text or parts", content)
        texts: list[str] = []
        for part in objects_in({"content": cast("object", content)}, "content"):
            kind = text_in(part, "type")
            if kind == "thinking":
                blocks += self._reasoning.feed({"reasoning_content": _thinking_text(part.get("thinking"))})
            elif kind in ("text", "output_text", "refusal"):
                texts.append(self._text.take(text_in(part, "text") or text_in(part, "refusal") or ""))
        return texts

    def _finished(self, reason: str, choice: JsonObject | None) -> FinishReason:
        failure = _FAILURES.get(reason)
        if failure is not None:
            given = object_in(choice or {}, "error") or {}
            status = 503 if failure is OverloadedError else 500
            detail = text_in(given, "message") or "the provider failed while it was answering"
            raise failure(f"The answer was broken off ({reason}): {detail}", status=status, code=reason)
        self._finish = _REASONS.get(reason, FinishReason.OTHER)
        return self._finish

    def _usage(self, chunk: JsonObject, choice: JsonObject | None) -> ChatUsage | None:
        if chunk.get("usage") is None and chunk.get("x_groq") is None and (choice or EMPTY).get("usage") is None:
            return None
        # Groq and Moonshot have put it in places of their own
        used = object_in(chunk, "usage") or object_in(object_in(chunk, "x_groq") or {}, "usage")
        used = used or object_in(choice or {}, "usage")
        if not used:
            return None
        read = object_in(used, "prompt_tokens_details") or {}
        written = object_in(used, "completion_tokens_details") or {}
        return ChatUsage(
            input_tokens=integer(used, "prompt_tokens"),
            output_tokens=integer(used, "completion_tokens"),
            cached_tokens=integer(read, "cached_tokens")
            or integer(used, "prompt_cache_hit_tokens")
            or integer(used, "cached_tokens"),
            reasoning_tokens=integer(written, "reasoning_tokens") or integer(used, "reasoning_tokens"),
            time=self._clock() - self._started,
        )


class _ClosingUsage:
    """Finds the closing usage: usage alone in the last chunk, after content that came without usage."""

    __slots__ = ("_running", "is_last")

    def __init__(self) -> None:
        self.is_last = False
        self._running = False

    def note(self, usage: bool, content: bool) -> None:
        self.is_last = usage and not content
        # some servers send the usage so far with every chunk: there it closes nothing
        self._running = self._running or (usage and content)

    def came(self, content: bool) -> bool:
        return self.is_last and content and not self._running


def _first_choice(chunk: JsonObject) -> JsonObject | None:
    """Choice 0; the other choices of a request for several are ignored."""
    for choice in objects_in(chunk, "choices"):
        if integer(choice, "index") == 0:
            error = answered_error({"error": choice.get("error")}) if choice.get("error") else None
            if error is not None:
                raise error
            return choice
    return None


def _thinking_text(thinking: object) -> str:
    if isinstance(thinking, str):
        return thinking
    parts = objects_in({"thinking": thinking}, "thinking")
    return "".join(text_in(part, "text") or "" for part in parts)
