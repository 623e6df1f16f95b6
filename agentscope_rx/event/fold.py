"""`fold`: what the events of a run amount to. Post events are authoritative, chunks are a preview.

The law: for a recorded run, `fold(events).message` is what `call()` gives, and `fold(events).history` is what the run
added to memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentscope_rx.event.event import Event
from agentscope_rx.event.kinds import (
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
)
from agentscope_rx.message.msg import Msg


@dataclass(frozen=True, slots=True)
class Folded:
    """The outcome of a run: the reply (None if it failed or has not ended) and what it added to the history."""

    message: Msg | None
    history: tuple[Msg, ...]


def fold(events: Iterable[Event]) -> Folded:
    """The outcome that the events of one run amount to."""
    history: list[Msg] = []
    own_calls: set[str] = set()
    closed_before = 0
    passed_by = False
    reply: Msg | None = None
    for event in events:
        if isinstance(event, PreCallEvent):
            history.extend(event.input)
            # results in the input answer calls of an earlier run; any other input passes them by
            passed_by = not any(message.tool_results for message in event.input)
        elif isinstance(event, PostReasoningEvent):
            history.append(event.message)
            own_calls.update(call.id for call in event.message.tool_calls)
            history.extend(event.goto_messages or ())
        elif isinstance(event, PreActingEvent):
            own_calls.add(event.tool_use.id)
        elif isinstance(event, PostActingEvent):
            if passed_by and event.tool_use.id not in own_calls:
                # left open by an earlier run and closed before the new input was remembered
                history.insert(closed_before, event.message)
                closed_before += 1
            else:
                history.append(event.message)
        elif isinstance(event, PostSummaryEvent):
            history.append(event.message)
        elif isinstance(event, PostCallEvent):
            reply = event.message
            _put(history, reply)
    return Folded(reply, tuple(history))


def _put(history: list[Msg], message: Msg) -> None:
    for index in range(len(history) - 1, -1, -1):
        if history[index].id == message.id:
            history[index] = message
            return
    history.append(message)
