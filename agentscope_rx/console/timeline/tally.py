"""`Tally`: the sums of a timeline, kept as steps end."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence

from agentscope_rx.agent import Price
from agentscope_rx.console.timeline.nodes import Covered, Interval, Node, RunNode
from agentscope_rx.console.timeline.values import NO_USAGE, Slow, Totals
from agentscope_rx.messages import ChatUsage

SLOWEST = 5


class Tally:
    """The sums of the steps that have ended; `totals` adds those that are open."""

    def __init__(self, prices: Mapping[str, Price] | None) -> None:
        self.prices = prices
        self.retries = 0
        self.between: float = 0.0
        self._cost = 0.0
        self._unpriced: dict[str, None] = {}
        self._models = self._tools = self._waiting = 0.0
        self._model_calls = self._tool_calls = self._failed_calls = 0
        self._steps = Covered()
        self._runs = Covered()
        self._usage = NO_USAGE
        """The usage of runs that have no lane."""
        self._slowest: list[tuple[float, int, Node]] = []
        self._number = 0

    def price(self, model: str, usage: ChatUsage) -> float:
        """The cost of a model call, which counts; 0 without a price."""
        price = None if self.prices is None else self.prices.get(model)
        if price is None:
            if self.prices is not None and len(self._unpriced) < 100:
                self._unpriced[model] = None
            return 0.0
        cost = price.of(usage)
        self._cost += cost
        return cost

    def step(self, node: Node) -> None:
        """A step has ended."""
        if node.kind == "model":
            self._model_calls += 1
        elif node.kind == "tool":
            self._tool_calls += 1
            self._failed_calls += node.state == "failed"
        models, tools, waiting, intervals = _parts(node)
        self._models += models
        self._tools += tools
        self._waiting += waiting
        for begin, end in intervals:
            self._steps.add(begin, end)
        if _is_leaf(node):
            self._number += 1
            entry = (_end(node) - node.begin, -self._number, node)
            if len(self._slowest) < SLOWEST:
                heapq.heappush(self._slowest, entry)
            else:
                heapq.heappushpop(self._slowest, entry)

    def ended(self, run: RunNode) -> None:
        """An outermost run has ended."""
        self._runs.add(run.begin, _end(run))
        if run.omits:
            self._usage = self._usage + run.usage

    def totals(self, tops: Sequence[RunNode], began: float) -> Totals:
        """All sums."""
        models, tools, waiting = self._models, self._tools, self._waiting
        model_calls, tool_calls = self._model_calls, self._tool_calls
        intervals: list[Interval] = []
        slowest = list(self._slowest)
        for number, node in enumerate(_open_steps(tops)):
            parts = _parts(node)
            models, tools, waiting = models + parts[0], tools + parts[1], waiting + parts[2]
            intervals += parts[3]
            model_calls += node.kind == "model"
            tool_calls += node.kind == "tool"
            if _is_leaf(node):
                slowest.append((_end(node) - node.begin, -self._number - number - 1, node))
        runs = [(run.begin, _end(run)) for run in tops if run.kind == "run" and run.end is None]
        covered = self._steps.seconds(intervals)
        # work in the background may go on behind the end of its run
        elapsed = self._runs.seconds([*runs, *intervals, *self._steps])
        return Totals(
            elapsed=round(elapsed, 6),
            models=round(models, 6),
            tools=round(tools, 6),
            waiting=round(waiting, 6),
            overlap=round(max(0.0, models + tools + waiting - covered), 6),
            other=round(max(0.0, elapsed - covered), 6),
            between=round(self.between, 6),
            model_calls=model_calls,
            tool_calls=tool_calls,
            failed_calls=self._failed_calls,
            retries=self.retries,
            usage=sum((run.usage for run in tops if run.counted), self._usage),
            cost=None if self.prices is None else self._cost,
            unpriced=tuple(self._unpriced),
            slowest=tuple(
                Slow(node.kind, node.name, node.id, round(node.begin - began, 6), round(seconds, 6))
                for seconds, _, node in sorted(slowest, key=lambda each: each[:2], reverse=True)[:SLOWEST]
                if seconds > 0
            ),
        )


def _is_leaf(node: Node) -> bool:
    return node.kind in ("model", "tool", "job", "compaction", "retrieval") and not node.nests


def _end(node: Node) -> float:
    """The end of a lane; so far, if it is open."""
    if node.end is not None:
        return node.end
    around: Node | None = node
    while around is not None and not isinstance(around, RunNode):
        around = around.parent
    return node.begin if around is None else max(around.last, node.begin)


def _parts(node: Node) -> tuple[float, float, float, list[Interval]]:
    """The seconds of a step: of models, of tools, of waiting, and when that was. With a run inside, waits only."""
    begin, end = node.begin, _end(node)
    waits = [(max(each.begin, begin), min(each.end, end)) for each in node.waits if each.end > begin]
    waits = [(first, last) for first, last in waits if last > first]
    waited = Covered(waits).seconds()
    if not _is_leaf(node):
        return 0.0, 0.0, waited, waits
    worked = end - begin - waited
    is_model = node.kind == "model" or (node.kind == "compaction" and node.usage != NO_USAGE)
    return (worked, 0.0, waited, [(begin, end)]) if is_model else (0.0, worked, waited, [(begin, end)])


def _open_steps(tops: Sequence[RunNode]) -> Iterator[Node]:
    stack: list[Node] = list(tops)
    while stack:
        node = stack.pop()
        if node.end is None and node.kind in ("model", "tool", "job"):
            yield node
        stack.extend(node.lanes)
