"""`StreamOptions`: the events that a stream shows: their classes, sub-agents, and deltas or accumulated content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events.base import Event
from agentscope_rx.events.chunk_event import ChunkEvent
from agentscope_rx.frozen_values import dataclass


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Selects the events that `stream` emits.

    - `kinds`: the event classes to emit, subclasses included; None for all. Include PostCallEvent for the reply. Errors
      are signalled in any case.
    - `incremental=False`: chunks hold the whole block so far in `snapshot`, instead of the new part in `delta`.
    - `nested`: True for events of sub-agents, too; a number is the greatest depth of sub-agents.
    """

    kinds: Sequence[type[Event]] | type[Event] | None = None
    incremental: bool = True
    nested: bool | int = True

    def __post_init__(self) -> None:
        if not isinstance(self.nested, int) or self.nested < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"StreamOptions.nested must be True, False or the greatest depth of sub-agents, not {self.nested!r}."
            )
        if self.kinds is None:
            return
        # a single class
        kinds = (self.kinds,) if isinstance(self.kinds, type) else tuple(self.kinds)
        object.__setattr__(self, "kinds", kinds)
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"StreamOptions.kinds takes classes of events, not {kind!r}.")

    def shown(self, event: Event) -> Event | None:
        """The event as this stream shows it, or None if it does not."""
        if self.kinds is not None and not isinstance(event, self._classes()):
            return None
        if not self.incremental and isinstance(event, ChunkEvent):
            return replace(event, snapshot=event.accumulated, delta=None)
        return event

    def shown_nested(self, event: Event, depth: int) -> Event | None:
        """The same for an event of a sub-agent, `depth` runs below the run of the stream."""
        if self.nested is not True and depth > self.nested:
            return None
        return self.shown(event)

    def _classes(self) -> tuple[type[Event], ...]:
        return cast("tuple[type[Event], ...]", self.kinds)
