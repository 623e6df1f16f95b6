"""All kinds of events of a run, in their order.

    PreCall  ( Input* PreReasoning  ReasoningChunk*  PostReasoning  ( PreActing* ActingChunk*  PostActing* )? )*
             ( PreSummary  SummaryChunk*  PostSummary )?  Memory?  PostCall
    ( Context* Memory? )*  before PreReasoning and PreSummary, if hooks have made the context smaller; also behind the
                           chunks of a request that was refused as too long, and then Retry: it is made again
    Retrieval*             before PreReasoning and PreSummary, and before the last chunk of a tool that has searched
    Citation?              before PostCall, if the reply refers to what was retrieved
    ... ErrorEvent                                             last, instead of PostCall, if the run fails

Hooks may change Pre, Post and Input events. They may drop, delay, merge or rewrite chunks as they are shown. They only
observe ErrorEvent, RetryEvent, MemoryEvent, ContextEvent, BackgroundEvent, HubEvent, RetrievalEvent, CitationEvent, and
PlanEvent, which comes before the last chunk of the call that has changed the plan. An OutputChunk follows each
ReasoningChunk with a delta of a structured output, as hooks have left it. A hook's changes to fields marked read-only
have no effect. PreObserve and PostObserve belong to `agent.observe()`, not to a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, Literal, Self

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events.base import (
    NOWHERE,
    Error,
    Event,
    EventSource,
    History,
    Options,
    Schema,
    register,
)
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.partial_json import partial_value
from agentscope_rx.frozen_values import dataclass, replaced
from agentscope_rx.messages.approval import ApprovalAnswer
from agentscope_rx.messages.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.frozen import check_encodable, encodable
from agentscope_rx.messages.msg import ChatUsage, Msg
from agentscope_rx.models.response import FinishReason
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.plan.values import Plan, Todo


@dataclass(frozen=True, slots=True)
class ResumedRun:
    """A run that was lost with its process, and that another run continues from its last checkpoint.

    Everything that the lost run showed after the message `last` (None: since the beginning) is void, because no
    checkpoint has it: streamed text and whole messages. `iteration` is the round that follows.
    """

    run_id: str
    iteration: int = 0
    last: str | None = None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreCallEvent(Event):
    """A call begins. Hooks may change `input`, which is remembered next, and `system_message`, for this call only."""

    type: ClassVar[str] = "pre_call"

    input: tuple[Msg, ...] = ()
    answers: tuple[ApprovalAnswer, ...] = ()
    """The caller's answers to calls that wait for approval; hooks may change them, too."""
    system_message: Msg | None = None
    pending: tuple[ToolUseBlock, ...] = ()
    """Read-only: the calls that an earlier run has left pending."""
    passes_by: bool = False
    """Read-only, set after the hooks: True if the input neither answers nor runs the pending calls."""
    lost: tuple[ToolUseBlock, ...] = ()
    """Read-only, set after the hooks: open calls without a result in memory. They get error results now."""
    resumes: ResumedRun | None = None
    """Read-only: the lost run that this one goes on from, if there is one."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory before the call."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class InputEvent(Event):
    """Input to the run in progress (`enqueue`), before the next model call. Hooks may change `input`, or make it empty.

    `when` is the moment that was asked for: "next_round", or "idle" for input in place of the normal end.
    """

    type: ClassVar[str] = "input"

    iteration: int = 0
    input: tuple[Msg, ...] = ()
    when: Literal["next_round", "idle"] = "next_round"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreReasoningEvent(Event):
    """A model call begins, with `system_message`, then `messages`, then `hints`: all for this round only.

    `messages` are the whole history unless a hook replaces them. `options` are those of the agent unless a hook
    replaces them.
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
        return replaced(self, hints=(*self.hints, message))

    def append_system_content(self, text: str) -> Self:
        """A copy with this text added to the system message, in this round only."""
        return replaced(self, system_message=appended(self.system_message, text))


