"""`Msg`: the frozen message that user, agent, tools and memory exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from os import PathLike, urandom
from time import time_ns
from typing import Any, Self, TypeVar, cast, overload

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict, Unpack

from agentscope_rx.errors import InvalidInputError, NoStructuredOutputError
from agentscope_rx.frozen_values import dataclass, filler
from agentscope_rx.messages.blocks import (
    BLOCK_TYPES,
    ContentBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.frozen import EMPTY, check_encodable, freeze, shown, thaw
from agentscope_rx.messages.marks import check_marks, marks_in, with_marks
from agentscope_rx.messages.sources import reading
from agentscope_rx.messages.structured import STRUCTURED, structured_as


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """The tokens of a model call, and its `time` in seconds. `a + b` sums every field.

    `cached_tokens` are the part of `input_tokens` that the provider had cached, `reasoning_tokens` the part of
    `output_tokens` for thinking.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    time: float = 0.0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: ChatUsage) -> ChatUsage:
        return ChatUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.time + other.time,
        )


B = TypeVar("B")
T = TypeVar("T")


class MsgRole(StrEnum):
    """The role of a message's author: `USER`, `ASSISTANT`, `SYSTEM` or `TOOL`."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


class GenerateReason(StrEnum):
    """The reason why a reply ended.

    | reason                                              | the reply                                           |
    |-----------------------------------------------------|-----------------------------------------------------|
    | `MODEL_STOP`                                        | an answer without calls                             |
    | `STRUCTURED_OUTPUT`                                 | an answer with the requested value                  |
    | `RETURN_DIRECT`                                     | the result of a `return_direct` tool                |
    | `APPROVAL_REQUIRED`, `TOOL_SUSPENDED`               | placeholders of calls that wait for an answer       |
    | `REASONING_STOP_REQUESTED`, `ACTING_STOP_REQUESTED` | the message or result at which a hook stopped       |
    | `MAX_ITERATIONS`, `LIMIT_REACHED`                   | a summary, after `max_iters` rounds or at a limit   |
    | `INTERRUPTED`                                       | the message given to `interrupt`, or a fixed text   |
    | `TOOL_CALLS`                                        | no reply: an intermediate message                   |
    """

    MODEL_STOP = "model_stop"
    TOOL_CALLS = "tool_calls"
    STRUCTURED_OUTPUT = "structured_output"
    RETURN_DIRECT = "return_direct"
    TOOL_SUSPENDED = "tool_suspended"
    APPROVAL_REQUIRED = "approval_required"
    REASONING_STOP_REQUESTED = "reasoning_stop_requested"
    ACTING_STOP_REQUESTED = "acting_stop_requested"
    INTERRUPTED = "interrupted"
    MAX_ITERATIONS = "max_iterations"
    LIMIT_REACHED = "limit_reached"


SUB_AGENT = "sub_agent"
"""The key in a placeholder's metadata for the sub-agent of its call."""
WAITS_FOR = "waits_for"
"""The key in that entry for the ids of inner calls, if the call waits only for these."""


def waits_inside(placeholder: ToolResultBlock) -> bool:
    """True if the call of this placeholder waits only for calls of a sub-agent."""
    place = placeholder.metadata.get(SUB_AGENT)
    return isinstance(place, Mapping) and WAITS_FOR in place


_LEAVES_CALLS_PENDING = frozenset(
    {GenerateReason.REASONING_STOP_REQUESTED, GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED}
)


class MsgFields(TypedDict, total=False):
    """The arguments of `Msg.replace`."""

    name: str
    content: str | ContentBlock | Iterable[ContentBlock]
    role: MsgRole | str
    id: str
    metadata: Mapping[str, Any]
    timestamp: str
    generate_reason: GenerateReason
    usage: ChatUsage | None


