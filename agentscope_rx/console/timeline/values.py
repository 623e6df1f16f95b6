"""`Timeline`: the steps of recorded runs as lanes, each with its begin, end, waits, tokens and errors. Pure values.

    Timeline
      run Friday                           an outermost run
        round 1                            a model call, and the calls that it asked for
          model gpt-5-mini
          tool weather
          tool call_researcher
            run Researcher                 a sub-agent's run
        compaction summarize
        round 2 ...

Times are in seconds after the timeline's `began`. They are those of the recorded events, so a lane begins and ends when
its events were emitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, field
from typing import Literal

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ChatUsage

LaneKind = Literal["run", "round", "model", "tool", "job", "compaction", "retrieval", "hub"]
"""The kind of a lane. "job": work in the background; "retrieval": passages for a round."""

LaneState = Literal["open", "done", "failed", "interrupted", "waiting", "lost"]
"""How a lane has ended. "open": the log has no end of it; "waiting": a run or call that waits for approval or a result;
"lost": the process has ended, and another run goes on from there, or how far the work came is not known."""

WaitKind = Literal["queue", "retry", "approval", "result", "caller"]
"""The reason for a wait: a slot or a rate limit, the delay before another attempt, or, between runs, the approval or
the results of pending calls, or just the next call."""

MarkKind = Literal["first_chunk", "retry", "error", "input", "plan", "message", "retrieval", "citation"]
"""What happened at one moment of a lane. "message": something was said in a hub; "retrieval": a tool has searched."""

NO_USAGE = ChatUsage()


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of a lane. A run's wait between runs ends when the run begins."""

    kind: WaitKind
    begin: float
    end: float
    text: str = ""

    @property
    def seconds(self) -> float:
        """The seconds that it took."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Mark:
    """An event of a lane at one moment, such as a retry or an error."""

    kind: MarkKind
    at: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks that came from `begin` to `end`: one, or neighbours that are kept together."""

    begin: float
    end: float
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A step of a run. It lies within the lane around it, unless it is work in the background.

    `id` is that of the run, the call or the job. `end` is None if the log has none; `last` is then the time of the last
    event of its run. `usage` and `cost` of a run include its sub-agents; `cost` is None without prices. `omitted`
    counts the lanes inside that were left out because there were too many.
    """

    kind: LaneKind
    name: str
    id: str
    begin: float
    end: float | None
    last: float
    state: LaneState
    text: str = ""
    """The question of a run, the arguments of a call, the sizes of a compaction."""
    outcome: str = ""
    """Why a run or an answer has ended, or the kind of a tool's error."""
    error: str = ""
    usage: ChatUsage = NO_USAGE
    cost: float | None = None
    attempts: int = 1
    waits: tuple[Wait, ...] = ()
    waited: float = 0.0
    """The seconds of the waits inside the lane, counted once where they overlap."""
    marks: tuple[Mark, ...] = ()
    chunks: tuple[Chunks, ...] = ()
    """The chunks of a model's answer or of a tool's progress; of many, neighbours are kept together."""
    lanes: tuple[Lane, ...] = ()
    omitted: int = 0

    @property
    def seconds(self) -> float:
        """The seconds that it took, so far if it is open."""
        return self.last - self.begin

    @property
    def first_chunk(self) -> float | None:
        """The seconds until the first chunk of a model's answer; None if there was none."""
        return next((mark.at - self.begin for mark in self.marks if mark.kind == "first_chunk"), None)

    def to_dict(self) -> dict[str, object]:
        """The lane as plain JSON."""
        return {
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            "seconds": round(self.seconds, 6),
            "first_chunk": None if self.first_chunk is None else round(self.first_chunk, 6),
            "usage": asdict(self.usage),
            "waits": [asdict(each) for each in self.waits],
            "marks": [asdict(each) for each in self.marks],
            "chunks": [asdict(each) for each in self.chunks],
            "lanes": [each.to_dict() for each in self.lanes],
        }

    def walk(self) -> Iterator[Lane]:
        """This lane, and all inside, in their order."""
        stack: list[Lane] = [self]
        while stack:
            lane = stack.pop()
            yield lane
            stack.extend(reversed(lane.lanes))


_PLAIN_FIELDS = (
    "kind", "name", "id", "begin", "end", "last", "state", "text", "outcome", "error", "cost", "attempts", "waited",
    "omitted",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Slow:
    """One of the slowest steps: a model call, a tool call without runs inside, or background work."""

    kind: LaneKind
    name: str
    id: str
    begin: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all runs, in seconds.

        elapsed = models + tools + waiting - overlap + other

    `elapsed` is the time in which at least one run was in progress. `overlap` is the time in which several steps worked
    at once, `other` that of no step: hooks, memory, slow readers. A tool call that runs a sub-agent counts by the steps
    inside; one that goes on in the background counts as background work.
    """

    elapsed: float = 0.0
    models: float = 0.0
    tools: float = 0.0
    waiting: float = 0.0
    overlap: float = 0.0
    other: float = 0.0
    between: float = 0.0
    """The waits between runs: for approval, for results, for the caller."""
    model_calls: int = 0
    tool_calls: int = 0
    failed_calls: int = 0
    retries: int = 0
    usage: ChatUsage = NO_USAGE
    cost: float | None = None
    unpriced: tuple[str, ...] = ()
    """The models without a price, which `cost` leaves out."""
    slowest: tuple[Slow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Recorded runs: `lanes` are the outermost ones, by their beginning; `began` is in seconds since 1970.

    All times of lanes, waits, marks and chunks are in seconds after `began`.
    """

    began: float = 0.0
    lanes: tuple[Lane, ...] = ()
    totals: Totals = field(default_factory=Totals)
    events: int = 0
    clock_jumps: int = 0
    """How often the clock was set back; what follows is shifted, so that no time is counted twice."""
    omitted: int = 0
    """The outermost runs that were left out because there were too many."""

    @property
    def seconds(self) -> float:
        """From the first event to the last, with the time between runs."""
        return max((lane.last for lane in self.walk()), default=0.0)

    @property
    def ended(self) -> bool:
        """True if there are runs, and all have ended."""
        return bool(self.lanes) and all(lane.end is not None for lane in self.lanes if lane.kind == "run")

    def to_dict(self) -> dict[str, object]:
        """The timeline as plain JSON."""
        return {
            "began": self.began,
            "seconds": self.seconds,
            "ended": self.ended,
            "events": self.events,
            "clock_jumps": self.clock_jumps,
            "omitted": self.omitted,
            "totals": asdict(self.totals),
            "lanes": [lane.to_dict() for lane in self.lanes],
        }

    def walk(self) -> Iterator[Lane]:
        """All lanes, in their order."""
        for lane in self.lanes:
            yield from lane.walk()