def appended(system_message: Msg | None, text: str) -> Msg:
    """The system message with one more block of text; a new one if there was none."""
    if system_message is None:
        return Msg.system(text)
    return system_message.replace(content=(*system_message.content, TextBlock(text)))


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningChunkEvent(ChunkEvent):
    """A part of the model's answer."""

    type: ClassVar[str] = "reasoning_chunk"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunkEvent(ChunkEvent):
    """A part of the structured output; it follows the ReasoningChunkEvent with the same delta, after that one's hooks.

    So a hook redacts it there, by the ReasoningChunkEvent. Only hooks that name this kind get it:
    `hook_operator(OutputChunkEvent, ops.sample(0.1))` shows a value ten times a second.
    """

    type: ClassVar[str] = "output_chunk"

    within: str | None = None
    """The field of the model's object that holds the value; None if the object is the value."""

    @property
    def value(self) -> object:
        """The value so far, as plain JSON, parsed when it is read; None while nothing of it can be read.

        It has unfinished parts: strings and objects as far as they have come. It is a preview without validation.
        """
        return partial_value(self.accumulated, self.within) if self.view or self.snapshot else None


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostReasoningEvent(Event):
    """The model has answered. Hooks may change `message` before it is stored, stop the run, or call the model again.

    `interrupted`: the answer was cut off; its open calls get results of kind `interrupted` next. `model_name` is the
    model that answered, `queued` the seconds that the request waited (see `RateLimitedModel`).
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
    """Read-only: the messages of the model call, with the system message and the hints."""
    options: Options = field(default=None, compare=False, repr=False)
    """Read-only: the options of the model call."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory, without this message."""

    def stop(self) -> Self:
        """A copy that ends the run after this message. Its calls stay pending: `call()` runs them."""
        return replaced(self, stop_requested=True)

    def goto_reasoning(self, messages: Msg | str | Sequence[Msg] = ()) -> Self:
        """A copy that asks the model again instead of acting or finishing. These messages are remembered before.

        If the message has tool calls, the messages must hold a result for each. Such a request may exceed `max_iters`,
        at most that many times. A stop wins over it.
        """
        added = _messages(messages)
        answered = {result.id for message in added for result in message.tool_results}
        missing = [call.id for call in self.message.tool_calls if call.id not in answered]
        if missing:
            raise InvalidInputError(f"goto_reasoning: no tool result for the open calls {missing}.")
        return replaced(self, goto_messages=added)


def _messages(messages: Msg | str | Sequence[Msg]) -> tuple[Msg, ...]:
    if isinstance(messages, str):
        return (Msg.user(messages),)
    return (messages,) if isinstance(messages, Msg) else tuple(messages)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreActingEvent(Event):
    """A tool call begins. Hooks may change the arguments (`tool_use.with_input`), not the call's id."""

    type: ClassVar[str] = "pre_acting"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    schema: Schema = field(default=None, compare=False, repr=False)
    """Read-only: the tool's schema for the model; None if there is no tool of this name."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and set only if hooks see this event: the memory at this moment, with the model's message."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ActingChunkEvent(Event):
    """Progress of a running tool. The last chunk of a call (`is_last`) holds its result, as soon as there is one."""

    type: ClassVar[str] = "acting_chunk"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    chunk: ToolResultBlock = field(default_factory=lambda: ToolResultBlock("", ""))
    is_last: bool = False
    queued: float | None = None
    """With the result: the seconds that the call waited before it began, or until its end if it never began."""
    elapsed: float | None = None
    """With the result: the seconds that the call ran; None if it never began."""

    @property
    def text(self) -> str:
        """The text of the chunk."""
        return self.chunk.text


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostActingEvent(Event):
    """A tool call has its result, in call order. Hooks may change `message` for memory, model and stream."""

    type: ClassVar[str] = "post_acting"

    iteration: int = 0
    tool_use: ToolUseBlock = field(default_factory=lambda: ToolUseBlock("", ""))
    message: Msg = field(default_factory=lambda: Msg.tool(()))
    stop_requested: bool = False
    queued: float | None = None
    """Read-only: the seconds that the call waited before it began, or until its end if it never began.

    It may wait for a slot of the round, for its tool's limits, or for calls that run alone. None if it was not run.
    """
    elapsed: float | None = None
    """Read-only: the seconds that the call ran, all attempts together; None if it never began."""
    schema: Schema = field(default=None, compare=False, repr=False)
    """Read-only: the tool's schema for the model; None if there is no tool of this name."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and set only if hooks see this event: the memory, without this message."""

    @property
    def result(self) -> ToolResultBlock:
        """The result in the message."""
        return self.message.tool_results[0]

    def with_result(self, result: ToolResultBlock) -> Self:
        """A copy with this result instead; it must keep the call's id."""
        return replaced(self, message=self.message.replace(content=result))

    def stop(self) -> Self:
        """A copy that ends the run once all calls of the round have their results; it cancels none."""
        return replaced(self, stop_requested=True)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreSummaryEvent(PreReasoningEvent):
    """`max_iters` or a usage limit is reached: the model is called for a summary, without tools."""

    type: ClassVar[str] = "pre_summary"

    max_iterations: int = 0


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryChunkEvent(ChunkEvent):
    """A part of the summary."""

    type: ClassVar[str] = "summary_chunk"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostSummaryEvent(Event):
    """The model has given the summary. Hooks may change `message` before it is remembered."""

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
    """Read-only: the messages of the model call, with the system message and the hints."""
    options: Options = field(default=None, compare=False, repr=False)
    """Read-only: the options of the model call."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only: the memory, without this message."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent(Event):
    """The run has changed messages in memory: `replaced` holds the new messages (same ids), `removed` the ids.

    `added` holds messages in memory that no other event reports. If a run fails before memory has the input
    of its `PreCallEvent`, that input is `removed`.
    """

    type: ClassVar[str] = "memory"

    replaced: tuple[Msg, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[Msg, ...] = ()

    def __post_init__(self) -> None:
        for id in self.removed:
            check_encodable(id, "MemoryEvent.removed")


PlanChange = Literal[
    "created", "replaced", "updated", "subtask_added", "subtask_revised", "subtask_deleted", "subtask_state",
    "subtask_finished", "finished", "recovered", "todos", "mode_on", "mode_off",
]  # fmt: skip
"""What a `PlanEvent` reports."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvent(Event):
    """A plan, a todo list or plan mode has changed. `plan` is the plan afterwards, or the one that has just finished.

    `name` is the part that has it ("plan", "todos", "plan_mode"), `subtask` the index of the changed subtask, `todos`
    the whole list. `text` is the approved plan that ended plan mode.
    """

    type: ClassVar[str] = "plan"

    name: str = "plan"
    change: PlanChange = "updated"
    plan: Plan | None = None
    subtask: int | None = None
    todos: tuple[Todo, ...] = ()
    text: str = ""


