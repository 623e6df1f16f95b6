"""`Jobs`: the background work of one conversation, between and across its runs.

    begin -> running --> ended --> given to a run (its inbox) --> in memory: forgotten but for its output
                          '------> kept until the next run begins, and saved with the conversation

A job is shown by one run at a time: by the one that has begun it, else by the first one in progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol

from agentscope_rx.agent.background.ends import ends
from agentscope_rx.agent.background.job import Job
from agentscope_rx.agent.background.policy import BackgroundPolicy
from agentscope_rx.agent.background.records import RECORDS, JobRecord, Records, dump_record, record_of
from agentscope_rx.errors import InvalidInputError, RunEndedError
from agentscope_rx.events import EventSource
from agentscope_rx.models.checks import check_one_of, check_seconds
from agentscope_rx.parts import PartStates
from agentscope_rx.reactive import Flow, concat, defer, just, then
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.tools import Tool

if TYPE_CHECKING:
    from agentscope_rx.agent.inbox import Inbox

KEPT_ENDED = 32
"""How many jobs are kept, with their output, when the model has their results."""

_log = logging.getLogger("agentscope_rx")


class Showing(Protocol):
    """A run in progress that shows jobs."""

    @property
    def source(self) -> EventSource: ...

    @property
    def inbox(self) -> Inbox: ...

    def show(self, job: Job) -> None:
        """Show the items of this job from now on."""
        ...

    def hide(self, job: Job) -> None:
        """Show them no longer."""
        ...


class Jobs:
    """The background jobs of one conversation: `agent.background()`. `stop` and the properties work on any thread.

        jobs = agent.background()
        jobs.stop()                                    # all, or those of these ids
        await jobs.wait(until="any", timeout=10)

    `stop` and `wait` without ids are also for jobs in the conversations of sub-agents.
    """

    __slots__ = (
        "__weakref__",
        "_all",
        "_given",
        "_parts",
        "_runs",
        "_shown_by",
        "_writing",
        "below",
        "inbox_of",
        "on_ended",
        "on_settled",
        "policy",
        "waiting",
    )

    def __init__(self, parts: PartStates) -> None:
        self._parts = parts
        # replaced, not changed: it is read on other threads
        self._all: dict[str, Job] = {}
        self._runs: tuple[Showing, ...] = ()
        self._shown_by: dict[str, Showing] = {}
        # ended and not in memory: in whose inbox the end is, if in any
        self._given: dict[str, Showing | None] = {}
        # their results are on the way to memory
        self._writing: set[str] = set()
        self.policy: BackgroundPolicy = BackgroundPolicy()
        self.waiting: set[Callable[[], object]] = set()
        """Called when a job has ended."""
        self.inbox_of: Callable[[Job], Inbox | None] = lambda job: None
        """The inbox of the sub-agent's run that a job is, if it is one."""
        self.below: Callable[[], Iterable[Jobs]] = tuple
        """The jobs of the conversations of sub-agents, at every level."""
        self.on_ended: Callable[[Job], object] | None = None
        """Called first when a job has ended."""
        self.on_settled: Callable[[Job], object] | None = None
        """Called when a job has ended while no run is in progress."""

    def __repr__(self) -> str:
        return f"<Jobs {', '.join(repr(job) for job in self.all) or 'none'}>"

    @property
    def all(self) -> tuple[Job, ...]:
        """The jobs in progress, and the last ones that have ended, in the order of their beginning."""
        return tuple(self._all.values())

    @property
    def in_progress(self) -> tuple[Job, ...]:
        """The jobs that have not ended."""
        return tuple(job for job in self._all.values() if job.running)

    @property
    def in_progress_within(self) -> tuple[Job, ...]:
        """The jobs that have not ended, those in the conversations of sub-agents included."""
        return (*self.in_progress, *(job for jobs in self.below() for job in jobs.in_progress))

    def find(self, id: str) -> Job:
        """The job of this id; `InvalidInputError` if there is none."""
        job = self._all.get(id)
        if job is None:
            known = ", ".join(f"{each.id} ({each.call.name})" for each in self.all) or "none"
            raise InvalidInputError(f"There is no background job {id!r:.60}. There are: {known}.")
        return job

    def seconds(self, tool: Tool, name: str, arguments: dict[str, object]) -> float | None:
        """The seconds in the foreground of a call of this tool; None: it stays there."""
        own = tool.background
        if own is not None:
            return own.seconds(name, arguments)
        # an exclusive call runs alone to its end
        return self.policy.after if self.policy.covers(name) and not tool.exclusive else None

    @property
    def has_room(self) -> bool:
        """True if one more may be in progress."""
        most = self.policy.max_jobs
        return len(self._all) < most or len(self.in_progress) < most

    # --- from its beginning to its end ----------------------------------------------------------------------------

    def begin(self, job: Job) -> None:
        """The job goes on in the background."""
        job.detach(self._ended)
        _log.info("tool %s goes on in the background, as %s", job.call.name, job.id, extra=_fields(job))
        self._all = {**self._all, job.id: job}
        self._record(job)
        self._show(job)

    def _ended(self, job: Job) -> None:
        extra = _fields(job) | {"state": job.state, "elapsed": job.elapsed}
        _log.info("tool %s has ended in the background, %s: %s", job.call.name, job.id, job.state, extra=extra)
        try:
            if self.on_ended is not None:
                self.on_ended(job)
        except Exception as error:
            report_dropped(error, f"the end of {job}")
        self._given[job.id] = None
        self._record(job)
        if not self._give(job) and self.on_settled is not None:
            self.on_settled(job)
        for wake in tuple(self.waiting):
            wake()

    def _give(self, job: Job) -> bool:
        """Give the end of the job to a run in progress; False if none takes it."""
        first = self._shown_by.get(job.id)
        for run in (*(() if first is None else (first,)), *self._runs):
            if run.inbox.put_end(job):
                self._given[job.id] = run
                return True
        return False

    def delivering(self, job: Job) -> None:
        """The result is on its way to memory: no other run gets it, even if this one ends first."""
        self._writing.add(job.id)

    def not_delivered(self, job: Job) -> None:
        """The write has failed: the run keeps the result, or the next run gets it."""
        self._writing.discard(job.id)
        if self._given.get(job.id) not in self._runs:
            self._given[job.id] = None
            self._give(job)

    def delivered(self, job: Job) -> None:
        """Memory has the result: the conversation drops it."""
        self._writing.discard(job.id)
        self._given.pop(job.id, None)
        self._change(lambda records: {id: each for id, each in records.items() if id != job.id})
        ended = [id for id, each in self._all.items() if not each.running and each.told and id not in self._given]
        for id in ended[:-KEPT_ENDED]:
            self._all = {each: found for each, found in self._all.items() if each != id}

    def add_ended(self, job: Job) -> None:
        """Add a job of an earlier process, which has ended: the run in progress, or the next, gets its result."""
        self._all = {**self._all, job.id: job}
        self._given[job.id] = None
        self._record(job)
        self._show(job)
        self._give(job)

    def lost(self) -> list[JobRecord]:
        """The jobs of the loaded state that do not run in this process. Jobs that it does not have are stopped."""
        records = self.records
        for job in self.all:
            if job.id in records and job.result is not None and job.id not in self._given:
                # its result was given after the checkpoint that was loaded, and memory does not have it now
                self._given[job.id] = None
                self._record(job)
                self._give(job)
        self.forget(job for job in self.all if job.id not in records and (job.running or job.id in self._given))
        known = {job.id for job in self.all if job.running or job.id in self._given}
        return [record_of(each) for id, each in records.items() if id not in known]

    def forget(self, jobs: Iterable[Job]) -> None:
        """Stop these jobs, which the conversation no longer has; no run gets anything of them."""
        gone = {job.id for job in jobs}
        for job in [job for job in self.all if job.id in gone]:
            self._given.pop(job.id, None)
            self._writing.discard(job.id)
            self._all = {id: each for id, each in self._all.items() if id != job.id}
            job.abandon()

    def stop(self, *ids: str) -> tuple[str, ...]:
        """Stop the jobs of these ids, or all, also those of sub-agents; returns the ids of those in progress."""
        jobs = [self.find(id) for id in ids] if ids else self.in_progress_within
        running = [job for job in jobs if job.running]
        for job in running:
            job.stop()
        return tuple(job.id for job in running)

    def send(self, id: str, text: str) -> None:
        """Send a message to a job: to its agent, or to a tool that reads `ToolContext.received`.

        `InvalidInputError` if it takes none, or there is none of this id; `RunEndedError` if it has ended.
        """
        job = self.find(id)
        if not job.running:
            raise RunEndedError(job.source.agent, job.id)
        inbox = self.inbox_of(job)
        if inbox is not None:
            inbox.put(text)
        elif not job.send(text):
            raise InvalidInputError(f"Job {job.id} takes no messages: tool {job.call.name!r} reads none.")

    def wait(self, *ids: str, until: Literal["any", "all"] = "all", timeout: float | None = None) -> Flow[None]:
        """Wait until one of these jobs has ended, or all; without ids, those in progress, also of sub-agents.

        It may be called from any loop.

        Signals: one None, also if `timeout` seconds have passed before; `InvalidInputError` for an unknown id.
        Cancels: the waiting. The jobs go on.
        """

        check_one_of("until", until, ("any", "all"), optional=False)
        if timeout is not None:
            check_seconds("timeout", timeout)

        def begin() -> Flow[None]:
            return ends([self.find(id) for id in ids] or self.in_progress_within, until=until, timeout=timeout)

        return defer(begin)

    def drained(self) -> Flow[None]:
        """Hand the jobs in progress over to the next process, at a shutdown: stop them, and save them as in progress.

        Signals: one None when nothing of it is left in this process.
        Cancels: the waiting.
        """

        def hand_over() -> Flow[None]:
            jobs = self.in_progress_within
            for job in jobs:
                job.abandon()
            return concat(*(job.idle() for job in jobs)).pipe(then(lambda: just(None)))

        return defer(hand_over)

    # --- runs -----------------------------------------------------------------------------------------------------

    def attach(self, run: Showing) -> None:
        """The run shows the jobs that no other run shows, and gets the results that no other run has."""
        self._runs = (*self._runs, run)
        for job in self.all:
            if job.id not in self._shown_by and job.has_more_to_show:
                self._show(job)
            if job.id in self._given and self._given[job.id] is None:
                self._give(job)

    def detach(self, run: Showing) -> None:
        """The run is over: another run in progress goes on with its jobs and results."""
        if run not in self._runs:
            return
        self._runs = tuple(each for each in self._runs if each is not run)
        for id in [id for id, by in self._shown_by.items() if by is run]:
            del self._shown_by[id]
            run.hide(self._all[id]) if id in self._all else None
        for id, by in list(self._given.items()):
            if by is run and id not in self._writing:
                self._given[id] = None
        for job in self.all:
            if self._runs and job.id not in self._shown_by and job.has_more_to_show:
                self._show(job)
            if self._runs and job.id in self._given and self._given[job.id] is None:
                self._give(job)
        if self.policy.wait == "stop":
            begun = run.source.path
            for job in self.in_progress_within:
                if job.source.path[: len(begun)] == begun:
                    job.stop()

    def shown(self, job: Job) -> None:
        """The run has shown all of the job."""
        self._shown_by.pop(job.id, None)

    def _show(self, job: Job) -> None:
        own = [run for run in self._runs if run.source.path == job.source.path]
        for run in (*own, *self._runs):
            self._shown_by[job.id] = run
            run.show(job)
            return

    # --- what is saved --------------------------------------------------------------------------------------------

    @property
    def records(self) -> Records:
        """The saved state."""
        return RECORDS.get(self._parts)

    def _record(self, job: Job) -> None:
        record: JobRecord = {
            "job": job.id,
            "call": job.call,
            "path": list(job.source.path),
            "at": datetime.now(UTC).isoformat(),
            "state": job.state or "running",
            "elapsed": job.elapsed,
        }
        if job.result is not None:
            record["result"] = job.result
        data = dump_record(record)
        self._change(lambda records: {**records, job.id: data})

    def _change(self, change: Callable[[Records], Records]) -> None:
        try:
            RECORDS.change(self._parts, lambda records: (change(records), None))
        except InvalidInputError as error:
            report_dropped(error, "keeping the background work of a conversation")


def _fields(job: Job) -> dict[str, object]:
    """The fields of a log record."""
    return {"tool": job.call.name, "call_id": job.call.id, "job": job.id}
