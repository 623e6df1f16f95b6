"""All kinds of events of a run, in the order in which they come.

    PreCall  ( PreReasoning  ReasoningChunk*  PostReasoning  ( PreActing* ActingChunk*  PostActing* )? )*
             ( PreSummary  SummaryChunk*  PostSummary )?  Memory?  PostCall
    ... ErrorEvent                                             last, instead of PostCall, of a run that failed

Pre and Post events may be changed by hooks; chunks may be dropped, delayed, merged or rewritten as shown; ErrorEvent,
RetryEvent and MemoryEvent only report: hooks observe them. An OutputChunk follows each ReasoningChunk that brings a
piece of a structured output, as hooks have left it. Fields marked read-only are what the run goes by, whatever a hook
puts there. PreObserve and PostObserve are in no run: they are about `agent.observe()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, Protocol, Self

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.base import NOWHERE, Event, EventSource, register
from agentscope_rx.events.partial_json import partial_value
from agentscope_rx.events.unsaid import NOTHING, UNSAID, Error, History, Options, Schema
from agentscope_rx.messages.approval import ApprovalAnswer
from agentscope_rx.messages.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import check_encodable, encodable
from agentscope_rx.messages.msg import ChatUsage, Msg
from agentscope_rx.models.response import FinishReason
from agentscope_rx.models.wire.speaker_names import hint_message


class Accumulation(Protocol):
    """What has come of one block; a view of it as it was after `count` pieces costs nothing until it is asked for."""

    def upto(self, count: int) -> ContentBlock: ...


_View = Annotated[Accumulation | None, *NOTHING]


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreCallEvent(Event):
    """A call begins. Hooks may change `input` (what will be remembered) and `system_message` (for this call only)."""

    type: ClassVar[str] = "pre_call"

    input: tuple[Msg, ...] = ()
    answers: tuple[ApprovalAnswer, ...] = ()
    """What the caller said to calls that wait for approval; hooks may change them, too."""
    system_message: Msg | None = None
    pending: tuple[ToolUseBlock, ...] = ()
    """Read-only: the calls that an earlier run has left open."""
    passes_by: bool = False
    """Read-only, and known only when hooks have seen the event: the input neither answers nor runs what is pending."""
    lost: tuple[ToolUseBlock, ...] = ()
    """Read-only, and known only then: calls that are open because memory kept no result for them. They get one now."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory before the call."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreReasoningEvent(Event):
    """The model is about to be asked with `system_message`, then `messages`, then `hints`: all for this round only.

    `messages` are the whole history unless a hook puts others there. `options` are those of the agent; a hook's are
    used instead.
    """

    type: ClassVar[str] = "pre_reasoning"

    iteration: int = 0
    model_name: str = ""
    system_message: Msg | None = None
    hints: tuple[Msg, ...] = ()
    messages: History = field(default=(), compare=False, repr=False)
    options: Options = field(default=None, compare=False, repr=False)
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory at this moment."""

    def with_hint(self, hint: Msg | str) -> Self:
        """A copy with one more message for the model at the end, in this round only; it is never remembered."""
        message = hint_message(hint) if isinstance(hint, str) else hint
        return replace(self, hints=(*self.hints, message))

    def append_system_content(self, text: str) -> Self:
        """A copy whose system message says this too, in this round only."""
        return replace(self, system_message=appended(self.system_message, text))


def appended(system_message: Msg | None, text: str) -> Msg:
    """The system message with one more block of text; a new one if there was none."""
    if system_message is None:
        return Msg.system(text)
    return system_message.replace(content=(*system_message.content, TextBlock(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEvent(Event):
    """A piece of a message that is being written. `delta` is the new piece, `accumulated` its block so far.

    A tool call's piece is a `ToolUseBlock` whose `raw` is the next part of its arguments' text. Pieces of one message
    share its `message_id`. Only a preview: the message is what the stage's Post event says.
    """

    iteration: int = 0
    message_id: str = ""
    delta: ContentBlock | None = None
    snapshot: ContentBlock | None = None
    """The block so far, if the stream was asked for accumulated content; it then stands in place of `delta` in JSON."""
    usage: ChatUsage | None = None
    """What the answer has cost so far, if it came with this piece. Usage that came alone is a chunk without a delta."""
    view: _View = field(default=None, compare=False, repr=False)
    count: Annotated[int, *UNSAID] = field(default=0, compare=False, repr=False)

    @property
    def accumulated(self) -> ContentBlock | None:
        """The whole block so far, put together when asked for.

        In a chunk hook it is what the model has said; in the stream what has been shown, chunk hooks included.
        """
        if self.snapshot is not None or self.view is None:
            return self.snapshot or self.delta
        return self.view.upto(self.count)

    @property
    def text(self) -> str:
        """The new text; '' if the piece is thinking or a tool call."""
        return self.delta.text if isinstance(self.delta, TextBlock) else ""

    @property
    def thinking(self) -> str:
        """The new thinking; '' if the piece is something else."""
        return self.delta.thinking if isinstance(self.delta, ThinkingBlock) else ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningChunkEvent(ChunkEvent):
    """A piece of what the model says."""

    type: ClassVar[str] = "reasoning_chunk"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunkEvent(ChunkEvent):
    """A piece of the structured output that was asked for; it follows the chunk that brought it."""

    type: ClassVar[str] = "output_chunk"

    within: str | None = None
    """The field of the object that the model writes which holds the value; None if the object is the value."""

    @property
    def value(self) -> object:
        """The value so far, as plain JSON, parsed when asked for; None while there is nothing to be read.

        What is begun is shown: strings as far as they have come, objects with the fields that have come. A preview:
        nothing of it has been checked.
        """
        return partial_value(self.accumulated, self.within) if self.view or self.snapshot else None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostReasoningEvent(Event):
    """The model has answered. Hooks may change `message` before it is remembered, stop the run, or send it back.

    `interrupted`: the answer was cut off; its open calls get results of kind `interrupted` next. `model_name` is who
    answered, `queued` how many seconds the request waited for its turn (see `RateLimitedModel`).
    """

    type: ClassVar[str] = "post_reasoning"

    iteration: int = 0
    message: Msg = field(default_factory=lambda: Msg.assistant(()))
    usage: ChatUsage | None = None
    finish_reason: FinishReason | None = None
    interrupted: bool = False
    stop_requested: bool = False
    goto_messages: tuple[Msg, ...] | None = None
    model_name: str = ""
    queued: float = 0.0
    messages: History = field(default=(), compare=False, repr=False)
    """Read-only: what the model was asked with, system message and hints included."""
    options: Options = field(default=None, compare=False, repr=False)
    """Read-only: the options it was asked with."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory, without this message."""

    def stop(self) -> Self:
        """A copy that ends the run after this message; its calls stay pending, to be resumed by `call()`."""
        return replace(self, stop_requested=True)

    def goto_reasoning(self, messages: Msg | str | Sequence[Msg] = ()) -> Self:
        """A copy that asks the model again, after these messages (remembered), instead of acting or finishing.

        If the message has tool calls, the messages must hold a result for each.
        """
        added = _messages(messages)
        answered = {result.id for message in added for result in message.tool_results}
        missing = [call.id for call in self.message.tool_calls if call.id not in answered]
        if missing:
            raise InvalidInputError(f"goto_reasoning: no tool result for the open calls {missing}.")
        return replace(self, goto_messages=added)