CompactionCause = Literal["tokens", "messages", "overflow", "tool", "manual"]
"""Why a step of a compaction was made: a limit of tokens or messages, an answer of the provider that the request is too
long, a tool call of the model, `agent.compact()`."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextEvent(Event):
    """A step of a compaction has made the context smaller. The MemoryEvent after it has the changes.

    The sizes are those of the messages that a request sends, before and after the step. `counted` is True if the
    provider or a tokenizer counted the tokens, False if they are estimated. `uncached` counts the tokens after the
    first change of the compaction, which a prompt cache lost; the last step has the total. A step with an `error`
    changed nothing. `usage` are the tokens of the step's model call, by `model_name` ('' is the agent's model): they
    count for the run and its limits, as one model call.
    """

    type: ClassVar[str] = "context"

    step: str = ""
    cause: CompactionCause = "tokens"
    tokens_before: int = 0
    tokens_after: int = 0
    messages_before: int = 0
    messages_after: int = 0
    uncached: int = 0
    counted: bool = False
    usage: ChatUsage | None = None
    model_name: str = ""
    error: str = ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostCallEvent(Event):
    """The last event of a run that does not fail; `message` is the result of `call()`.

    If a hook changes `message`, memory is updated, too. `usage` is the token usage of the whole run.
    """

    type: ClassVar[str] = "post_call"

    message: Msg = field(default_factory=lambda: Msg.assistant(()))
    usage: ChatUsage | None = None
    input: History = field(default=(), compare=False, repr=False)
    """Read-only: the input of the call, after the hooks on PreCallEvent."""
    history: History = field(default=(), compare=False, repr=False)
    """Read-only, and set only if hooks see this event: the memory, with all messages of the run."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PreObserveEvent(Event):
    """`agent.observe` is about to store messages of other agents. Hooks may change `input`, or make it empty.

    It belongs to no run: it has no `run_id`, and only hooks with this class in `kinds` receive it.
    """

    type: ClassVar[str] = "pre_observe"

    input: tuple[Msg, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PostObserveEvent(Event):
    """`agent.observe` has stored `input`. Hooks cannot change it; it belongs to no run."""

    type: ClassVar[str] = "post_observe"

    input: tuple[Msg, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEvent(Event):
    """An attempt failed, and another follows after `delay` seconds. If `discarded`, drop the chunks of the failed one.

    `model_name` names the model of the next attempt, if it is another one.
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
    """The last event of a failed run; the same error follows in `on_error`. Hooks cannot change it."""

    type: ClassVar[str] = "error"

    error_type: str = ""
    error_text: str = ""
    error: Error = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _make_encodable(self, "error_type", "error_text")

    @classmethod
    def of(cls, error: Exception, *, source: EventSource = NOWHERE) -> ErrorEvent:
        """The event for this error."""
        return cls(source=source, error_type=type(error).__name__, error_text=str(error), error=error)


def _make_encodable(event: Event, *names: str) -> None:
    """Replace lone surrogates: the text of an error may come from a server."""
    for name in names:
        text: str = getattr(event, name)
        if not text.isascii():
            object.__setattr__(event, name, encodable(text))
