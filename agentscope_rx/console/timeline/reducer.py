"""`TimelineFold`: recorded events to a `Timeline`, event by event. Pure: it reads no clock and no file.

    pre_reasoning  chunk          post_reasoning  pre_acting a, b   last chunk b   last chunk a   post_acting a, b
    |-- round 1 ----------------------------------------------------------------------------------------------...
    |-- model -----first chunk----|               |-- tool a -------------------------------------|
                                                  |-- tool b --------------------|

An event costs O(1). Memory grows with the lanes, not with the events; lanes beyond `max_lanes` are counted only. The
log may begin or end anywhere, and may hold the runs of several agents in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from reactivex import abc

from agentscope_rx.agent import Price
from agentscope_rx.console.timeline.nodes import Node, RunNode, is_of_job, state_of
from agentscope_rx.console.timeline.run_tree import KEPT_RUNS, SENSIBLE, Clocks, RunTree, name_of, run_around
from agentscope_rx.console.timeline.tally import Tally
from agentscope_rx.console.timeline.values import LaneState, Timeline, WaitKind
from agentscope_rx.console.wording import (
    arguments,
    citation_line,
    counted,
    hub_line,
    input_line,
    one_line,
    plan_line,
    retrieval_line,
    shortened,
)
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    InputEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    RetrievalEvent,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.messages import ChatUsage, GenerateReason, ToolResultBlock, ToolUseBlock

MAX_LANES = 20_000
MAX_TEXT = 200
"""The characters of a text in a lane."""

_WAITS_FOR: Mapping[GenerateReason, WaitKind] = {
    GenerateReason.APPROVAL_REQUIRED: "approval",
    GenerateReason.TOOL_SUSPENDED: "result",
    GenerateReason.REASONING_STOP_REQUESTED: "caller",
}


class TimelineFold:
    """Makes the timeline of events, event by event: `add(event)`, then `timeline`.

    `prices` by model name add costs. `run` selects the run of this id, with those inside; the beginning of an id is
    enough. `runs` are the ids that it has seen.
    """

    def __init__(
        self, *, prices: Mapping[str, Price] | None = None, run: str | None = None, max_lanes: int = MAX_LANES
    ) -> None:
        for model, price in (prices or {}).items():
            if not isinstance(price, Price):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"prices[{model!r}] must be Price(input=..., output=...), not {price!r:.60}.")
        self._run = run
        self._tree = RunTree(max_lanes)
        self._clocks = Clocks()
        self._waiting: dict[tuple[str, str], RunNode] = {}
        """By agent and call: the run that has left it pending."""
        self._tally = Tally(prices)
        self.events: int = 0
        """How many events were added, of the run that is selected."""
        self._jobs: dict[str, RunNode] = {}
        """By id: work in the background and the runs in it, which may go on in the stream of a later run."""
        self.runs: dict[str, str] = {}
        """The ids of the runs that were seen, the first thousand, with the names of their agents."""

    def add(self, event: Event) -> None:
        """Account for the next event; `InvalidInputError` if it is none."""
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A timeline takes events, not {event!r:.80}.")
        path = event.path or (event.run_id,)
        if len(self.runs) < KEPT_RUNS:
            self.runs.setdefault(event.run_id, event.agent)
        if self._run is not None and not any(each.startswith(self._run) for each in path[::2]):
            return
        self.events += 1
        at = self._clocks.time(path[0], event.timestamp)
        step = _step_of(type(event))
        if not event.run_id:
            if not isinstance(event, HubEvent):
                # of `observe`, which belongs to no run
                return
            path = ("", event.hub)
        elif self._jobs:
            path = self._in_job(path)
        run = self._tree.run_of(event, path, at)
        if self._jobs and run.parent is not None and run.parent.kind == "job":
            self._jobs.setdefault(event.run_id, run)
        if step is not None:
            step(self, run, event, at)
        around: Node | None = run
        while around is not None:
            if isinstance(around, RunNode):
                around.last = max(around.last, at)
            around = around.parent

    @property
    def timeline(self) -> Timeline:
        """The timeline of the events so far. It costs O(lanes)."""
        tops = sorted(self._tree.outermost, key=lambda run: run.begin)
        began = tops[0].begin if tops else 0.0
        priced = self._tally.prices is not None
        return Timeline(
            began=began,
            lanes=tuple(run.frozen(began, run.last, priced=priced) for run in tops),
            totals=self._tally.totals(tops, began),
            events=self.events,
            clock_jumps=self._clocks.jumps,
            omitted=self._tree.omitted,
        )

    @property
    def ended(self) -> bool:
        """True if there were runs, and all outermost ones have ended."""
        runs = [run for run in self._tree.outermost if run.kind == "run"]
        return bool(runs) and all(run.end is not None for run in runs)

    def __repr__(self) -> str:
        return f"<TimelineFold {self.events} events, {self._tree.lanes} lanes>"

    def _step_in(self, run: RunNode, iteration: int, node: Node) -> Node:
        """Add a lane to its round, which begins with it if it is another one than before."""
        if run.round is None or run.round.number != iteration:
            if run.round is not None:
                run.round.close(node.begin, "done")
            run.round = Node("round", str(iteration + 1), "", node.begin, run, number=iteration)
            self._tree.attach(run.round, run)
        node.parent = run.round
        self._tree.attach(node, run.round)
        return node

    # --- runs -------------------------------------------------------------------------------------------------------

    def _pre_call(self, run: RunNode, event: PreCallEvent, at: float) -> None:
        left = (self._waiting.pop((event.agent, call.id), None) for call in event.pending)
        earlier = next((each for each in left if each is not None), None)
        pending = {call.id: call.name for call in event.pending} if earlier is None else earlier.pending
        if event.input:
            run.text = one_line(shortened(event.input[-1].text, 2 * MAX_TEXT), MAX_TEXT)
        elif event.answers:
            said = (f"{each.type}: {pending.get(each.call_id, each.call_id)}" for each in event.answers)
            run.text = one_line(", ".join(said), MAX_TEXT)
        if earlier is not None and earlier.end is not None and run.parent is None:
            run.wait(earlier.left, min(earlier.end, at), at, one_line(", ".join(dict.fromkeys(pending.values()))))
            self._tally.between += max(0.0, at - earlier.end)
        if event.resumes is not None:
            lost = self._tree.find((event.resumes.run_id,))
            run.text = run.text or f"goes on from the lost run {name_of(event.resumes.run_id)}"
            if lost is not None and lost.counted and lost is not run:
                self._end_run(lost, lost.last, "lost")
                lost.state, lost.counted = "lost", False
                run.usage = run.usage + lost.usage

    def _post_call(self, run: RunNode, event: PostCallEvent, at: float) -> None:
        if event.usage is not None:
            run.usage = event.usage
        reason = event.message.generate_reason
        run.outcome = reason.value
        pending = event.message.pending_calls
        if pending and run.parent is None:
            run.left = _WAITS_FOR.get(reason, "caller")
            run.pending = {call.id: call.name for call in pending}
            for call in event.message.tool_calls:
                # those of sub-agents, and the calls that run these
                self._waiting[event.agent, call.id] = run
            while len(self._waiting) > KEPT_RUNS:
                del self._waiting[next(iter(self._waiting))]
        state: LaneState = "interrupted" if reason is GenerateReason.INTERRUPTED else "done"
        self._end_run(run, at, "waiting" if pending else state)

    def _failed(self, run: RunNode, event: ErrorEvent, at: float) -> None:
        run.error = _error(event.error_type, event.error_text)
        run.mark("error", at, run.error)
        if run.model is not None:
            run.model.error = run.error
            self._end_model(run, at, "failed")
        self._end_run(run, at, "failed")
        # an error may follow the reply, if saving has failed
        run.state = "failed"

    def _end_run(self, run: RunNode, at: float, state: LaneState) -> None:
        """End a run and all that is open in it, but not its work in the background."""
        if run.end is not None:
            return
        inner: LaneState = "lost" if state == "lost" else "interrupted"
        for each in tuple(run.inside.values()):
            if each.kind == "run":
                self._end_run(each, at, inner)
        self._end_model(run, at, inner)
        for call in run.calls.values():
            self._end_step(call, at, inner)
        run.calls.clear()
        for each in (run.round, *run.hubs.values()):
            if each is not None:
                each.close(at, "done")
        run.close(at, state)
        if run.parent is not None:
            run_around(run.parent).inside.pop(run.path, None)
            if run.omits:
                self._tree.forget(run)
        else:
            self._tally.ended(run)

    # --- model calls ------------------------------------------------------------------------------------------------

    def _pre_reasoning(self, run: RunNode, event: PreReasoningEvent, at: float) -> None:
        # one without an end was refused, and is made again
        self._end_model(run, at, "failed")
        run.model = Node("model", name_of(event.model_name), "", at)
        run.model.text = "summary" if isinstance(event, PreSummaryEvent) else ""
        self._step_in(run, event.iteration, run.model)

    def _chunk(self, run: RunNode, event: ReasoningChunkEvent | SummaryChunkEvent, at: float) -> None:
        model = run.model
        if model is None:
            model = run.model = self._step_in(run, event.iteration, Node("model", "", "", at))
        if event.delta is not None or event.snapshot is not None:
            if not model.chunks:
                model.mark("first_chunk", at)
            model.chunk(at)

    def _post_reasoning(self, run: RunNode, event: PostReasoningEvent | PostSummaryEvent, at: float) -> None:
        model = run.model
        if model is None:
            model = run.model = self._step_in(run, event.iteration, Node("model", "", "", at))
        model.name = name_of(event.model_name) or model.name
        model.outcome = "" if event.finish_reason is None else event.finish_reason.value
        if event.queued > 0:
            first = next((mark.at for mark in model.marks), at)
            model.wait("queue", model.begin, min(model.begin + event.queued, first))
        self._use(model, event.usage, event.model_name)
        self._end_model(run, at, "interrupted" if event.interrupted else "done")

    def _end_model(self, run: RunNode, at: float, state: LaneState) -> None:
        if run.model is not None:
            self._end_step(run.model, at, state)
            run.model = None

    def _use(self, node: Node, usage: ChatUsage | None, model_name: str) -> None:
        """Add what a model call has used to its lane, and to those around it."""
        if usage is None:
            return
        cost = self._tally.price(model_name, usage)
        around: Node | None = node
        while around is not None:
            around.usage = around.usage + usage
            around.cost += cost
            around = around.parent

    def _context(self, run: RunNode, event: ContextEvent, at: float) -> None:
        # hooks compact between two stages, so it began with the end of what was before
        node = Node(
            "compaction", name_of(event.step), "", min(run.last, at), run, error=one_line(event.error, MAX_TEXT)
        )
        node.text = f"{event.tokens_before:,} -> {event.tokens_after:,} tokens"
        node.outcome = event.cause
        self._tree.attach(node, run)
        self._use(node, event.usage, event.model_name)
        self._end_step(node, at, "failed" if event.error else "done")

    def _retrieved(self, run: RunNode, event: RetrievalEvent, at: float) -> None:
        call = run.calls.get(event.call_id) if event.call_id else None
        if call is not None:
            call.mark("retrieval", at, shortened(retrieval_line(event), MAX_TEXT))
            self._use(call, event.usage, event.model_name)
            return
        error = one_line(event.error_text, MAX_TEXT)
        node = Node("retrieval", name_of(", ".join(event.bases)), "", min(run.last, at), run, error=error)
        node.text = counted(len(event.passages), "passage")
        self._tree.attach(node, run)
        self._use(node, event.usage, event.model_name)
        self._end_step(node, at, "failed" if error else "done")

    def _cited(self, run: RunNode, event: CitationEvent, at: float) -> None:
        run.mark("citation", at, shortened(citation_line(event), MAX_TEXT))

    # --- tool calls -------------------------------------------------------------------------------------------------

    def _pre_acting(self, run: RunNode, event: PreActingEvent, at: float) -> None:
        if is_of_job(run, event):
            return
        again = run.calls.pop(event.tool_use.id, None)
        if again is not None:
            self._end_step(again, at, "interrupted")
        self._begin_call(run, event, event.tool_use, at)

    def _begin_call(
        self, run: RunNode, event: PreActingEvent | ActingChunkEvent | PostActingEvent, call: ToolUseBlock, at: float
    ) -> Node:
        node = Node("tool", name_of(call.name), name_of(call.id), at, text=shortened(arguments(call), MAX_TEXT))
        run.calls[call.id] = self._step_in(run, event.iteration, node)
        return node

    def _acting_chunk(self, run: RunNode, event: ActingChunkEvent, at: float) -> None:
        if is_of_job(run, event):
            return
        call = run.calls.get(event.tool_use.id)
        if call is None:
            call = self._begin_call(run, event, event.tool_use, at)
        if event.is_last:
            self._end_call(call, event.chunk, event.queued, at)
        else:
            call.chunk(at)

    def _post_acting(self, run: RunNode, event: PostActingEvent, at: float) -> None:
        if is_of_job(run, event):
            return
        # one that was not run, such as a rejected call, has no beginning
        call = run.calls.get(event.tool_use.id) or self._begin_call(run, event, event.tool_use, at)
        del run.calls[event.tool_use.id]
        results = event.message.tool_results
        if results:
            self._end_call(call, results[0], event.queued, at)
        else:
            self._end_step(call, at, "done")

    def _end_call(self, call: Node, result: ToolResultBlock, queued: float | None, at: float) -> None:
        if call.end is None and queued:
            call.wait("queue", call.begin, min(call.begin + queued, at))
        state = state_of(result)
        call.outcome = "" if result.kind is None else result.kind.value
        said = shortened(result.text.removeprefix("Error: "), 2 * MAX_TEXT)
        call.error = one_line(said, MAX_TEXT) if state == "failed" else ""
        self._end_step(call, at, state)
        # hooks may have made another result of it
        call.state = state

    def _end_step(self, node: Node, at: float, state: LaneState) -> None:
        if node.end is None:
            node.close(at, state)
            self._tally.step(node)

    # --- the others -------------------------------------------------------------------------------------------------

    def _retry(self, run: RunNode, event: RetryEvent, at: float) -> None:
        node = run.calls.get(event.tool_use_id or "") if event.stage == "tool" else run.model
        node = run if node is None else node
        then = f", then {name_of(event.model_name)}" if event.model_name else ""
        text = f"{_error(event.error_type, event.error_text)}{then}"
        node.retries += 1
        self._tally.retries += 1
        node.mark("retry", at, text)
        if 0 < event.delay < SENSIBLE:
            node.wait("retry", at, at + event.delay, text)

    def _background(self, run: RunNode, event: BackgroundEvent, at: float) -> None:
        job = self._job_of(run, event, at)
        if event.state in ("started", "promoted"):
            return
        job.outcome = event.state
        if event.result is not None and event.result.is_error:
            job.error = one_line(shortened(event.result.text, 2 * MAX_TEXT), MAX_TEXT)
        states: Mapping[str, LaneState] = {"completed": "done", "failed": "failed", "in_doubt": "lost"}
        if job.end is None:
            self._end_run(job, at, states.get(event.state, "interrupted"))
            self._tally.step(job)

    def _job_of(self, run: RunNode, event: BackgroundEvent, at: float) -> RunNode:
        """The lane of work in the background, which may have begun in another run."""
        job = run if run.path[-1:] == (event.job,) else self._jobs.get(event.job)
        path = (*run.path, event.tool_use.id, event.job)
        job = job or self._tree.find(path)
        if job is None:
            call = run.calls.get(event.tool_use.id)
            job = RunNode("job", "", "", at, run, path=path, last=at, agent=event.agent)
            self._tree.add(job)
            run.jobs[event.tool_use.id] = job
            if call is not None:
                self._go_on_as(job, run, call)
        job.kind, job.name, job.id = "job", name_of(event.tool_use.name), name_of(event.job)
        job.text = job.text or shortened(arguments(event.tool_use), MAX_TEXT)
        self._jobs[event.job] = job
        if len(self._jobs) > KEPT_RUNS:
            del self._jobs[next(iter(self._jobs))]
        return job

    def _go_on_as(self, job: RunNode, run: RunNode, call: Node) -> None:
        """A call goes on as work in the background, which counts in its place, and which runs inside now belong to."""
        job.begin, job.nests, call.nests = call.begin, call.nests, True
        job.usage, job.cost, call.usage, call.cost = call.usage, call.cost, ChatUsage(), 0.0
        job.lanes = [each for each in call.lanes if each.kind == "run"]
        call.lanes = [each for each in call.lanes if each.kind != "run"]
        for path, inner in tuple(run.inside.items()):
            if inner.parent is call:
                inner.parent = job
                job.inside[path] = run.inside.pop(path)
                self._jobs[inner.path[-1]] = inner

    def _in_job(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The path with the run that began a job in place of the one in whose stream the job goes on."""
        for place in range(len(path) - 1, 1, -1):
            job = self._jobs.get(path[place])
            if job is not None:
                return (*job.path, *path[place + 1 :])
        return path

    def _input(self, run: RunNode, event: InputEvent, at: float) -> None:
        for message in event.input:
            run.mark("input", at, input_line(message))

    def _planned(self, run: RunNode, event: PlanEvent, at: float) -> None:
        run.mark("plan", at, shortened(plan_line(event), MAX_TEXT))

    def _hub(self, run: RunNode, event: HubEvent, at: float) -> None:
        hub: Node | None = run if run.kind == "hub" else run.hubs.get(event.hub)
        if hub is None:
            hub = run.hubs[event.hub] = Node("hub", "", "", at, run)
            self._tree.attach(hub, run)
        hub.name = name_of(event.hub)
        hub.end, hub.state = at, "done"
        hub.mark("message", at, shortened(hub_line(event), MAX_TEXT))


