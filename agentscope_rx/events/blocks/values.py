"""`BlockEvent`: the kinds of events of AgentScope 2, with their JSON.

    REPLY_START  ( MODEL_CALL_START  block*  MODEL_CALL_END  ( TOOL_RESULT_START  delta*  TOOL_RESULT_END )* )*
    ( REPLY_END | REQUIRE_USER_CONFIRM  REQUIRE_EXTERNAL_EXECUTION )

    block    TEXT, THINKING or DATA_BLOCK_START, DELTA*, END;  TOOL_CALL_START, DELTA*, END

Names, fields and values are those of `agentscope.event`, release 2.0.10; `to_dict` gives its JSON. `metadata` has what
the format has no field for: `message_id`, and for the events of a sub-agent `agent` and `path`, as in `Event`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from typing import ClassVar, Literal

from agentscope_rx.events._times import iso
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY

Json = Mapping[str, object]

ReplyFinishedReason = Literal["completed", "interrupted", "exceed_max_iters", "error"]
"""How a reply has ended."""

ToolResultState = Literal["success", "error", "interrupted", "denied", "running"]
"""How a tool call has ended. "running": it goes on in the background."""

ErrorKind = Literal[
    "authentication", "permission", "rate_limit", "invalid_request", "upstream", "connection", "internal", "unknown"
]
"""The kinds of errors in `ReplyEndEvent.error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvent:
    """An event of a reply. `created_at` is in seconds since the epoch; `id` is unique in the stream of a run."""

    type: ClassVar[str] = ""
    of_reply: ClassVar[bool] = True
    """True if the JSON has `reply_id`; else it is in `metadata`."""

    reply_id: str
    id: str = ""
    created_at: float = 0.0
    metadata: Json = EMPTY

    def to_dict(self) -> dict[str, object]:
        """The event as AgentScope 2 writes it."""
        reply = {"reply_id": self.reply_id}
        metadata = dict(self.metadata) if self.of_reply else {**self.metadata, **reply}
        about = {"id": self.id, "created_at": iso(self.created_at), "metadata": metadata, "type": self.type}
        own = {name: getattr(self, name) for name in _own_fields(type(self))}
        return {**about, **(reply if self.of_reply else {}), **own}


@cache
def _own_fields(kind: type[BlockEvent]) -> tuple[str, ...]:
    shared = {each.name for each in fields(BlockEvent)}
    return tuple([each.name for each in fields(kind) if each.name not in shared])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStartEvent(BlockEvent):
    """A reply begins. A run that continues a parked reply has none."""

    type: ClassVar[str] = "REPLY_START"

    session_id: str
    name: str
    role: Literal["user", "assistant", "system"] = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEndEvent(BlockEvent):
    """The reply has ended, and is not parked. `error` is `{"type": ErrorKind, "message": text}` if it failed."""

    type: ClassVar[str] = "REPLY_END"

    session_id: str
    finished_reason: ReplyFinishedReason = "completed"
    error: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStartEvent(BlockEvent):
    """A model call begins."""

    type: ClassVar[str] = "MODEL_CALL_START"

    model_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEndEvent(BlockEvent):
    """The model has answered, with so many tokens; 0 where the provider does not tell."""

    type: ClassVar[str] = "MODEL_CALL_END"

    input_tokens: int = 0
    output_tokens: int = 0
    cache_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    finished_reason: Literal["completed", "interrupted"] = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlockStartEvent(BlockEvent):
    """A text begins."""

    type: ClassVar[str] = "TEXT_BLOCK_START"

    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlockDeltaEvent(BlockEvent):
    """The next piece of a text."""

    type: ClassVar[str] = "TEXT_BLOCK_DELTA"

    block_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlockEndEvent(BlockEvent):
    """A text has ended. `text` is the whole text if it is not that of the deltas."""

    type: ClassVar[str] = "TEXT_BLOCK_END"

    block_id: str
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlockStartEvent(BlockEvent):
    """A thought begins."""

    type: ClassVar[str] = "THINKING_BLOCK_START"

    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlockDeltaEvent(BlockEvent):
    """The next piece of a thought."""

    type: ClassVar[str] = "THINKING_BLOCK_DELTA"

    block_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingBlockEndEvent(BlockEvent):
    """A thought has ended."""

    type: ClassVar[str] = "THINKING_BLOCK_END"

    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataBlockStartEvent(BlockEvent):
    """An image, audio, a video or a file begins."""

    type: ClassVar[str] = "DATA_BLOCK_START"

    block_id: str
    media_type: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataBlockDeltaEvent(BlockEvent):
    """The next piece of it: either `data`, in base64, or `url`."""

    type: ClassVar[str] = "DATA_BLOCK_DELTA"

    block_id: str
    media_type: str
    data: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataBlockEndEvent(BlockEvent):
    """It is whole."""

    type: ClassVar[str] = "DATA_BLOCK_END"

    block_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HintBlockEvent(BlockEvent):
    """A hint for the model, in this round only."""

    type: ClassVar[str] = "HINT_BLOCK"

    block_id: str
    hint: str
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallStartEvent(BlockEvent):
    """The model begins to write a call."""

    type: ClassVar[str] = "TOOL_CALL_START"

    tool_call_id: str
    tool_call_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDeltaEvent(BlockEvent):
    """The next piece of its arguments' JSON."""

    type: ClassVar[str] = "TOOL_CALL_DELTA"

    tool_call_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEndEvent(BlockEvent):
    """The call is whole."""

    type: ClassVar[str] = "TOOL_CALL_END"

    tool_call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultStartEvent(BlockEvent):
    """A call is run."""

    type: ClassVar[str] = "TOOL_RESULT_START"

    tool_call_id: str
    tool_call_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultTextDeltaEvent(BlockEvent):
    """A text of its result."""

    type: ClassVar[str] = "TOOL_RESULT_TEXT_DELTA"

    tool_call_id: str
    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultDataDeltaEvent(BlockEvent):
    """An image, audio, a video or a file of its result: either `data`, in base64, or `url`."""

    type: ClassVar[str] = "TOOL_RESULT_DATA_DELTA"

    tool_call_id: str
    block_id: str
    media_type: str
    data: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEndEvent(BlockEvent):
    """The call has its result."""

    type: ClassVar[str] = "TOOL_RESULT_END"

    tool_call_id: str
    state: ToolResultState = "success"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceedMaxItersEvent(BlockEvent):
    """The limit of rounds was reached."""

    type: ClassVar[str] = "EXCEED_MAX_ITERS"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequireUserConfirmEvent(BlockEvent):
    """The reply is parked until a person has decided on these calls (`ToolCallBlock`s as JSON)."""

    type: ClassVar[str] = "REQUIRE_USER_CONFIRM"

    tool_calls: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequireExternalExecutionEvent(BlockEvent):
    """The reply is parked until the caller has the results of these calls (`ToolCallBlock`s as JSON)."""

    type: ClassVar[str] = "REQUIRE_EXTERNAL_EXECUTION"

    tool_calls: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConfirmResultEvent(BlockEvent):
    """What a person has decided: `{"confirmed": bool, "tool_call": ToolCallBlock, "rules": None}` for each call."""

    type: ClassVar[str] = "USER_CONFIRM_RESULT"

    confirm_results: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalExecutionResultEvent(BlockEvent):
    """The results that the caller has given (`ToolResultBlock`s as JSON)."""

    type: ClassVar[str] = "EXTERNAL_EXECUTION_RESULT"

    execution_results: tuple[Json, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInterruptEvent(BlockEvent):
    """The run was interrupted."""

    type: ClassVar[str] = "USER_INTERRUPT"


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomEvent(BlockEvent):
    """What the format has no kind for; readers pass over names that they do not know."""

    type: ClassVar[str] = "CUSTOM"
    of_reply: ClassVar[bool] = False

    name: str
    value: Json = field(default=EMPTY)
