"""`fold`: the outcome of a run from its events. Post events are authoritative, chunks are a preview.

In a stream with events of sub-agents the outermost run counts. The events of a sub-agent's run alone give its outcome.

The law: for a recorded run, `fold(events).message` is the result of `call()`, and `fold(events).history` holds the
messages that the run has added to memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentscope_rx.events.base import Event
from agentscope_rx.events.kinds import (
    MemoryEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreCallEvent,
)
from agentscope_rx.messages.msg import GenerateReason, Msg

_NOT_REMEMBERED = (GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED)
"""Replies that memory does not hold: they repeat open calls, with placeholders for their results."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The outcome of a run: its reply, None if it failed or has not ended, and the messages that it added to memory."""

    message: Msg | None
    history: tuple[Msg, ...]


def fold(events: Iterable[Event]) -> Folded:
    """Compute a run's reply, and the messages it added to memory, from its events."""
    history: list[Msg] = []
    closed_before_input: set[str] = set()
    closed = 0
    reply: Msg | None = None
    for event in _outermost(events):
        if isinstance(event, PreCallEvent):
            history.extend(event.input)
            # lost calls, and calls that the input passes by, are closed before the input
            closed_before_input = {call.id for call in (*event.lost, *(event.pending if event.passes_by else ()))}
        elif isinstance(event, PostReasoningEvent):
            history.append(event.message)
            history.extend(event.goto_messages or ())
        elif isinstance(event, PostActingEvent):
            if event.tool_use.id in closed_before_input:
                history.insert(closed, event.message)
                closed += 1
            else:
                history.append(event.message)
        elif isinstance(event, PostSummaryEvent):
            history.append(event.message)
        elif isinstance(event, MemoryEvent):
            new = {message.id: message for message in event.replaced}
            history = [new.get(message.id, message) for message in history if message.id not in event.removed]
            for message in event.added:
                _put(history, message)
        elif isinstance(event, PostCallEvent):
            reply = event.message
            _put(history, reply)
    return Folded(reply, tuple(history))


def _outermost(events: Iterable[Event]) -> Iterable[Event]:
    every = tuple(events)
    if not every:
        return every
    run_id = min(every, key=lambda event: event.depth).run_id
    return (event for event in every if event.run_id == run_id)


def _put(history: list[Msg], message: Msg) -> None:
    if message.generate_reason in _NOT_REMEMBERED:
        return
    for index in range(len(history) - 1, -1, -1):
        if history[index].id == message.id:
            history[index] = message
            return
    history.append(message)
