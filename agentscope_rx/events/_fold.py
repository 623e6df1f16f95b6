"""`fold`: what the events of a run amount to. Post events are authoritative, chunks are a preview.

Of a stream with sub-agents' events the outermost run counts; the events of a sub-agent's run alone give its outcome.

The law: for a recorded run, `fold(events).message` is what `call()` gives, and `fold(events).history` is what the run
added to memory.
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

_ONLY_SAID = (GenerateReason.TOOL_SUSPENDED, GenerateReason.APPROVAL_REQUIRED)
"""Replies that are not remembered: they repeat open calls, with placeholders for their results."""


@dataclass(frozen=True, slots=True)
class Folded:
    """The outcome of a run: the reply (None if it failed or has not ended) and what it added to the history."""

    message: Msg | None
    history: tuple[Msg, ...]


def fold(events: Iterable[Event]) -> Folded:
    """The outcome that the events of one run amount to."""
    history: list[Msg] = []
    passed_by: set[str] = set()
    closed_before = 0
    reply: Msg | None = None
    for event in _outermost(events):
        if isinstance(event, PreCallEvent):
            history.extend(event.input)
            # what is lost, and what is passed by, is closed before the input
            passed_by = {call.id for call in (*event.lost, *(event.pending if event.passes_by else ()))}
        elif isinstance(event, PostReasoningEvent):
            history.append(event.message)
            history.extend(event.goto_messages or ())
        elif isinstance(event, PostActingEvent):
            if event.tool_use.id in passed_by:
                history.insert(closed_before, event.message)
                closed_before += 1
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
    if message.generate_reason in _ONLY_SAID:
        return
    for index in range(len(history) - 1, -1, -1):
        if history[index].id == message.id:
            history[index] = message
            return
    history.append(message)
