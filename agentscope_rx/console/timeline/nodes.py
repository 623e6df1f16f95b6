"""Lanes that are being made: mutable, and frozen into `Lane`s when a timeline is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agentscope_rx.console.timeline.values import (
    NO_USAGE,
    Chunks,
    Lane,
    LaneKind,
    LaneState,
    Mark,
    MarkKind,
    Wait,
    WaitKind,
)
from agentscope_rx.events import ActingChunkEvent, PostActingEvent, PreActingEvent
from agentscope_rx.messages import ChatUsage, ToolResultBlock, ToolResultKind

MAX_MARKS = 500
"""The most marks, and the most waits, that a lane keeps."""
MAX_CHUNKS = 64
"""The most groups of chunks that a lane keeps; more are merged in pairs. A usual picture has room for about 50."""
BETWEEN_RUNS = ("approval", "result", "caller")

Interval = tuple[float, float]


class Covered:
    """The time that intervals cover together. It keeps them merged, so its size is that of the gaps between them."""

    __slots__ = ("_intervals", "_limit")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self._intervals = list(intervals)
        self._limit = 4096

    def add(self, begin: float, end: float) -> None:
        """Cover this interval, too."""
        self._intervals.append((begin, end))
        if len(self._intervals) > self._limit:
            self._intervals = list(self._merged())
            self._limit = 2 * len(self._intervals) + 4096

    def seconds(self, others: Iterable[Interval] = ()) -> float:
        """The time covered by these, and by others."""
        return sum(end - begin for begin, end in self._merged(others))

    def __iter__(self) -> Iterator[Interval]:
        return self._merged()

    def _merged(self, others: Iterable[Interval] = ()) -> Iterator[Interval]:
        last: Interval | None = None
        for begin, end in sorted((*self._intervals, *others)):
            if last is None:
                last = (begin, end)
            elif begin <= last[1]:
                last = (last[0], max(last[1], end))
            else:
                yield last
                last = (begin, end)
        if last is not None:
            yield last


@dataclass(slots=True, eq=False)
class Node:
    """A lane that is being made."""

    kind: LaneKind
    name: str
    id: str
    begin: float
    parent: Node | None = None
    end: float | None = None
    state: LaneState = "open"
    text: str = ""
    outcome: str = ""
    error: str = ""
    usage: ChatUsage = NO_USAGE
    cost: float = 0.0
    retries: int = 0
    waits: list[Wait] = field(default_factory=list[Wait])
    marks: list[Mark] = field(default_factory=list[Mark])
    chunks: list[Chunks] = field(default_factory=list[Chunks])
    lanes: list[Node] = field(default_factory=list["Node"])
    omitted: int = 0
    number: int = -1
    """The iteration of a round."""
    nests: bool = False
    """True if a run is inside: its steps count, not the call."""

    def wait(self, kind: WaitKind, begin: float, end: float, text: str = "") -> None:
        """Add a wait, if it took any time."""
        if end > begin and len(self.waits) < MAX_MARKS:
            self.waits.append(Wait(kind, begin, end, text))

    def mark(self, kind: MarkKind, at: float, text: str = "") -> None:
        """Add a mark."""
        if len(self.marks) < MAX_MARKS:
            self.marks.append(Mark(kind, at, text))

    def chunk(self, at: float) -> None:
        """Add a chunk."""
        self.chunks.append(Chunks(at, at))
        if len(self.chunks) > MAX_CHUNKS:
            pairs = zip(self.chunks[::2], [*self.chunks[1::2], None], strict=False)
            self.chunks = [a if b is None else Chunks(a.begin, b.end, a.count + b.count) for a, b in pairs]

    def close(self, at: float, state: LaneState) -> None:
        """End the lane, unless it has ended; waits end with it."""
        if self.end is None:
            self.end = at = max(at, self.begin)
            self.state = state
            self.waits = [each for each in (clipped(wait, self.begin, at) for wait in self.waits) if each is not None]

    def frozen(self, began: float, last: float, *, priced: bool) -> Lane:
        """The lane as a value. `last` is the time of the last event of its run."""
        last = max(self.begin, last if self.end is None else self.end)
        waits = [each for each in (clipped(wait, self.begin, last) for wait in self.waits) if each is not None]
        inside = [(each.begin, each.end) for each in waits if each.kind not in BETWEEN_RUNS]
        return Lane(
            kind=self.kind,
            name=self.name,
            id=self.id,
            begin=_rounded(self.begin - began),
            end=None if self.end is None else _rounded(self.end - began),
            last=_rounded(last - began),
            state=self.state,
            text=self.text,
            outcome=self.outcome,
            error=self.error,
            usage=self.usage,
            cost=self.cost if priced else None,
            attempts=self.retries + 1,
            waits=tuple(
                Wait(each.kind, _rounded(each.begin - began), _rounded(each.end - began), each.text) for each in waits
            ),
            waited=_rounded(Covered(inside).seconds()),
            marks=tuple(Mark(each.kind, _rounded(each.at - began), each.text) for each in self.marks),
            chunks=tuple(Chunks(_rounded(c.begin - began), _rounded(c.end - began), c.count) for c in self.chunks),
            lanes=tuple(each.frozen(began, last, priced=priced) for each in self.lanes),
            omitted=self.omitted,
        )


@dataclass(slots=True, eq=False)
class RunNode(Node):
    """The lane of a run, or of work in the background, with what is open in it."""

    path: tuple[str, ...] = ()
    last: float = 0.0
    """The time of its last event, those of runs inside included."""
    depth: int = 0
    agent: str = ""
    counted: bool = True
    """False for a lost run that another one goes on from: its usage is that of the other one."""
    round: Node | None = None
    model: Node | None = None
    """The model call in progress."""
    calls: dict[str, Node] = field(default_factory=dict[str, Node])
    """By id: the tool calls of which the result is not stored yet."""
    jobs: dict[str, RunNode] = field(default_factory=dict[str, "RunNode"])
    """By the id of the call that began it: work in the background."""
    hubs: dict[str, Node] = field(default_factory=dict[str, Node])
    inside: dict[tuple[str, ...], RunNode] = field(default_factory=dict[tuple[str, ...], "RunNode"])
    """By path: the runs inside that have not ended."""
    left: WaitKind = "caller"
    """What its pending calls wait for."""
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The names of its pending calls, those of sub-agents included, by their ids."""
    omits: bool = False
    """True if the lane itself is left out."""

    def frozen(self, began: float, last: float, *, priced: bool) -> Lane:
        return Node.frozen(self, began, max(self.last, self.begin), priced=priced)


def clipped(wait: Wait, begin: float, end: float) -> Wait | None:
    """The wait, as far as it lies in this time; None if it does not. A wait between runs stays."""
    if wait.kind in BETWEEN_RUNS:
        return wait
    first, last = max(wait.begin, begin), min(wait.end, end)
    if last <= first:
        return None
    return wait if (first, last) == (wait.begin, wait.end) else Wait(wait.kind, first, last, wait.text)


def _rounded(seconds: float) -> float:
    """In microseconds: the times of events are not more exact."""
    return round(seconds, 6)


def is_of_job(run: RunNode, event: PreActingEvent | ActingChunkEvent | PostActingEvent) -> bool:
    """True for an event of work in the background itself, which is no call inside."""
    return run.kind == "job" and event.tool_use.id == run.path[-2]


def state_of(result: ToolResultBlock) -> LaneState:
    """How the call has ended that has this result."""
    if result.kind is None:
        return "done"
    if result.kind is ToolResultKind.INTERRUPTED:
        return "interrupted"
    return "waiting" if result.kind.waits else "failed"
