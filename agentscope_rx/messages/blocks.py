"""The content blocks of a message: a closed set of frozen values with an exact JSON round trip.

| block           | `type`        | content                                                     |
|-----------------|---------------|-------------------------------------------------------------|
| TextBlock       | `text`        | text                                                        |
| ThinkingBlock   | `thinking`    | a model's reasoning, with the signature of its vendor       |
| ImageBlock, AudioBlock, VideoBlock | `image`, `audio`, `video` | media from a source              |
| FileBlock       | `file`        | a document (PDF, text, ...), for models that read files     |
| ToolUseBlock    | `tool_use`    | a call: one canonical `input`, the raw text for diagnostics |
| ToolResultBlock | `tool_result` | its result, with a machine-readable kind if it is an error  |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypedDict, Unpack

from pydantic import Discriminator

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass, replaced
from agentscope_rx.messages.frozen import EMPTY, FrozenDict, check_encodable, encodable, freeze, shown
from agentscope_rx.messages.sources import SOURCE_TYPES, FramesSource, Source, VideoSource


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text of a message or of a tool's result."""

    text: str
    type: Literal["text"] = "text"

    def __post_init__(self) -> None:
        text = self.text
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"TextBlock.text must be a str, not {type(text).__name__}.")
        if not text.isascii():
            object.__setattr__(self, "text", encodable(text))


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """A model's reasoning; `signature` is the vendor's proof, sent back unchanged."""

    thinking: str
    signature: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    type: Literal["thinking"] = "thinking"

    def __post_init__(self) -> None:
        if not isinstance(self.thinking, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"ThinkingBlock.thinking must be a str, not {type(self.thinking).__name__}.")
        if not self.thinking.isascii():
            object.__setattr__(self, "thinking", encodable(self.thinking))
        if self.signature is not None and not self.signature.isascii():
            object.__setattr__(self, "signature", encodable(self.signature))
        if type(self.metadata) is not FrozenDict:
            object.__setattr__(self, "metadata", freeze(self.metadata, "ThinkingBlock.metadata"))


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image; pixel bounds are hints for models that resize it."""

    source: Source
    min_pixels: int | None = None
    max_pixels: int | None = None
    type: Literal["image"] = "image"

    def __post_init__(self) -> None:
        _check_source(self, self.source)


@dataclass(frozen=True, slots=True)
class AudioBlock:
    """Audio, such as speech or music."""

    source: Source
    type: Literal["audio"] = "audio"

    def __post_init__(self) -> None:
        _check_source(self, self.source)


@dataclass(frozen=True, slots=True)
class VideoBlock:
    """A video; `fps`, frame and pixel bounds are hints for models that sample."""

    source: VideoSource
    fps: float | None = None
    max_frames: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    total_pixels: int | None = None
    type: Literal["video"] = "video"

    def __post_init__(self) -> None:
        if not isinstance(self.source, FramesSource):
            _check_source(self, self.source)


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A document, such as a PDF; `name` is its name for the model."""

    source: Source
    name: str | None = None
    type: Literal["file"] = "file"

    def __post_init__(self) -> None:
        _check_source(self, self.source)
        if self.name is not None and not self.name.isascii():
            object.__setattr__(self, "name", encodable(self.name))


class ToolUseFields(TypedDict, total=False):
    """The arguments of `ToolUseBlock.replace`."""

    id: str
    name: str
    input: Mapping[str, Any]
    raw: str | None
    input_error: str | None
    metadata: Mapping[str, Any]
    raw_input: str | None


