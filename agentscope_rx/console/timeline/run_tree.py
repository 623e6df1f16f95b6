"""`RunTree`: which lane an event belongs to, by its path. `Clocks`: which moment, where clocks were set back."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentscope_rx.console.timeline.nodes import Node, RunNode
from agentscope_rx.console.wording import one_line
from agentscope_rx.events import Event

KEPT_RUNS = 1000
"""How many ended outermost runs may still get events, such as the error of a failed save."""
SENSIBLE = 1e13
"""Times beyond this many seconds are no times."""
MAX_NAME = 100
_MAX_NESTING = 50


def name_of(text: str) -> str:
    """A name or id on one line, bounded."""
    return one_line(text, MAX_NAME)


def run_around(node: Node) -> RunNode:
    """The run of a lane."""
    while not isinstance(node, RunNode):
        assert node.parent is not None
        node = node.parent
    return node


class Clocks:
    """The times of events. In one outermost run they never go back: where the clock was set back, the rest is shifted.

    For example:

        recorded    10  11  12   5   6   7
        time        10  11  12  12  13  14
    """

    def __init__(self) -> None:
        self.jumps: int = 0
        """How often a clock was set back."""
        self._runs: dict[str, tuple[float, float]] = {}
        """By run: the last time, and by how much it is shifted."""

    def time(self, run_id: str, timestamp: float) -> float:
        """The time of the next event of this run."""
        last, shift = self._runs.pop(run_id, (-math.inf, 0.0))
        at = timestamp + shift
        if not -SENSIBLE < at < SENSIBLE:
            at = last if math.isfinite(last) else 0.0
        elif at < last:
            shift += last - at
            at = last
            self.jumps += 1
        if len(self._runs) >= KEPT_RUNS:
            del self._runs[next(iter(self._runs))]
        self._runs[run_id] = (at, shift)
        return at


class RunTree:
    """The lanes of runs. Those beyond `max_lanes` are counted only, by the lane around them."""

    def __init__(self, max_lanes: int) -> None:
        self.lanes: int = 0
        self.omitted: int = 0
        """The outermost runs that were left out."""
        self.outermost: list[RunNode] = []
        self._max_lanes = max_lanes
        self._families: dict[str, dict[tuple[str, ...], RunNode]] = {}
        """By the id of the outermost run: its lane and those of the runs inside, by their paths."""

    def run_of(self, event: Event, path: tuple[str, ...], at: float) -> RunNode:
        """The lane of the event's run. A run of which the log does not have the beginning begins here."""
        run = self.find(path)
        if run is None:
            kind = "run" if event.run_id else "hub"
            run = RunNode(kind, name_of(event.agent), name_of(event.run_id), at, path=path, last=at, agent=event.agent)
            run.parent = self._around(path)
            self.add(run)
        return run

    def find(self, path: tuple[str, ...]) -> RunNode | None:
        """The lane of this path."""
        return self._families.get(path[0], {}).get(path)

    def add(self, run: RunNode) -> None:
        """Add the lane of a run, in its parent."""
        family = self._families.get(run.path[0])
        if family is None:
            if len(self._families) >= KEPT_RUNS:
                self._forget_an_ended_run()
            family = self._families[run.path[0]] = {}
        family[run.path] = run
        if run.parent is not None:
            outer = run_around(run.parent)
            run.depth = outer.depth + 1
            outer.inside[run.path] = run
        self.attach(run, run.parent)

    def attach(self, node: Node, parent: Node | None) -> None:
        """Show the lane in this one; None for an outermost run."""
        self.lanes += 1
        if self.lanes > self._max_lanes:
            if isinstance(node, RunNode):
                node.omits = True
            if parent is None:
                self.omitted += 1
            else:
                parent.omitted += 1
        elif parent is not None:
            parent.lanes.append(node)
        elif isinstance(node, RunNode):
            self.outermost.append(node)

    def forget(self, run: RunNode) -> None:
        """Forget a run inside another one that has ended, and has no lane."""
        self._families.get(run.path[0], {}).pop(run.path, None)

    def _around(self, path: tuple[str, ...]) -> Node | None:
        """The lane around a run: the job or the call that runs it, else the next run around it."""
        family: Mapping[tuple[str, ...], RunNode] = self._families.get(path[0], {})
        for length in range(min(len(path) - 1, 2 * _MAX_NESTING), 0, -1):
            outer = family.get(path[:length])
            if outer is not None and outer.depth < _MAX_NESTING:
                around = outer.jobs.get(path[length]) or outer.calls.get(path[length]) or outer
                around.nests = True
                return around
        return None

    def _forget_an_ended_run(self) -> None:
        for run_id, family in self._families.items():
            outermost = next(iter(family.values()), None)
            if outermost is None or outermost.end is not None:
                del self._families[run_id]
                return
