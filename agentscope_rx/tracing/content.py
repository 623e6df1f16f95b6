"""`Content`: what of a conversation spans show, as the attributes of the GenAI semantic conventions.

    Tracer(content=Content())                        messages, tool definitions, arguments and results, without secrets
    Tracer(content=Content(redact=mine, max_chars=500))
    Tracer()                                         none of it, the default

| attribute                     | holds, as JSON                                                                   |
|-------------------------------|----------------------------------------------------------------------------------|
| `gen_ai.system_instructions`  | the parts of the system message                                                  |
| `gen_ai.input.messages`       | the messages of the request: `[{"role": ..., "parts": [...]}]`                   |
| `gen_ai.output.messages`      | the answer, with its `finish_reason`                                             |
| `gen_ai.tool.definitions`     | the tools that the model may call                                                |
| `gen_ai.tool.call.arguments`  | the arguments of a call                                                          |
| `gen_ai.tool.call.result`     | its result: the text, or parts if it holds media                                 |

The names are those of version 1.44 of the conventions; the shapes of the JSON those of their repository
semantic-conventions-genai, of which no version is released yet. Media are named, never included: by their address, or
by a hash of their bytes (`ni:`, RFC 6920). A vendor's signature of thinking is left out.
"""

from __future__ import annotations

import json
import mimetypes
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.blocks import AudioBlock, FileBlock, ImageBlock, VideoBlock
from agentscope_rx.messages.redaction import Redact, redact_secrets, redacted, redacted_schema
from agentscope_rx.messages.sources import Base64Source, FileSource, FramesSource, Source, URLSource
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tracing.json_cache import JsonCache

SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

REACH: Final = 4096
"""The length of the longest secret that is found across the place where a long text is cut."""

_MODALITY = {ImageBlock: "image", AudioBlock: "audio", VideoBlock: "video", FileBlock: "document"}
_MOST_CHARS = 1_000_000
_NOTE = 100
"""The room for the number of messages that are left out."""