IN_DOUBT: Final = "in_doubt"
"""The key, in the metadata of a pending call, of the mark that it is in doubt."""


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call requested by the model. `input` holds its arguments.

    `id` is unique in a conversation: if a server numbers the calls of each answer from 0, or sends no id, the engine
    gives one. So an approval or a result concerns exactly one call.

    `raw_input` is the model's own JSON of `input`, if the engine would write it differently. Formatters send it back
    while it is equal to `input`, so that the prompt stays the same byte for byte. Calls that differ in it only are
    equal.

    In a complete message `raw` is None, unless the arguments could not be parsed: then `input` is empty, `raw` is the
    model's text and `input_error` names the fault. In a chunk of a stream `raw` is the new piece of argument text.
    """

    id: str
    name: str
    input: Mapping[str, Any] = EMPTY
    raw: str | None = None
    input_error: str | None = None
    metadata: Mapping[str, Any] = EMPTY
    raw_input: str | None = field(default=None, compare=False, kw_only=True)
    type: Literal["tool_use"] = "tool_use"

    @property
    def in_doubt(self) -> bool:
        """True for a pending call that had begun when its process ended: it may have had its effect, or not."""
        return self.metadata.get(IN_DOUBT) is True

    def __str__(self) -> str:
        """The call as code: `weather(city='Paris')`; arguments that could not be parsed as the model wrote them."""
        written = self.raw if self.raw is not None else ", ".join(f"{key}={self.input[key]!r}" for key in self.input)
        return f"{self.name}({written})"

    def __post_init__(self) -> None:
        id, name = self.id, self.name
        if not (type(id) is type(name) is str and id.isascii() and name.isascii()):
            _check_names(self, id, name)
        if self.raw_input is not None and not self.raw_input.isascii():
            object.__setattr__(self, "raw_input", encodable(self.raw_input))
        if self.raw is not None and not self.raw.isascii():
            object.__setattr__(self, "raw", encodable(self.raw))
        if self.input_error is not None and not self.input_error.isascii():
            object.__setattr__(self, "input_error", encodable(self.input_error))
        if type(self.input) is not FrozenDict:
            object.__setattr__(self, "input", freeze(self.input, "ToolUseBlock.input"))
        if type(self.metadata) is not FrozenDict:
            object.__setattr__(self, "metadata", freeze(self.metadata, "ToolUseBlock.metadata"))

    def replace(self, **changes: Unpack[ToolUseFields]) -> ToolUseBlock:
        """A copy with these fields changed. A new `input` clears `raw`, `raw_input` and `input_error`, unless given."""
        if "input" in changes:
            changes = {"raw": None, "input_error": None, "raw_input": None, **changes}
        return replaced(self, **changes)

    def with_input(self, input: Mapping[str, object]) -> ToolUseBlock:
        """The same call with these arguments."""
        return self.replace(input=input)


class ToolResultKind(StrEnum):
    """The kinds of results other than a success. The last three are placeholders of calls that wait.

    | kind | the call |
    |---|---|
    | `NOT_FOUND` | names no tool, or one of an inactive group |
    | `INVALID_ARGUMENTS` | has arguments that the tool does not accept |
    | `TIMEOUT` | took longer than its deadline |
    | `FAILED` | raised an error |
    | `INTERRUPTED` | was cut off before its result, or never began |
    | `REJECTED` | was refused by a person, a hook or a rule |
    | `SUSPENDED` | waits for a result from outside the run |
    | `APPROVAL_REQUIRED` | waits for a person's approval |
    | `IN_DOUBT` | had begun when its process ended, and waits for the caller's decision |
    """

    NOT_FOUND = "not_found"
    INVALID_ARGUMENTS = "invalid_arguments"
    TIMEOUT = "timeout"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    REJECTED = "rejected"
    SUSPENDED = "suspended"
    APPROVAL_REQUIRED = "approval_required"
    IN_DOUBT = "in_doubt"

    @property
    def waits(self) -> bool:
        """True for the placeholder of a pending call: the reply shows it, memory does not have it."""
        return self in _WAITS


_WAITS = (ToolResultKind.SUSPENDED, ToolResultKind.APPROVAL_REQUIRED, ToolResultKind.IN_DOUBT)

OutputBlock = Annotated[TextBlock | ImageBlock | AudioBlock | VideoBlock | FileBlock, Discriminator("type")]
"""A part of a tool's result."""


