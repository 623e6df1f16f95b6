"""What a subscriber of a flow has heard, with the times; and how a failing test shows it.

heard so far, from the subscription on:
     0 s  next       'a'
   2.5 s  next       'b'     <- here
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from agentscope_rx.events import Event

T = TypeVar("T")

SHOWN = 20
"""How many signals a message shows, the latest."""
WIDTH = 100


class Heard(NamedTuple):
    """One signal: seconds after the subscription, what it was, and the value or the error."""

    at: float
    signal: Literal["next", "error", "completed"]
    value: object = None

    def __str__(self) -> str:
        told = "" if self.signal == "completed" else f" {brief(self.value)}"
        return f"heard {self.signal}{told} at {self.at:g} s"


class Record(Generic[T]):
    """All that was heard of one subscription: `values`, in order, and `signals`, with their times."""

    __slots__ = ("signals", "values")

    def __init__(self) -> None:
        self.values: list[T] = []
        self.signals: list[Heard] = []

    @property
    def timeline(self) -> list[tuple[float, object]]:
        """(seconds, value) of each value."""
        return [(heard.at, heard.value) for heard in self.signals if heard.signal == "next"]

    def told(self, here: int | None = None) -> str:
        """The latest signals, one a line; `here` is the index of the one to point at."""
        if not self.signals:
            return "nothing was heard"
        first = max(0, len(self.signals) - SHOWN)
        lines = ["heard so far, from the subscription on:"]
        if first:
            lines.append(f"  ... {first} signals, then")
        for index, heard in enumerate(self.signals[first:], first):
            told = "" if heard.signal == "completed" else brief(heard.value)
            mark = "     <- here" if index == here else ""
            lines.append(f"{heard.at:8g} s  {heard.signal:<9}  {told}{mark}".rstrip())
        return "\n".join(lines)


def brief(value: object) -> str:
    """The value on part of a line; of an event, what it says and not where it was said."""
    if isinstance(value, Event):
        try:
            said = {k: v for k, v in value.to_dict().items() if k not in _PLACE}
            text = f"{type(value).__name__} {json.dumps(said, ensure_ascii=False)}"
        except Exception:
            text = repr(value)
    else:
        text = repr(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def several(values: Sequence[object]) -> str:
    """Values as the arguments of a call."""
    return ", ".join(brief(value) for value in values)


_PLACE = {"type", "run_id", "agent", "path", "timestamp", "iteration", "message_id"}