@dataclass(frozen=True, slots=True, weakref_slot=True, init=False)
class Msg:
    """A message: its author (`name`, `role`), `content` blocks, and `id`. Frozen, hashable, equal by value.

    - `content`: give a str, a block or blocks; the message has a tuple of blocks.
    - `usage`: the tokens of the model call; on a reply those of the whole run.
    - `generate_reason`: why the message ended; on a reply why the run did.
    - `timestamp`: UTC in ISO 8601.

    Every message has a JSON form, because values without one are refused:

    | value                                                                        | effect                        |
    |------------------------------------------------------------------------------|-------------------------------|
    | over 100 levels of dicts and lists in `input` or `metadata`; a value within itself | `InvalidInputError`     |
    | half a surrogate pair in text, keys or values                                | becomes U+FFFD                |
    | half a surrogate pair in a name, an id, a URL or a media type                | `InvalidInputError`           |
    | deeper arguments of a model's call                                           | `input_error`: the call fails |

    Objects of your own in `metadata` are allowed; `to_json` refuses them.
    """

    name: str
    content: tuple[ContentBlock, ...]
    role: MsgRole = MsgRole.USER
    id: str = ""
    metadata: Mapping[str, Any] = EMPTY
    timestamp: str = ""
    generate_reason: GenerateReason = GenerateReason.MODEL_STOP
    usage: ChatUsage | None = None

    def __init__(
        self,
        name: str,
        content: str | ContentBlock | Iterable[ContentBlock],
        role: MsgRole | str = MsgRole.USER,
        *,
        id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        timestamp: str | None = None,
        generate_reason: GenerateReason = GenerateReason.MODEL_STOP,
        usage: ChatUsage | None = None,
    ) -> None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A message needs the name of its author, a str, not {shown(name, 60)}.")
        _fill(
            self,
            name,
            _blocks(content),
            role if type(role) is MsgRole else _role(role),
            id or new_id(),
            EMPTY if metadata is None else freeze(metadata, "Msg.metadata"),
            timestamp or _now(),
            generate_reason,
            usage,
        )
        if not (name.isascii() and self.id.isascii() and self.timestamp.isascii()):
            self._check_texts()

    def __post_init__(self) -> None:
        # called by the JSON codec, which sets the slots without __init__
        put = object.__setattr__
        put(self, "id", self.id or new_id())
        put(self, "timestamp", self.timestamp or _now())
        put(self, "metadata", freeze(self.metadata, "Msg.metadata"))
        self._check_texts()

    def _check_texts(self) -> None:
        for field in ("name", "id", "timestamp"):
            check_encodable(getattr(self, field), f"Msg.{field}")

    @classmethod
    def user(cls, content: str | ContentBlock | Iterable[ContentBlock], name: str = "user") -> Msg:
        """A message of a user."""
        return cls(name, content, MsgRole.USER)

    @classmethod
    def assistant(cls, content: str | ContentBlock | Iterable[ContentBlock], name: str = "assistant") -> Msg:
        """A message of an agent."""
        return cls(name, content, MsgRole.ASSISTANT)

    @classmethod
    def system(cls, content: str | ContentBlock | Iterable[ContentBlock], name: str = "system") -> Msg:
        """A system message: instructions for the model."""
        return cls(name, content, MsgRole.SYSTEM)

    @classmethod
    def tool(cls, results: ToolResultBlock | Iterable[ToolResultBlock], name: str = "tool") -> Msg:
        """Results of tool calls."""
        return cls(name, results, MsgRole.TOOL)

    def __str__(self) -> str:
        """Author and content, to print: `Friday: weather(city='Paris')`. Thinking is left out; media are `[image]`."""
        others = [
            str(block) if isinstance(block, (ToolUseBlock, ToolResultBlock)) else f"[{block.type}]"
            for block in self.content
            if not isinstance(block, (TextBlock, ThinkingBlock))
        ]
        return f"{self.name}: {' '.join(filter(None, (self.text, *others)))}"

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines; '' if there are none.

        Adjacent text blocks of an assistant are joined without a newline, because providers split one text, such as at
        citations.
        """
        if self.role is not MsgRole.ASSISTANT:
            return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))
        runs = groupby(self.content, key=lambda block: type(block) is TextBlock)
        return "\n".join("".join([cast("TextBlock", block).text for block in run]) for is_text, run in runs if is_text)

    @property
    def tool_calls(self) -> tuple[ToolUseBlock, ...]:
        """The calls in this message, in order."""
        return tuple([block for block in self.content if type(block) is ToolUseBlock])

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The results in this message, in order."""
        return tuple([block for block in self.content if type(block) is ToolResultBlock])

    @property
    def pending_calls(self) -> tuple[ToolUseBlock, ...]:
        """The tool calls that wait for the caller: the run was stopped or suspended, or needs approval.

        `call()` without input runs them, results in the input answer them, `Approve` and `Reject` decide about them. If
        a sub-agent waits, its calls replace the call of it.
        """
        if self.generate_reason not in _LEAVES_CALLS_PENDING:
            return ()
        inside = {result.id for result in self.tool_results if waits_inside(result)}
        return tuple(call for call in self.tool_calls if call.id not in inside)

    def blocks(self, kind: type[B]) -> tuple[B, ...]:
        """All blocks of one class, in order."""
        return tuple(block for block in self.content if isinstance(block, kind))

    @property
    def has_structured(self) -> bool:
        """True if this reply has the requested structured `output`."""
        return STRUCTURED in self.metadata

    @overload
    def structured(self) -> object: ...
    @overload
    def structured(self, kind: type[T]) -> T: ...
    @overload
    def structured(self, kind: object) -> object: ...
    def structured(self, kind: object = None) -> object:
        """The structured value as this type (a model, a dataclass, `list[int]`, ...), or as plain JSON.

        The plain value is the model's, validated; the type adds its defaults. `NoStructuredOutputError` if the message
        has none, `InvalidInputError` if the value does not fit the type.
        """
        if STRUCTURED not in self.metadata:
            raise NoStructuredOutputError(self.id, self.generate_reason.name)
        value = thaw({STRUCTURED: self.metadata[STRUCTURED]})[STRUCTURED]
        return value if kind is None else structured_as(kind, value, self.id)

    @property
    def marks(self) -> frozenset[str]:
        """The marks of the message, such as `HIDDEN`: what memory and requests do with it."""
        return marks_in(self.metadata)

    def marked(self, *marks: str) -> Msg:
        """The message with these marks, too."""
        return self._with_marks(self.marks | check_marks(marks))

    def unmarked(self, *marks: str) -> Msg:
        """The message without these marks."""
        return self._with_marks(self.marks - check_marks(marks))

    def _with_marks(self, marks: frozenset[str]) -> Msg:
        return self if marks == self.marks else self.replace(metadata=with_marks(self.metadata, marks))

    def replace(self, **changes: Unpack[MsgFields]) -> Msg:
        """A copy with these fields changed; the id stays unless given."""
        values = {name: getattr(self, name) for name in _FIELDS} | changes
        return Msg(**cast("MsgFields", values))  # pyright: ignore[reportArgumentType]

    def to_json(self) -> str:
        """The message as JSON; `Msg.from_json` reads an equal message, unless it names local files (see `FileSource`).

        `InvalidInputError` if metadata or arguments have a value without a JSON form.
        """
        try:
            return _adapter().dump_json(self).decode()
        except (ValueError, RecursionError) as error:
            # pydantic's errors are ValueErrors; too many levels are a RecursionError
            raise InvalidInputError(f"Message {self.id} cannot be written as JSON: {error}") from error

    def to_dict(self) -> dict[str, object]:
        """The message as plain JSON values; `Msg.from_dict` reads an equal message."""
        try:
            return cast("dict[str, object]", _adapter().dump_python(self, mode="json"))
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(f"Message {self.id} cannot be written as JSON: {error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, object], *, file_root: str | PathLike[str] | None = None) -> Self:
        """The message from the values of `to_dict`; `InvalidInputError` names the invalid ones.

        It refuses a `FileSource` that is not below `file_root`, because the message may come from a network.
        """
        return read_message(data, reading(file_root))  # pyright: ignore[reportReturnType]

    @classmethod
    def from_json(cls, text: str | bytes, *, file_root: str | PathLike[str] | None = None) -> Self:
        """The message from the JSON of `to_json`; `InvalidInputError` and `file_root` as for `from_dict`."""
        try:
            return _adapter().validate_json(text, context=reading(file_root))  # pyright: ignore[reportReturnType]
        except ValidationError as error:
            raise InvalidInputError(f"This is not a message: {error}") from error


_fill = filler(Msg)
_FIELDS = tuple(field.name for field in fields(Msg))


def read_message(data: Mapping[str, object], context: dict[str, object]) -> Msg:
    """The message from values of JSON; the context decides about local files (see `sources.reading`)."""
    try:
        # plain JSON values, without enums and tuples
        return _adapter().validate_python(data, context=context)
    except (ValidationError, RecursionError) as error:
        raise InvalidInputError(f"This is not a message: {error}") from error


_ADAPTER: list[TypeAdapter[Msg]] = []


def _adapter() -> TypeAdapter[Msg]:
    # built on first use: it costs more than importing the module
    if not _ADAPTER:
        _ADAPTER.append(TypeAdapter(Msg))
    return _ADAPTER[0]


def new_id() -> str:
    """A unique id: 128 random bits."""
    return urandom(16).hex()


_latest = (0, "")


def _now() -> str:
    """The current time; messages of one millisecond share the text."""
    global _latest
    moment = time_ns() // 1_000_000
    then, text = _latest
    if moment != then:
        text = datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")
        # one assignment, because messages are made on several threads
        _latest = (moment, text)
    return text


def _role(role: str) -> MsgRole:
    try:
        return MsgRole(role)
    except (ValueError, RecursionError):
        raise InvalidInputError(
            f"{shown(role)} is not a role; use one of {', '.join(r.value for r in MsgRole)}. "
            "(The order of Msg's arguments is name, content, role.)"
        ) from None


_KINDS = frozenset(BLOCK_TYPES)


def _blocks(content: str | ContentBlock | Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (TextBlock(content),)
    if isinstance(content, BLOCK_TYPES):
        return (content,)
    try:
        blocks = tuple(content)
    except TypeError:
        raise InvalidInputError(f"Message content must be text or blocks, not {type(content).__name__}.") from None
    for block in blocks:
        if type(block) not in _KINDS and not isinstance(block, BLOCK_TYPES):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(
                f"Message content must be text or blocks, found {type(block).__name__}: {shown(block)}"
            )
    return blocks
