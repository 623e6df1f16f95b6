"""Records for tests: the signals of a flow with their times, as a failing test shows them, and dropped errors.

received so far, from the subscription on:
     0 s  next       'a'
   2.5 s  next       'b'     <- here
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Generic, Literal, NamedTuple, TypeVar

from agentscope_rx.events import Event
from agentscope_rx.reactive.kernel import dropped

T = TypeVar("T")

SHOWN = 20
"""How many of the latest signals a message shows."""
WIDTH = 100


class RecordedSignal(NamedTuple):
    """A signal: `at`, the seconds after the subscription; its kind, `signal`; and the value or the error."""

    at: float
    signal: Literal["next", "error", "completed"]
    value: object = None

    def __str__(self) -> str:
        value = "" if self.signal == "completed" else f" {brief(self.value)}"
        return f"received {self.signal}{value} at {self.at:g} s"


class Recording(Generic[T]):
    """The signals of one subscription: `values` in order, and `signals` with their times."""

    __slots__ = ("signals", "values")

    def __init__(self) -> None:
        self.values: list[T] = []
        self.signals: list[RecordedSignal] = []

    @property
    def timeline(self) -> list[tuple[float, object]]:
        """Each value with its time: `(seconds, value)`."""
        return [(signal.at, signal.value) for signal in self.signals if signal.signal == "next"]

    def as_text(self, marked: int | None = None) -> str:
        """The latest signals, one a line; `marked` is the index of the one to point at."""
        if not self.signals:
            return "nothing was received"
        first = max(0, len(self.signals) - SHOWN)
        lines = ["received so far, from the subscription on:"]
        if first:
            lines.append(f"  ... {first} signals, then")
        for index, (at, signal, value) in enumerate(self.signals[first:], first):
            text = "" if signal == "completed" else brief(value)
            mark = "     <- here" if index == marked else ""
            lines.append(f"{at:8g} s  {signal:<9}  {text}{mark}".rstrip())
        return "\n".join(lines)


def brief(value: object) -> str:
    """The value on part of a line; of an event its own fields, without run, agent and time."""
    if isinstance(value, Event):
        try:
            shown = {k: v for k, v in value.to_dict().items() if k not in _PLACE}
            text = f"{type(value).__name__} {json.dumps(shown, ensure_ascii=False)}"
        except Exception:
            text = repr(value)
    else:
        text = repr(value)
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def several(values: Sequence[object]) -> str:
    """Values as the arguments of a call."""
    return ", ".join(brief(value) for value in values)


_PLACE = {"v", "type", "run_id", "agent", "path", "timestamp", "iteration", "message_id"}


class DroppedErrors(list[BaseException]):
    """The dropped errors, in order. `where` names, for each, the part that dropped it."""

    def __init__(self) -> None:
        super().__init__()
        self.where: list[str] = []

    def as_lines(self) -> list[str]:
        """Each error with its place, for a message."""
        return [f"dropped in {where}: {error!r}" for error, where in zip(self, self.where, strict=False)]


@contextmanager
def collect_dropped() -> Generator[DroppedErrors]:
    """A context manager that collects the errors dropped inside the block; no other handler receives them.

    An error is dropped if it reached no subscriber.
    """
    errors = DroppedErrors()

    def note(error: BaseException, where: str) -> None:
        errors.append(error)
        errors.where.append(where)

    before = dropped._handler
    dropped.on_dropped(note)
    try:
        yield errors
    finally:
        dropped.on_dropped(before)