class ToolResultFields(TypedDict, total=False):
    """The arguments of `ToolResultBlock.replace`."""

    id: str
    name: str
    output: str | OutputBlock | Iterable[OutputBlock]
    kind: ToolResultKind | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """The result of the call with this `id` and `name`. `kind` is None for a success, else it names the error.

    A str as `output` becomes a text block.
    """

    id: str
    name: str
    output: tuple[OutputBlock, ...] = ()
    kind: ToolResultKind | None = None
    metadata: Mapping[str, Any] = EMPTY
    type: Literal["tool_result"] = "tool_result"

    def __post_init__(self) -> None:
        id, name = self.id, self.name
        if not (type(id) is type(name) is str and id.isascii() and name.isascii()):
            _check_names(self, id, name)
        output = output_blocks(self.output)
        if output is not self.output:
            object.__setattr__(self, "output", output)
        if type(self.metadata) is not FrozenDict:
            object.__setattr__(self, "metadata", freeze(self.metadata, "ToolResultBlock.metadata"))

    def replace(self, **changes: Unpack[ToolResultFields]) -> ToolResultBlock:
        """A copy with these fields changed; a str as `output` becomes a text block."""
        return replaced(self, **changes)

    def __str__(self) -> str:
        """The result as a line to print: `weather -> sunny`; media by their kind: `draw -> [image]`."""
        others = [f"[{block.type}]" for block in self.output if not isinstance(block, TextBlock)]
        return f"{self.name} -> {' '.join(filter(None, (self.text, *others)))}"

    @property
    def is_error(self) -> bool:
        """True if the call failed; False if it is pending."""
        return self.kind is not None and not self.kind.waits

    @property
    def text(self) -> str:
        """The text parts of the output, joined by newlines."""
        return "\n".join(block.text for block in self.output if isinstance(block, TextBlock))

    @classmethod
    def error(cls, call: ToolUseBlock, kind: ToolResultKind, text: str) -> ToolResultBlock:
        """The error result of `call`; its text is `Error: <text>`."""
        return cls(call.id, call.name, (TextBlock(f"Error: {text}"),), kind)

    @classmethod
    def of(cls, call: ToolUseBlock, output: str | OutputBlock | Iterable[OutputBlock]) -> ToolResultBlock:
        """The result of `call` with this output."""
        return cls(call.id, call.name, output_blocks(output))


ContentBlock = Annotated[
    TextBlock | ThinkingBlock | ImageBlock | AudioBlock | VideoBlock | FileBlock | ToolUseBlock | ToolResultBlock,
    Discriminator("type"),
]
"""A part of a message. pydantic chooses the class by `type`."""

BLOCK_TYPES = (TextBlock, ThinkingBlock, ImageBlock, AudioBlock, VideoBlock, FileBlock, ToolUseBlock, ToolResultBlock)
OUTPUT_TYPES = (TextBlock, ImageBlock, AudioBlock, VideoBlock, FileBlock)


def output_blocks(output: str | OutputBlock | Iterable[OutputBlock]) -> tuple[OutputBlock, ...]:
    """Text, a block or blocks as a tuple of blocks; `InvalidInputError` for anything else."""
    if isinstance(output, str):
        return (TextBlock(output),)
    if isinstance(output, OUTPUT_TYPES):
        return (output,)
    try:
        blocks = tuple(output)
    except TypeError:
        raise InvalidInputError(f"A result's output must be text or blocks, not {type(output).__name__}.") from None
    for block in blocks:
        if not isinstance(block, OUTPUT_TYPES):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(
                f"A result's output is made of text, image, audio, video and file blocks; found {shown(block)}."
            )
    return blocks


def _check_source(block: object, source: object) -> None:
    if not isinstance(source, SOURCE_TYPES):
        raise InvalidInputError(
            f"{type(block).__name__} needs a source, such as URLSource('...'), FileSource(path) or "
            f"Base64Source.of(...), not {shown(source)}."
        )


def _check_names(block: object, id: object, name: object) -> None:
    if not (isinstance(id, str) and isinstance(name, str)):
        raise InvalidInputError(
            f"{type(block).__name__} needs the id and the name of a call, not {shown(id)} and {shown(name)}."
        )
    if not (id.isascii() and name.isascii()):
        check_encodable(id, f"{type(block).__name__}.id")
        check_encodable(name, f"{type(block).__name__}.name")
