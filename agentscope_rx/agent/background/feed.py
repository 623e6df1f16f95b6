"""`beside`: the items of jobs among the events of a run, while it is in progress.

    the run    --PreReasoning----------PostReasoning-----|
    a job      -----c1-------c2--end|                           c1, c2: chunks, under a path of their own
    result     --PreReasoning-c1-c2-B--PostReasoning-----|      B: `BackgroundEvent`

Each job is read at the pace of the run's subscriber, who slows it, and passes the hooks of the run that shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol, cast

from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.inbox import Inbox
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, Event, EventSource, RetryEvent
from agentscope_rx.events.background_event import JobState
from agentscope_rx.hooks import CompiledHooks
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.reactive import Flow, Scope, flat_map_iterable, transform_type
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.log_readers import LogFollower
from agentscope_rx.tools import ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry


class ShowingRun(Protocol):
    """The run that shows jobs."""

    source: EventSource
    hooks: CompiledHooks
    inbox: Inbox


def beside(jobs: Jobs, run: ShowingRun, events: Flow[Event]) -> Flow[Event]:
    """The events, and between them those of the jobs, until the events end.

    Signals: the events, those of jobs; the end of the events, or the error of a hook on those of a job.
    Cancels: the events. The jobs go on.
    """

    def connect(sink: Sink[Event], scope: Scope) -> None:
        merged = _Beside(jobs, run, sink, scope)
        sink.on_subscribe(merged)
        if not merged.disposed:
            jobs.attach(merged)
            attach(events, merged, scope)

    return Flow(connect)


class _Beside(OperatorSink):
    """One value at a time: what comes while another one is handed over waits for that."""

    __slots__ = ("_busy", "_done", "_jobs", "_queue", "_run", "_scope", "_shown", "_sink")

    def __init__(self, jobs: Jobs, run: ShowingRun, sink: Sink[Event], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._jobs = jobs
        self._run = run
        self._sink = sink
        self._scope = scope
        self._shown: dict[str, _Side] = {}
        self._queue: deque[Event] = deque()
        self._busy = False
        self._done = False

    @property
    def source(self) -> EventSource:
        return self._run.source

    @property
    def inbox(self) -> Inbox:
        return self._run.inbox

    def show(self, job: Job) -> None:
        side = self._shown[job.id] = _Side(self, job)
        attach(_feed(job, self._run, side), side, self._scope)

    def hide(self, job: Job) -> None:
        side = self._shown.pop(job.id, None)
        if side is not None:
            side.stop(job)

    def shown(self, job: Job) -> None:
        """All of the job has come: a run of many rounds must not keep what it has shown."""
        self.hide(job)
        self._jobs.shown(job)

    def on_next(self, event: Event) -> None:
        if self._busy:
            self._queue.append(event)
            return
        self._busy = True
        self._sink.on_next(event)
        self._busy = False
        if self._queue or self._done:
            self._drain()

    def _drain(self) -> None:
        while self._queue and not self.disposed:
            self._busy = True
            self._sink.on_next(self._queue.popleft())
            self._busy = False
        if self._done and not self.disposed:
            self._sink.on_completed()

    def side_failed(self, error: Exception) -> None:
        if not (self.disposed or self._done):
            self.dispose()
            self._sink.on_error(error)

    def on_error(self, error: Exception) -> None:
        self._leave()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._leave()
        if self._busy:
            self._done = True
        else:
            self._sink.on_completed()

    def dispose(self) -> None:
        if not self.disposed:
            super().dispose()
            self._jobs.detach(self)

    def _leave(self) -> None:
        self._upstream = None
        self._jobs.detach(self)


class _Side(OperatorSink):
    """The events of one job on their way to the run."""

    __slots__ = ("_job", "_parent", "follower", "view")

    def __init__(self, parent: _Beside, job: Job) -> None:
        self._upstream = None
        self.disposed = False
        self._parent = parent
        self._job = job
        self.follower: LogFollower[ToolEvent] | None = None
        self.view: _View | None = None

    def on_next(self, event: Event) -> None:
        if not self.disposed:
            self._parent.on_next(event)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.side_failed(error)

    def on_completed(self) -> None:
        self._upstream = None
        if not self.disposed:
            self._parent.shown(self._job)

    def stop(self, job: Job) -> None:
        follower, view = self.follower, self.view
        if follower is not None and view is not None:
            job.shown_to = max(job.shown_to, follower.position)
            job.held = view.held
        self.dispose()


def _feed(job: Job, run: ShowingRun, side: _Side) -> Flow[Event]:
    """The items that no run has shown, as events; last, when it has ended, the `BackgroundEvent` of that.

    Signals: the events; the error of a hook.
    Cancels: the reading.
    """

    def follow(sink: Sink[_Numbered], scope: Scope) -> None:
        start = max(min(job.held, default=job.shown_to), job.log.first)
        numbering = _Numbering(sink)
        follower = side.follower = numbering.follower = LogFollower(job.log, start, numbering, scope)
        sink.on_subscribe(follower)
        if not follower.disposed:
            job.log.join(follower)
            follower.begin()

    items: Flow[_Numbered] = Flow(follow)
    operator = run.hooks.chunks(ActingChunkEvent)
    # of the chunks in an operator none can be told from another: what it holds is not shown again
    notes = operator is not None and run.hooks.one_by_one(ActingChunkEvent)
    view = side.view = _View(job, run, notes)
    events: Flow[Event] = items.pipe(flat_map_iterable(view.shown))
    if operator is not None:
        events = events.pipe(transform_type(cast("type[Event]", ActingChunkEvent), operator, void=_voids))
    return run.hooks.watched(BackgroundEvent, events.pipe(flat_map_iterable(view.placed, view.end)))


_Numbered = tuple[int, ToolEvent]


class _Numbering(OperatorSink):
    """Gives each item its number. It completes where the job has failed: its error is its result."""

    __slots__ = ("_sink", "follower")

    def __init__(self, sink: Sink[_Numbered]) -> None:
        super().__init__()
        self._sink = sink
        self.follower: LogFollower[ToolEvent] | None = None

    def on_next(self, item: ToolEvent) -> None:
        assert self.follower is not None
        self._sink.on_next((self.follower.position - 1, item))

    def on_error(self, error: Exception) -> None:
        self._sink.on_completed()

    def on_completed(self) -> None:
        self._sink.on_completed()


def _voids(event: Event) -> bool:
    return isinstance(event, RetryEvent) and event.discarded


class _View:
    """The items of a job as events of the run that shows it. With `notes` it knows which ones are in a chunk hook."""

    __slots__ = ("_again", "_from", "_in_hook", "_job", "_source", "_values")

    def __init__(self, job: Job, run: ShowingRun, notes: bool) -> None:
        self._job = job
        self._source = run.source
        # an earlier run has shown all before, except those that were in its hooks when it ended
        self._from = job.shown_to
        self._again = frozenset(job.held)
        # a hook may replace the event: it is known by its source, of which each one has its own
        self._in_hook: deque[tuple[int, EventSource]] | None = deque() if notes else None
        # the foreground and earlier runs have shown some
        self._values = job.values

    @property
    def held(self) -> tuple[int, ...]:
        """The numbers of the items that are to be shown again: they have not come out of the chunk hooks."""
        return () if self._in_hook is None else tuple(number for number, _ in self._in_hook)

    def shown(self, numbered: _Numbered) -> Iterator[Event]:
        """The events of an item."""
        number, item = numbered
        job, call = self._job, self._job.call
        if number < self._from and number not in self._again:
            return
        if isinstance(item, ToolChunk):
            if number >= self._from:
                self._values.add(item)
            chunk = ToolResultBlock(call.id, call.name, item.output)
            yield ActingChunkEvent(source=self._source_of(number), tool_use=call, chunk=chunk)
        elif isinstance(item, ToolResultBlock):
            rest, source = self._values.rest(item), self._source_of(number)
            yield ActingChunkEvent(source=source, tool_use=call, chunk=rest, is_last=True, elapsed=job.elapsed)
        elif isinstance(item, ToolNested):
            yield cast("Event", item)
        elif isinstance(item, ToolNotice):
            yield cast("Event", item.event)
        elif isinstance(item, ToolRetry):
            self._values.restart()
            if item.discarded and self._in_hook is not None:
                self._in_hook.clear()
            yield RetryEvent(
                source=self._source,
                stage="tool",
                tool_use_id=call.id,
                attempt=item.number,
                delay=item.delay,
                error_type=type(item.error).__name__,
                error_text=str(item.error),
                discarded=item.discarded,
            )

    def _source_of(self, number: int) -> EventSource:
        if self._in_hook is None:
            return self._source
        source = replace(self._source)
        self._in_hook.append((number, source))
        return source

    def _came_out(self, event: Event) -> None:
        """The chunks up to this one have passed the hooks, or were dropped by them: they keep the order."""
        waiting = self._in_hook
        if waiting and isinstance(event, ActingChunkEvent):
            count = next((at for at, (_, source) in enumerate(waiting, 1) if source is event.source), 1)
            for _ in range(count):
                waiting.popleft()

    def end(self) -> Iterable[Event]:
        """The event of the end."""
        return told_now(self._job, self._source)

    def placed(self, event: Event) -> Iterator[Event]:
        """The event under the path of the job; an event of a run within it under that of this run."""
        job, source = self._job, self._source
        if isinstance(event, ToolNested):
            inner = cast("Event", event.event)
            before, path = job.source.path, inner.path
            if path[: len(before)] == before and before != source.path:
                placed = replace(inner.source, path=(*source.path, *path[len(before) :]))
                inner = replace(inner, source=placed)
            yield cast("Event", ToolNested(job.call, inner))
            return
        self._came_out(event)
        yield cast("Event", ToolNested(job.call, replace(event, source=job_source(job, source))))


def job_source(job: Job, source: EventSource) -> EventSource:
    """The source of the events of a job, in a run with this source."""
    return EventSource(job.id, source.agent, (*source.path, job.call.id, job.id), source.context, source.parts)


def told_now(job: Job, source: EventSource) -> tuple[Event, ...]:
    """The event that the job has ended, once."""
    if job.told:
        return ()
    job.told = True
    state = cast("JobState", job.state)
    event = BackgroundEvent(
        source=source, job=job.id, tool_use=job.call, state=state, result=job.result, elapsed=job.elapsed
    )
    return (event,)