def timeline_of(
    events: Iterable[Event], *, prices: Mapping[str, Price] | None = None, run: str | None = None
) -> Timeline:
    """The timeline of recorded events: those of a whole log, or up to some moment. See `TimelineFold`.

        print_timeline(timeline_of(events))

    `InvalidInputError` for anything but events.
    """
    if isinstance(events, abc.ObservableBase):
        raise InvalidInputError(
            "timeline_of takes the events themselves, not a stream of them. Collect them first, as in "
            "timeline_of([event async for event in stream]), or add each to a TimelineFold()."
        )
    if not isinstance(events, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"timeline_of takes a list of events, not {events!r:.80}.")
    made = TimelineFold(prices=prices, run=run)
    for event in events:
        made.add(event)
    return made.timeline


def _error(kind: str, text: str) -> str:
    said = one_line(shortened(text, 2 * MAX_TEXT), MAX_TEXT)
    return f"{name_of(kind)}: {said}" if kind and said else said or name_of(kind)


_STEPS: dict[type[Event], Callable[[TimelineFold, RunNode, Any, float], None]] = {
    PreCallEvent: TimelineFold._pre_call,
    InputEvent: TimelineFold._input,
    PreReasoningEvent: TimelineFold._pre_reasoning,
    ReasoningChunkEvent: TimelineFold._chunk,
    SummaryChunkEvent: TimelineFold._chunk,
    PostReasoningEvent: TimelineFold._post_reasoning,
    PostSummaryEvent: TimelineFold._post_reasoning,
    PreActingEvent: TimelineFold._pre_acting,
    ActingChunkEvent: TimelineFold._acting_chunk,
    PostActingEvent: TimelineFold._post_acting,
    RetryEvent: TimelineFold._retry,
    ContextEvent: TimelineFold._context,
    RetrievalEvent: TimelineFold._retrieved,
    CitationEvent: TimelineFold._cited,
    BackgroundEvent: TimelineFold._background,
    HubEvent: TimelineFold._hub,
    PlanEvent: TimelineFold._planned,
    PostCallEvent: TimelineFold._post_call,
    ErrorEvent: TimelineFold._failed,
}
"""What an event changes, by its class; a kind that is not here changes nothing but the end of what is open."""


@cache
def _step_of(kind: type[Event]) -> Callable[[TimelineFold, RunNode, Any, float], None] | None:
    """The step of this class, or of the class that it extends."""
    return next((step for each in kind.__mro__ if (step := _STEPS.get(each)) is not None), None)
