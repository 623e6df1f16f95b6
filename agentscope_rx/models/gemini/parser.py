"""`ContentParser`: the responses of one Gemini answer -> increments. Pure: an `AnswerParser`.

| part                                          | gives                                                          |
|-----------------------------------------------|----------------------------------------------------------------|
| `text`                                        | a piece of text; its signature once the text is over           |
| `text` that is a `thought`                    | a piece of thinking                                            |
| `functionCall`                                | a whole call, with its signature; an id of ours if it has none |
| `inlineData`, `fileData`                      | an image, audio or video                                       |
| code and tools that ran at the server, others | nothing: kept to be sent back, see `gemini.parts`              |

Streamed responses and the one of a whole answer have the same form; a server that ignores `alt=sse` sends a list of
them. Only candidate 0 is read. An answer is whole when its finish reason came; anything less is a
`ModelConnectionError`. One that was withheld is a `ContentFilterError`, and one that the model ended without content an
`EmptyResponseError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import cast
from uuid import uuid4

from agentscope_rx.errors import EmptyResponseError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    FileBlock,
    ImageBlock,
    Source,
    TextBlock,
    ThinkingBlock,
    VideoBlock,
)
from agentscope_rx.models.gemini.formatter import NO_ID
from agentscope_rx.models.gemini.parts import (
    SIGNATURE,
    VENDOR,
    Span,
    kept_parts,
    media_signature,
    text_signatures,
    thought,
)
from agentscope_rx.models.http_model import Clock
from agentscope_rx.models.response import ChatResponse, ChunkBlock, FinishReason, Numbered, ToolUseDelta, in_blocks
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.answers import CUT, broken_off, event_value, withheld
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    Pieces,
    address,
    integer,
    malformed,
    name_in,
    object_in,
    objects_in,
    proof_in,
    text_in,
    writable,
)

_FILTERED = frozenset(
    (
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR", "ESCALATION"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "PUP_LIMITED_DISABLED"),
    )
)
_REASONS = {"STOP": FinishReason.STOP, "MAX_TOKENS": FinishReason.LENGTH}
_ABOUT = ("citationMetadata", "groundingMetadata", "urlContextMetadata", "finishMessage")

Increments = tuple[ChatResponse, ...]


class ContentParser:
    """Reads one answer. `clock` gives seconds; the usage's time counts from the making of the parser."""

    __slots__ = (
        "_blocks",
        "_calls",
        "_clock",
        "_content",
        "_counts",
        "_finish",
        "_id",
        "_kept",
        "_started",
        "_text",
        "_why",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock()
        self._blocks = _Blocks()
        self._text = _Text(self._blocks)
        self._kept: list[str] = []
        self._calls = 0
        self._content = False
        self._counts: JsonObject = {}
        self._finish: FinishReason | None = None
        self._why = ""
        self._id: str | None = None

    def read(self, event: ServerEvent) -> Increments:
        """The increments of one server-sent event: none or one; one for each item of a list."""
        value = event_value(event)
        return () if value is CUT else self.read_whole(value)

    def read_whole(self, answer: object) -> Increments:
        """The increments of a response, or of a list of them."""
        responses = cast("list[object]", answer) if isinstance(answer, list) else [answer]
        return tuple(increment for response in responses for increment in self._response(response))

    def end(self) -> Increments:
        """The content held back until the end; an error if the answer is not whole, or was withheld."""
        if self._finish is None:
            raise broken_off()
        content = [*self._numbered(self._text.close()), *self._numbered(self._rest())]
        if not (self._content or content):
            if self._finish is FinishReason.CONTENT_FILTER:
                raise withheld(self._why)
            if self._finish is FinishReason.OTHER:
                raise EmptyResponseError(finish_reason=self._why)
        return tuple(self._increments(content))

    def _response(self, response: object) -> Iterator[ChatResponse]:
        if not isinstance(response, Mapping):
            raise malformed("a response must be a JSON object", response)
        fields = cast("JsonObject", response)
        if fields.get("error") and (error := answered_error(fields)) is not None:
            raise error
        self._id = self._id or text_in(fields, "responseId") or None
        candidate = _first(fields)
        content: list[Numbered] = []
        for part in objects_in(object_in(candidate, "content") or {}, "parts"):
            content += self._numbered(self._part(part))
        self._content = self._content or bool(content)
        raw = self._reason(fields, candidate)
        if raw is not None:
            content += self._numbered(self._text.close())
            content += self._numbered(self._rest())
            self._content = self._content or bool(content)
        usage = self._usage(object_in(fields, "usageMetadata"))
        about = {name: candidate[name] for name in _ABOUT if candidate.get(name)}
        if self._finish is FinishReason.OTHER and not self._content:
            # no increment without content: the attempt may be repeated
            return
        yield from self._increments(content)
        if usage or raw is not None or about:
            finish = self._finish if raw is not None else None
            yield ChatResponse((), usage, finish, raw, self._id, about)

    def _increments(self, content: Iterable[Numbered]) -> Iterator[ChatResponse]:
        for number, blocks in in_blocks(content):
            yield ChatResponse(blocks, id=self._id, block=number)

    def _numbered(self, pieces: Iterator[ChunkBlock]) -> Iterator[Numbered]:
        for piece in pieces:
            yield self._blocks.number(piece), piece

    def _reason(self, fields: JsonObject, candidate: JsonObject) -> str | None:
        """The finish reason, or the reason that the prompt was blocked, if it came."""
        raw = text_in(candidate, "finishReason") or None
        if raw in (None, "FINISH_REASON_UNSPECIFIED"):
            feedback = object_in(fields, "promptFeedback") or {}
            raw = text_in(feedback, "blockReason")
            if not raw or candidate:
                return None
            message = text_in(feedback, "blockReasonMessage")
            self._finish, self._why = FinishReason.CONTENT_FILTER, f"{raw}. {message}" if message else raw
            return raw
        message = text_in(candidate, "finishMessage")
        self._why = f"{raw}. {message}" if message else raw
        if raw in _FILTERED:
            self._finish = FinishReason.CONTENT_FILTER
        else:
            self._finish = _REASONS.get(raw, FinishReason.OTHER)
            if self._calls and self._finish is FinishReason.STOP:
                self._finish = FinishReason.TOOL_CALLS
        return raw

    def _part(self, part: JsonObject) -> Iterator[ChunkBlock]:
        signature = proof_in(part, SIGNATURE)
        if "text" in part:
            text = text_in(part, "text") or ""
            yield from self._rest()
            if part.get("thought") is True:
                yield from self._text.close()
                if text or signature:
                    yield thought(text, signature)
            else:
                yield from self._text.take(text, signature)
            return
        yield from self._text.close()
        call = object_in(part, "functionCall")
        media = object_in(part, "inlineData") or object_in(part, "fileData")
        if call is not None:
            yield from self._rest()
            yield self._call(call, signature)
        elif media is not None:
            # an image that belongs to the model's thinking is not its answer
            if part.get("thought") is not True and (block := _media(media)) is not None:
                yield from self._rest()
                yield block
                if signature:
                    yield media_signature(signature)
        elif part:
            self._kept.append(json.dumps(writable(part), ensure_ascii=False))

    def _rest(self) -> Iterator[ChunkBlock]:
        """The kept parts, once another part or the end follows."""
        if self._kept:
            parts, self._kept = self._kept, []
            yield kept_parts(parts)

    def _call(self, call: JsonObject, signature: str | None) -> ToolUseDelta:
        name = name_in(call, "name")
        if call.get("partialArgs") is not None or call.get("willContinue"):
            raise malformed("arguments of calls must come whole; leave streamFunctionCallArguments out", call)
        if not name:
            raise malformed("a function call has no name", call)
        args = object_in(call, "args") or {}
        id = name_in(call, "id")
        metadata: dict[str, object] = {"vendor": VENDOR}
        if signature:
            metadata["signature"] = signature
        if id is None:
            metadata[NO_ID] = True
        index = self._calls
        self._calls += 1
        return ToolUseDelta(index, id or f"call_{uuid4().hex}", name, json.dumps(args, ensure_ascii=False), metadata)

    def _usage(self, counts: JsonObject | None) -> ChatUsage | None:
        if not counts or counts == self._counts:
            return None
        self._counts = counts
        thoughts = integer(counts, "thoughtsTokenCount")
        return ChatUsage(
            input_tokens=integer(counts, "promptTokenCount") + integer(counts, "toolUsePromptTokenCount"),
            # the candidates' count is without the thoughts
            output_tokens=integer(counts, "candidatesTokenCount") + thoughts,
            cached_tokens=integer(counts, "cachedContentTokenCount"),
            reasoning_tokens=thoughts,
            time=self._clock() - self._started,
        )


class _Blocks:
    """Numbers the blocks of an answer: the wire's parts have no numbers, only an order."""

    __slots__ = ("_ended", "_kind", "_number")

    def __init__(self) -> None:
        self._number = 0
        self._kind: type[object] | None = None
        self._ended = False

    def number(self, piece: ChunkBlock) -> int:
        """The number of the block that the next piece belongs to."""
        if self._ended or type(piece) is not self._kind:
            self._number += 1
        self._kind = type(piece)
        # a signature ends its thought, and kept parts are a block of their own
        self._ended = isinstance(piece, ThinkingBlock) and bool(piece.signature or piece.metadata)
        return self._number

    def end(self) -> None:
        """Begin another block with the next piece."""
        self._ended = True


class _Text:
    """A run of text parts, and the signatures that some of them had."""

    __slots__ = ("_blocks", "_length", "_pieces", "_spans")

    def __init__(self, blocks: _Blocks) -> None:
        self._blocks = blocks
        self._pieces = Pieces()
        self._length = 0
        self._spans: list[Span] = []

    def take(self, text: str, signature: str | None) -> Iterator[ChunkBlock]:
        piece = self._pieces.take(text)
        start, self._length = self._length, self._length + len(piece)
        if signature:
            self._spans.append((start, self._length, signature))
        if piece:
            yield TextBlock(piece)

    def close(self) -> Iterator[ChunkBlock]:
        if rest := self._pieces.rest():
            yield TextBlock(rest)
        spans, length = self._spans, self._length
        self._spans, self._length = [], 0
        if spans:
            yield text_signatures(spans)
        if length:
            self._blocks.end()


def _first(response: JsonObject) -> JsonObject:
    """Candidate 0; the other candidates of a request for several are ignored."""
    for candidate in objects_in(response, "candidates"):
        if integer(candidate, "index") == 0:
            return candidate
    return {}


def _media(data: JsonObject) -> ChunkBlock | None:
    kind = name_in(data, "mimeType") or ""
    url, encoded = name_in(data, "fileUri"), proof_in(data, "data")
    if not (url or encoded):
        return None
    source: Source = Base64Source(kind or "application/octet-stream", encoded) if encoded else address(url or "", data)
    match kind.partition("/")[0]:
        case "image":
            return ImageBlock(source)
        case "audio":
            return AudioBlock(source)
        case "video":
            return VideoBlock(source)
        case _:
            return cast("ChunkBlock", FileBlock(source))