Part = Mapping[str, object]
Attributes = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Selects the content of the conversation that spans show, its size, and how secrets are removed.

    | option | meaning |
    |---|---|
    | `messages`, `reasoning`, `tools`, `definitions` | False leaves this kind of content out |
    | `max_chars` | characters of each text |
    | `max_total` | characters of JSON in an attribute; it keeps the newest messages, and counts those left out |
    | `redact` | a function of a text that removes secrets; the default is `redact_secrets` |

    `redact` gets each text before it is cut. If it fails, the text is left out, and the error is reported as dropped.
    Fields named like a secret (`password`, `api_key`) are hidden in any case. The JSON of a message is made once, and
    kept as long as the message lives, so that each request costs the same, however long its history is.
    """

    messages: bool = True
    tools: bool = True
    definitions: bool = True
    reasoning: bool = True
    max_chars: int = 8_192
    max_total: int = 65_536
    redact: Redact = redact_secrets
    _made: JsonCache = field(default_factory=JsonCache, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("max_chars", "max_total"):
            count: object = getattr(self, name)
            if type(count) is not int or not 1 <= count <= _MOST_CHARS:
                raise ConfigurationError(
                    f"Content.{name} must be a whole number from 1 to {_MOST_CHARS:,}, not {count!r:.60}."
                )
        if not callable(self.redact):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"Content.redact must be a function of a text, not {self.redact!r:.60}.")

    def of_request(self, messages: Sequence[Msg], tools: Sequence[ToolSchema] = ()) -> Attributes:
        """The attributes of a model call at its beginning."""
        attributes: Attributes = {}
        if self.messages:
            system = next((n for n, each in enumerate(messages) if each.role is not MsgRole.SYSTEM), len(messages))
            if system:
                attributes[SYSTEM_INSTRUCTIONS] = self._listed(messages[:system], self._instructions)
            attributes[INPUT_MESSAGES] = self._listed(messages, self._of_message, system)
        if self.definitions and tools:
            attributes[TOOL_DEFINITIONS] = self._listed(tools, self._of_tool)
        return attributes

    def of_answer(self, content: Sequence[ContentBlock], finish_reason: str, name: str = "") -> Attributes:
        """The attributes of a model call at its end; `finish_reason` as the conventions name it (see `finished`)."""
        if not self.messages:
            return {}
        message: dict[str, object] = {
            "role": "assistant",
            "parts": self._parts(content),
            "finish_reason": finish_reason,
        }
        if name:
            message["name"] = self._text(name)
        return {OUTPUT_MESSAGES: self._listed([message], _dumped)}

    def of_messages(self, name: str, messages: Sequence[Msg]) -> Attributes:
        """The messages under any attribute, such as the input of a run."""
        return {name: self._listed(messages, self._of_message)} if self.messages else {}

    def of_call(self, call: ToolUseBlock) -> Attributes:
        """The arguments of a tool call."""
        return {TOOL_ARGUMENTS: self._json(self._arguments(call))} if self.tools else {}

    def of_result(self, result: ToolResultBlock) -> Attributes:
        """The result of a tool call."""
        if not self.tools:
            return {}
        response = self._response(result)
        return {TOOL_RESULT: response if isinstance(response, str) else self._json(response)}

    def text(self, text: str) -> str:
        """One text as it is exported, without secrets and cut; for the messages of errors, too."""
        return self._text(text)

    # --- parts ----------------------------------------------------------------------------------------------------

    def _message(self, message: Msg) -> Part:
        found: dict[str, object] = {"role": str(message.role), "parts": self._parts(message.content)}
        if message.name:
            found["name"] = self._text(message.name)
        return found

    def _parts(self, content: Sequence[ContentBlock]) -> list[Part]:
        return [part for block in content for part in self._part(block)]

    def _part(self, block: ContentBlock) -> Sequence[Part]:
        if isinstance(block, TextBlock):
            return ({"type": "text", "content": self._text(block.text)},)
        if isinstance(block, ThinkingBlock):
            return ({"type": "reasoning", "content": self._text(block.thinking)},) if self.reasoning else ()
        if isinstance(block, ToolUseBlock):
            call: dict[str, object] = {"type": "tool_call", "id": self._text(block.id), "name": self._text(block.name)}
            return (call | {"arguments": self._arguments(block)} if self.tools else call,)
        if isinstance(block, ToolResultBlock):
            result: dict[str, object] = {"type": "tool_call_response", "id": self._text(block.id)}
            return (result | {"response": self._response(block) if self.tools else None},)
        source = block.source
        sources = source.frames if isinstance(source, FramesSource) else (source,)
        modality = _MODALITY[type(block)] if not isinstance(source, FramesSource) else "image"
        return tuple(self._medium(each, modality) for each in sources)

    def _medium(self, source: Source, modality: str) -> Part:
        part: dict[str, object] = {"type": "uri", "modality": modality}
        mime, uri = _reference(source)
        if mime:
            part["mime_type"] = mime
        return part | {"uri": self._text(uri)}

    def _arguments(self, call: ToolUseBlock) -> object:
        if call.input_error is not None:
            return self._text(call.raw or "")
        return redacted(call.input, self._text)

    def _response(self, result: ToolResultBlock) -> object:
        if all(isinstance(block, TextBlock) for block in result.output):
            return self._structured(result.text)
        return self._parts(result.output)

    def _structured(self, text: str) -> str:
        """A text that may be JSON: then the fields named like a secret are hidden, too."""
        if text[:1] in ("{", "[") and len(text) <= self.max_chars:
            try:
                value: object = json.loads(text)
            except (ValueError, RecursionError):
                return self._text(text)
            return self._text(json.dumps(redacted(value, self._text), ensure_ascii=False))
        return self._text(text)

    def _definition(self, tool: ToolSchema) -> Part:
        return {
            "type": "function",
            "name": self._text(tool.name),
            "description": self._text(tool.description),
            "parameters": redacted_schema(tool.parameters, self._text),
        }

    # --- sizes ----------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        """The text without secrets, cut to `max_chars`."""
        whole = len(text)
        # what is far behind the cut costs no time; and half a secret at this cut is behind the next one
        early = whole > self.max_chars + 2 * REACH
        given = text[: self.max_chars + 2 * REACH] if early else text
        try:
            clean = self.redact(given)
            length = len(clean)
        except Exception as error:
            report_dropped(error, "the redactor of traces")
            return "[left out: the redactor failed]"
        most = min(self.max_chars, max(length - REACH, 0)) if early else self.max_chars
        return clean if length <= most else f"{clean[:most]}... [of {whole} characters]"

    def _json(self, value: object) -> str:
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= self.max_total else json.dumps({"left_out": f"{len(text)} characters"})

    def _listed(self, items: Sequence[T], shown: Callable[[T], str], first: int = 0, end: int | None = None) -> str:
        """The items from `first` to `end` as a JSON list: of too many, the last ones."""
        # (an index in a view of a history is far slower than a copy)
        items = list(items)
        end = len(items) if end is None else end
        left, texts = self.max_total, list[str]()
        for position in range(end - 1, first - 1, -1):
            text = shown(items[position])
            left -= len(text) + 2
            if left < 0:
                note = {"type": "left_out", "left_out": position + 1 - first}
                is_message = shown == self._of_message
                texts.append(_dumped({"role": "system", "parts": [note]} if is_message else note))
                break
            if text:
                texts.append(text)
        return f"[{', '.join(reversed(texts))}]"

    def _of_message(self, message: Msg) -> str:
        return self._made.of("message", message, lambda: self._fitting(message))

    def _fitting(self, message: Msg) -> str:
        """The message as JSON; one that would have no room in an attribute has its texts cut further."""
        content = self
        while len(text := _dumped(content._message(message))) > self.max_total - _NOTE and content.max_chars > 1:
            content = replace(content, max_chars=max(content.max_chars // 4, 1))
        return text

    def _instructions(self, message: Msg) -> str:
        """The parts of a system message, without brackets."""
        return self._made.of("instructions", message, lambda: ", ".join(map(_dumped, self._parts(message.content))))

    def _of_tool(self, tool: ToolSchema) -> str:
        return self._made.of("tool", tool, lambda: _dumped(self._definition(tool)))


def finished(reason: str | None) -> str:
    """A `FinishReason` as the conventions name it; `error` for None."""
    return {"tool_calls": "tool_call", "other": "stop"}.get(reason, reason) if reason else "error"


def _dumped(part: Part) -> str:
    return json.dumps(part, ensure_ascii=False)


def _reference(source: Source) -> tuple[str | None, str]:
    """The media type, and what names the medium: its address, its path, or a hash of its bytes."""
    if isinstance(source, Base64Source):
        return source.media_type, _hash(source.data)
    if isinstance(source, FileSource):
        path = source.path
        return mimetypes.guess_type(path)[0], Path(path).as_uri() if Path(path).is_absolute() else path
    return _address(source)


def _address(source: URLSource) -> tuple[str | None, str]:
    if source.url[:5].lower() == "data:":
        head, _, data = source.url[5:].partition(",")
        return head.partition(";")[0] or "text/plain", _hash(data)
    return mimetypes.guess_type(source.url.partition("?")[0])[0], source.url


def _hash(data: str) -> str:
    """The name of these bytes, given in base64; of the text itself if it is not base64."""
    try:
        given = b64decode(data, validate=True)
    except ValueError:
        given = data.encode("utf-8", "replace")
    return f"ni:///sha-256;{urlsafe_b64encode(sha256(given).digest()).rstrip(b'=').decode()}"