def _messages(messages: Msg | str | Sequence[Msg]) -> tuple[Msg, ...]:
    if isinstance(messages, str):
        return (Msg.user(messages),)
    return (messages,) if isinstance(messages, Msg) else tuple(messages)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreActingEvent(Event):
    """A tool is about to run. Hooks may change the arguments (`tool_use.with_input`), not the call's id."""

    type: ClassVar[str] = "pre_acting"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    schema: Schema = field(default=None, compare=False, repr=False)
    """Read-only: the tool as the model sees it; None if there is none of this name."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and known only when hooks see the event: the memory at this moment, the model's message included."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ActingChunkEvent(Event):
    """What a running tool says meanwhile. The last one (`is_last`) comes with its result, and holds what of that has
    not been shown: all of it, or nothing if it was the chunk before (see `tools.calls.shown_values`)."""

    type: ClassVar[str] = "acting_chunk"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    chunk: ToolResultBlock = field(default_factory=lambda: ToolResultBlock("", ""))
    is_last: bool = False
    queued: float | None = None
    """With the result: the seconds that the call waited before it began, or until the end if it never did."""
    elapsed: float | None = None
    """With the result: the seconds that it ran; None if it never began."""

    @property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostActingEvent(Event):
    """A call has its result: in call order. What hooks put into `message` is what memory, model and stream see."""

    type: ClassVar[str] = "post_acting"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    message: Msg = field(default_factory=lambda: Msg.tool(()))
    stop_requested: bool = False
    queued: float | None = None
    """Read-only: the seconds that the call waited before it began, or until the end if it never did.

    For its place in the round, its tool's permit or rate, calls that run alone. None if it was not to run at all.
    """
    elapsed: float | None = None
    """Read-only: the seconds that it ran, all attempts together; None if it never began."""
    schema: Schema = field(default=None, compare=False, repr=False)
    """Read-only: the tool as the model sees it; None if there is none of this name."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and known only when hooks see the event: the memory, without this message."""

    @property
    def result(self) -> ToolResultBlock:
        """The result in the message."""
        return self.message.tool_results[0]

    def with_result(self, result: ToolResultBlock) -> Self:
        """A copy with this result instead; it must keep the call's id."""
        return replace(self, message=self.message.replace(content=result))

    def stop(self) -> Self:
        """A copy that ends the run once all calls of the round have their results; siblings are not cancelled."""
        return replace(self, stop_requested=True)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreSummaryEvent(PreReasoningEvent):
    """The iterations are used up: the model is about to be asked, without tools, for a last word."""

    type: ClassVar[str] = "pre_summary"

    max_iterations: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryChunkEvent(ChunkEvent):
    """A piece of the summary."""

    type: ClassVar[str] = "summary_chunk"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostSummaryEvent(Event):
    """The summary is there. Hooks may change `message` before it is remembered."""

    type: ClassVar[str] = "post_summary"

    iteration: int = 0
    max_iterations: int = 0
    message: Msg = field(default_factory=lambda: Msg.assistant(()))
    usage: ChatUsage | None = None
    finish_reason: FinishReason | None = None
    interrupted: bool = False
    model_name: str = ""
    queued: float = 0.0
    messages: History = field(default=(), compare=False, repr=False)
    """Read-only: what the model was asked with, system message and hints included."""
    options: Options = field(default=None, compare=False, repr=False)
    """Read-only: the options it was asked with."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory, without this message."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent(Event):
    """The run has changed what is remembered already: messages replaced (by their ids) and removed (ids).

    `added` is what a run that failed has remembered, if no event has told of it before. What memory has refused of the
    input, which `PreCallEvent` had told of, is `removed`.
    """

    type: ClassVar[str] = "memory"

    replaced: tuple[Msg, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[Msg, ...] = ()

    def __post_init__(self) -> None:
        for id in self.removed:
            check_encodable(id, "MemoryEvent.removed")


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostCallEvent(Event):
    """The last event of every run that does not fail; `message` is what `call()` gives.

    A message that a hook changes replaces its original in memory, by id. `usage` is that of the whole run.
    """

    type: ClassVar[str] = "post_call"

    message: Msg = field(default_factory=lambda: Msg.assistant(()))
    usage: ChatUsage | None = None
    input: History = field(default=(), compare=False, repr=False)
    """Read-only: what the call was given, as hooks left it: the `input` of its PreCallEvent."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and known only when hooks see the event: the memory, with all that the run has added."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreObserveEvent(Event):
    """The agent is about to remember what others said (`agent.observe`). Hooks may change `input`, also to nothing.

    It is in no run's stream: it has no `run_id`, and only hooks that name it see it.
    """

    type: ClassVar[str] = "pre_observe"

    input: tuple[Msg, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostObserveEvent(Event):
    """The agent has remembered `input`, messages of others. Observed only; in no run's stream, as PreObserveEvent."""

    type: ClassVar[str] = "post_observe"

    input: tuple[Msg, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent(Event):
    """An attempt failed and another follows after `delay` seconds. `discarded`: what it had shown is void.

    `model_name` is who is asked then, if it is another model.
    """

    type: ClassVar[str] = "retry"

    stage: Literal["model", "tool"] = "model"
    tool_use_id: str | None = None
    attempt: int = 1
    delay: float = 0.0
    error_type: str = ""
    error_text: str = ""
    discarded: bool = False
    model_name: str = ""

    def __post_init__(self) -> None:
        _make_encodable(self, "error_type", "error_text", "model_name")


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent(Event):
    """The last event of a run that failed; the same error follows on `on_error`. Observed only."""

    type: ClassVar[str] = "error"

    error_type: str = ""
    error_text: str = ""
    error: Error = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _make_encodable(self, "error_type", "error_text")

    @classmethod
    def of(cls, error: Exception, *, source: EventSource = NOWHERE) -> ErrorEvent:
        """The event of this error."""
        return cls(source=source, error_type=type(error).__name__, error_text=str(error), error=error)


def _make_encodable(event: Event, *names: str) -> None:
    """Replace half characters: the text of an error may be a server's."""
    for name in names:
        text: str = getattr(event, name)
        if not text.isascii():
            object.__setattr__(event, name, encodable(text))
