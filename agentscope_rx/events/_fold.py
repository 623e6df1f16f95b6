"""`fold`: the state of a run from its events. Post events are authoritative, chunks are a preview.

    fold(events)            the state after all of them; of a prefix: the state at that moment
    RunFold()               the same, event by event: add(event), then state

    fold([*lost, *resumed])  a run that another process has resumed: what the lost one had not saved is dropped

In a stream with events of sub-agents the outermost run counts. The events of a sub-agent's run alone give its outcome.

The law: for a recorded run, `fold(events).message` is the result of `call()`, and `fold(events).history` holds the
messages that the run has added to memory. For a prefix, `history` holds the messages that its events report: each is in
memory when its event is emitted, and the input of a `PreCallEvent` right after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from reactivex import abc

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events._partial import PartialMessage
from agentscope_rx.events.base import Event
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.events.kinds import (
    ContextEvent,
    ErrorEvent,
    InputEvent,
    MemoryEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    ResumedRun,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.events.knowledge_event import RetrievalEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.blocks import ToolUseBlock
from agentscope_rx.messages.msg import ChatUsage, GenerateReason, Msg, MsgRole
from agentscope_rx.plan.values import Plan, Todo

_NOT_REMEMBERED = (GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED)
"""Replies that memory does not hold: they repeat open calls, with placeholders for their results."""

_USING = (PostReasoningEvent, PostSummaryEvent, ContextEvent, RetrievalEvent)
"""The events with the tokens of a model call."""

_NOTHING = ChatUsage()


@dataclass(frozen=True, slots=True)
class Folded:
    """The state of a run after some of its events; made by `fold` and `RunFold`.

    `message` is its reply, None if it failed or has not ended. `history` holds the messages that it added to memory,
    `partial` the message that the model is writing. After all events it is the outcome of the run.
    """

    message: Msg | None
    history: tuple[Msg, ...]
    open_calls: tuple[ToolUseBlock, ...] = ()
    """The calls without a result, in call order: those of an earlier run first."""
    usage: ChatUsage = _NOTHING
    """The tokens of the answers so far, sub-agents included."""
    partial: Msg | None = None
    """The message that the model is writing, from chunks: a preview. None at other times."""
    error: ErrorEvent | None = None
    """The event of the error, if the run has failed."""
    run_id: str = ""
    plan: Plan | None = None
    """The plan after the run's last change; None if it changed none, or finished it."""
    todos: tuple[Todo, ...] = ()
    """The todo list after the run's last change."""


