"""`StreamOptions`: which kinds of events a stream shows, and chunks as increments or accumulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.event.event import Event
from agentscope_rx.event.kinds import ChunkEvent, ErrorEvent, PostCallEvent


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What to show of a run. The last event (PostCallEvent, ErrorEvent) is always shown.

    `kinds`: only events of these classes (subclasses included); None is all. `incremental=False`: chunks carry their
    whole block so far, in `snapshot`, instead of the new piece in `delta`.
    """

    kinds: Sequence[type[Event]] | type[Event] | None = None
    incremental: bool = True

    def __post_init__(self) -> None:
        if self.kinds is None:
            return
        # one class alone is what is meant by itself
        kinds = (self.kinds,) if isinstance(self.kinds, type) else tuple(self.kinds)
        object.__setattr__(self, "kinds", kinds)
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"StreamOptions.kinds takes classes of events, not {kind!r}.")

    def shown(self, event: Event) -> Event | None:
        """The event as this stream shows it, or None if it does not."""
        if self.kinds is not None and not isinstance(event, (*self._classes(), PostCallEvent, ErrorEvent)):
            return None
        if not self.incremental and isinstance(event, ChunkEvent):
            return replace(event, snapshot=event.accumulated, delta=None)
        return event

    def _classes(self) -> tuple[type[Event], ...]:
        return cast("tuple[type[Event], ...]", self.kinds)
