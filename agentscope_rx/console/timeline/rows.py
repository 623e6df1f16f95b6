"""The rows of a timeline, as text and as a picture show them: a row for each lane, and the runs that share an axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentscope_rx.console.timeline.scale import short_seconds
from agentscope_rx.console.timeline.values import Lane, LaneState, Wait
from agentscope_rx.console.wording import counted
from agentscope_rx.frozen_values import dataclass

AT_ONCE = 0.02
"""The part of the time so far after which the next run still shares the axis, as the members of a hub do."""
IN_TURN = 8
"""The most runs in turn on one axis: more have too few columns each."""
SHOWN = 0.001
"""The least seconds of a wait that are worth words."""

_WAITS = {"approval_required": "approval", "tool_suspended": "a result"}
"""What a run or a call with this outcome waits for."""


class Cell(NamedTuple):
    """A piece of a line, with a style of `rich`."""

    text: str
    style: str = ""


Line = list[Cell]


STYLES = {
    "run": "dim",
    "round": "dim",
    "model": "blue",
    "tool": "cyan",
    "job": "magenta",
    "compaction": "green",
    "retrieval": "green",
}
ENDS: dict[LaneState, str] = {"failed": "bold red", "interrupted": "yellow", "waiting": "yellow", "lost": "red"}


# --- runs on one axis ---


def clusters(lanes: Sequence[Lane]) -> Iterator[list[Lane]]:
    """Lanes at the same time are together, and some that follow at once without a wait for an answer."""
    found: list[Lane] = []
    last = 0.0
    for lane in lanes:
        if found and lane.begin >= last:
            at_once = lane.begin - last <= AT_ONCE * (last - found[0].begin) and not left_waiting(lane)
            if at_once and len(found) < IN_TURN:
                found.append(lane)
                last = extent(lane)
                continue
            yield found
            found = []
        found.append(lane)
        last = max(last, extent(lane)) if len(found) > 1 else extent(lane)
    if found:
        yield found


def extent(lane: Lane) -> float:
    """The end of a lane with the work in the background that goes on behind it."""
    return max(each.last for each in lane.walk())


def left_waiting(lane: Lane) -> list[Wait]:
    """The waits for an answer before this run."""
    return [each for each in lane.waits if each.kind in ("approval", "result", "caller")]


def gap_words(lane: Lane, last: float) -> str:
    """What was between this run and the end of what came before."""
    waits = left_waiting(lane)
    if not waits:
        return f"{short_seconds(max(0.0, lane.begin - last))} later"
    what = {"approval": "approval", "result": "results"}.get(waits[0].kind, "the next call")
    return f"waited {short_seconds(waits[0].seconds)} for {what}: {waits[0].text}"


# --- rows ---


@dataclass(frozen=True, slots=True)
class Row:
    """A lane with its label in parts, and the notes on it."""

    lane: Lane
    gutter: str
    name: str
    detail: str
    notes: tuple[Cell, ...] = ()
    whole: bool = False
    """True if the detail is left out unless all of it has room."""

    @property
    def label(self) -> str:
        return f"{self.gutter}{self.name}{self.detail}"


def rows_of(
    lane: Lane, level: int, depth: int | None, several: bool, indent: str = "", number: str = ""
) -> Iterator[Row]:
    """The rows of a lane and of those inside. A round has a row only if its calls have none."""
    expanded = depth is None or level < depth
    if lane.kind != "round" or not expanded:
        yield _row(lane, f"{indent}{number}", several)
    if not expanded:
        return
    for position, inner in enumerate(lane.lanes):
        if lane.kind == "round":
            yield from rows_of(inner, level + 1, depth, False, indent, f"{lane.name:>2} " if position == 0 else "   ")
        elif inner.kind == "round":
            yield from rows_of(inner, level + 1, depth, False, f"{indent}{' ' * max(1, len(number))}")
        else:
            yield from rows_of(inner, level + 1, depth, False, f"{indent}{' ' * len(number)}", "   ")
    if lane.omitted:
        more = Lane(kind="round", name="", id="", begin=lane.begin, end=lane.end, last=lane.last, state=lane.state)
        yield Row(more, f"{indent}   ", f"... and {lane.omitted:,} more", "")


def _row(lane: Lane, gutter: str, several: bool) -> Row:
    name, detail = lane.name, ""
    match lane.kind:
        case "run":
            detail = f"  {lane.text}" if lane.text else ""
            name = f"{lane.name} {lane.id[:8]}" if several else lane.name
        case "round":
            calls = [each.name for each in lane.lanes if each.kind == "tool"]
            name = f"round {lane.name}"
            detail = f"  {', '.join(calls)}" if calls else ""
        case "model":
            name = lane.name or "model"
            name += " (summary)" if lane.text else ""
            if lane.first_chunk is not None and lane.first_chunk > 0:
                detail = f"  first chunk {short_seconds(lane.first_chunk)}"
        case "tool":
            detail = f"({lane.text})"
        case "job":
            name, detail = f"{lane.id} {lane.name}", f"({lane.text})"
        case "compaction":
            name, detail = f"compaction: {lane.name}", f"  {lane.text}"
        case "retrieval":
            name, detail = f"retrieval: {lane.name}", f"  {lane.text}"
        case "hub":
            said = sum(mark.kind == "message" for mark in lane.marks)
            name, detail = f"hub {lane.name}", f"  {counted(said, 'message')}"
    return Row(lane, gutter, name or "?", detail, tuple(_notes(lane)), lane.kind == "model")


def _notes(lane: Lane) -> Iterator[Cell]:
    queued = sum(wait.seconds for wait in lane.waits if wait.kind == "queue")
    if queued >= SHOWN:
        yield Cell(f"queued {short_seconds(queued)}", "yellow")
    retries = [mark for mark in lane.marks if mark.kind == "retry"]
    delays = [wait for wait in lane.waits if wait.kind == "retry"]
    for mark in retries[:3]:
        delay = next((f", waited {short_seconds(wait.seconds)}" for wait in delays if _of(wait, mark.at)), "")
        yield Cell(f"retry{delay}: {mark.text}", "yellow")
    if lane.attempts - 1 > 3:
        yield Cell(f"{lane.attempts - 4:,} more retries", "yellow")
    for mark in [mark for mark in lane.marks if mark.kind == "input"][:3]:
        yield Cell(f"input: {mark.text}", "yellow")
    if lane.state == "waiting":
        yield Cell(f"waits for {_WAITS.get(lane.outcome, 'the caller')}", ENDS[lane.state])
    elif lane.state not in ("done", "open"):
        why = (
            f" ({lane.outcome.replace('_', ' ')})" if lane.kind == "tool" and lane.outcome not in ("", "failed") else ""
        )
        text = lane.state if lane.outcome == lane.state else f"{lane.state}{why}"
        yield Cell(f"{text}: {lane.error}" if lane.error else text, ENDS[lane.state])
    elif lane.kind == "run" and lane.outcome not in ("", "model_stop"):
        yield Cell(lane.outcome.replace("_", " "), "yellow")


def _of(wait: Wait, at: float) -> bool:
    return abs(wait.begin - at) < 1e-5
