"""`HistoryHook`: the requests of a member with the part of the conversation that its `history` filter selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, PreReasoningEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import Msg
from agentscope_rx.pipeline.handoff.handoff import Handoff
from agentscope_rx.pipeline.handoff.state import STATE

FIRST = -1_000_000
"""The priority: other hooks see the messages that are sent."""


class HistoryHook(Hook):
    """Filters what the member sees of the messages before it took over."""

    kinds: tuple[type[Event], ...] | None = (PreReasoningEvent,)
    priority = FIRST

    def __init__(self, member: Handoff) -> None:
        self._member = member

    def on_event(self, event: Event) -> Event | None:
        """The request with the messages that the filter has left."""
        if not isinstance(event, PreReasoningEvent):
            return None
        state, messages = STATE.get(event.source), event.messages
        since = next((at for at, each in enumerate(messages) if each.id == state.since), None) if state.since else None
        if since is None:
            return None
        return replace(event, messages=(*self._before(messages[: since + 1]), *messages[since + 1 :]))

    def _before(self, messages: Sequence[Msg]) -> tuple[Msg, ...]:
        assert self._member.history is not None
        found = self._member.history(messages)
        if isinstance(found, Sequence) and all(isinstance(each, Msg) for each in found):  # pyright: ignore[reportUnnecessaryIsInstance]
            return tuple(found)
        raise ConfigurationError(
            f"The history filter of {self._member.name!r} must return a list of messages, not {found!r:.60}."
        )