class RunFold:
    """The state of a live run, event by event. An event costs O(1), `state` the length of the run's history.

    The run is that of the first event. If an event of a parent run follows, as in a stream that you joined during a
    sub-agent's run, the fold begins again with the parent.
    """

    __slots__ = (
        "_before_input",
        "_closed",
        "_depth",
        "_earlier",
        "_error",
        "_given",
        "_history",
        "_partial",
        "_plan",
        "_reply",
        "_run_id",
        "_todos",
        "_usage",
    )

    def __init__(self) -> None:
        self._depth: int | None = None
        self._run_id = ""
        self._reset()

    def _reset(self) -> None:
        self._history: list[Msg] = []
        self._given: set[str] = set()
        """The ids of messages of others, whose calls are not this run's."""
        self._earlier: dict[str, ToolUseBlock] = {}
        """By id: the calls that an earlier run has left open."""
        self._before_input: set[str] = set()
        self._closed = 0
        self._usage = _NOTHING
        self._partial: PartialMessage | None = None
        self._reply: Msg | None = None
        self._error: ErrorEvent | None = None
        self._plan: Plan | None = None
        self._todos: tuple[Todo, ...] = ()

    def add(self, event: Event) -> None:
        """Account for the next event; `InvalidInputError` if it is none."""
        try:
            outer = self._depth is None or event.depth < self._depth
            if outer:
                self._depth, self._run_id = event.depth, event.run_id
        except AttributeError:
            raise InvalidInputError(f"A fold takes events, not {event!r:.80}.") from None
        if outer:
            self._reset()
        if event.run_id != self._run_id and isinstance(event, PreCallEvent) and event.resumes is not None:
            self._resume(event.resumes, event)
        if event.run_id == self._run_id:
            step = _step_of(type(event))
            if step is not None:
                step(self, event)
        elif isinstance(event, _USING) and self._run_id in event.path:
            self._add_usage(event.usage)

    @property
    def state(self) -> Folded:
        """The state now."""
        return Folded(
            self._reply,
            tuple(self._history),
            self._open_calls(),
            self._usage,
            None if self._partial is None else self._partial.message(),
            self._error,
            self._run_id,
            self._plan,
            self._todos,
        )

    def _open_calls(self) -> tuple[ToolUseBlock, ...]:
        calls = dict(self._earlier)
        for message in self._history:
            if message.role is MsgRole.ASSISTANT and message.id not in self._given:
                calls.update((call.id, call) for call in message.tool_calls)
            for result in message.tool_results:
                calls.pop(result.id, None)
        return tuple(calls.values())

    def __repr__(self) -> str:
        outcome = "no event yet" if self._depth is None else f"run {self._run_id}, {len(self._history)} messages"
        end = ", failed" if self._error is not None else ", ended" if self._reply is not None else ""
        return f"<RunFold {outcome}{end}>"

    def _resume(self, lost: ResumedRun, event: PreCallEvent) -> None:
        """The run goes on as another one, without what was not saved."""
        if lost.run_id != self._run_id:
            return
        self._run_id, self._partial, self._error = event.run_id, None, None
        ids = [message.id for message in self._history]
        del self._history[ids.index(lost.last) + 1 if lost.last in ids else 0 :]

    # --- the steps ------------------------------------------------------------------------------------------------

    def _pre_call(self, event: PreCallEvent) -> None:
        self._earlier = {call.id: call for call in (*event.lost, *event.pending)}
        # lost calls, and calls that the input passes by, are closed before the input
        self._before_input = {call.id for call in (*event.lost, *(event.pending if event.passes_by else ()))}
        self._take(event.input)

    def _input(self, event: InputEvent) -> None:
        self._take(event.input)

    def _take(self, messages: Iterable[Msg]) -> None:
        """Messages of others, in the order in which they are remembered."""
        for message in messages:
            self._history.append(message)
            self._given.add(message.id)

    def _pre_reasoning(self, event: PreReasoningEvent) -> None:
        self._partial = None

    def _chunk(self, event: ChunkEvent) -> None:
        if self._partial is None or self._partial.id != event.message_id:
            self._partial = PartialMessage(event)
        self._partial.add(event)

    def _retry(self, event: RetryEvent) -> None:
        if event.discarded and event.stage == "model":
            self._partial = None

    def _post_reasoning(self, event: PostReasoningEvent) -> None:
        self._answered(event)
        self._history.extend(event.goto_messages or ())

    def _answered(self, event: PostReasoningEvent | PostSummaryEvent) -> None:
        self._partial = None
        self._add_usage(event.usage)
        self._history.append(event.message)

    def _post_acting(self, event: PostActingEvent) -> None:
        if event.tool_use.id in self._before_input:
            self._history.insert(self._closed, event.message)
            self._closed += 1
        else:
            self._history.append(event.message)

    def _memory(self, event: MemoryEvent) -> None:
        new = {message.id: message for message in event.replaced}
        removed = set(event.removed)
        self._history = [new.get(message.id, message) for message in self._history if message.id not in removed]
        for message in event.replaced:
            # an approval may have changed the arguments of a call that an earlier run has left
            self._earlier.update((call.id, call) for call in message.tool_calls if call.id in self._earlier)
        for message in event.added:
            self._put(message)

    def _compacted(self, event: ContextEvent) -> None:
        # the MemoryEvent behind it has the changes
        self._add_usage(event.usage)

    def _retrieved(self, event: RetrievalEvent) -> None:
        self._add_usage(event.usage)

    def _planned(self, event: PlanEvent) -> None:
        if event.change == "todos":
            self._todos = event.todos
        elif event.change not in ("mode_on", "mode_off"):
            self._plan = None if event.change == "finished" else event.plan

    def _post_call(self, event: PostCallEvent) -> None:
        self._partial = None
        self._reply = event.message
        if event.usage is not None:
            self._usage = event.usage
        self._put(event.message)

    def _failed(self, event: ErrorEvent) -> None:
        self._partial = None
        self._error = event

    def _put(self, message: Msg) -> None:
        if message.generate_reason in _NOT_REMEMBERED:
            return
        for index in range(len(self._history) - 1, -1, -1):
            if self._history[index].id == message.id:
                self._history[index] = message
                return
        self._history.append(message)

    def _add_usage(self, usage: ChatUsage | None) -> None:
        if usage is not None:
            self._usage: ChatUsage = self._usage + usage


_STEPS: dict[type[Event], Callable[[RunFold, Any], None]] = {
    PreCallEvent: RunFold._pre_call,
    InputEvent: RunFold._input,
    PreReasoningEvent: RunFold._pre_reasoning,
    ReasoningChunkEvent: RunFold._chunk,
    SummaryChunkEvent: RunFold._chunk,
    RetryEvent: RunFold._retry,
    PostReasoningEvent: RunFold._post_reasoning,
    PostSummaryEvent: RunFold._answered,
    PostActingEvent: RunFold._post_acting,
    MemoryEvent: RunFold._memory,
    ContextEvent: RunFold._compacted,
    RetrievalEvent: RunFold._retrieved,
    PlanEvent: RunFold._planned,
    PostCallEvent: RunFold._post_call,
    ErrorEvent: RunFold._failed,
}
"""What an event of the run changes, by its class; a kind that is not here changes nothing."""


@cache
def _step_of(kind: type[Event]) -> Callable[[RunFold, Any], None] | None:
    """The step of this class, or of the class that it extends."""
    return next((step for each in kind.__mro__ if (step := _STEPS.get(each)) is not None), None)


def fold(events: Iterable[Event]) -> Folded:
    """Compute the state of a run from its events: all of them, or those up to some moment.

    `InvalidInputError` for anything but events.
    """
    if isinstance(events, abc.ObservableBase):
        raise InvalidInputError(
            "fold takes the events themselves, not a stream of them. Collect them first, as in "
            "fold([event async for event in stream]), or add each to a RunFold()."
        )
    if not isinstance(events, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"fold takes a list of events, not {events!r:.80}.")
    run = RunFold()
    for event in events:
        run.add(event)
    return run.state
