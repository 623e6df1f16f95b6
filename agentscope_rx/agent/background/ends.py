"""`ends`: wait for the end of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from reactivex import operators as ops

from agentscope_rx.agent.background.job import Job
from agentscope_rx.errors import DeadlineError
from agentscope_rx.reactive import Flow, catch, empty, flat_map, from_callable, just, on_loop, then, throw
from agentscope_rx.reactive import timeout as in_time


def ends(jobs: Sequence[Job], *, until: Literal["any", "all"] = "all", timeout: float | None = None) -> Flow[None]:
    """Wait until one of the jobs has ended, or all; from any loop.

    Signals: one None, also if `timeout` seconds have passed before.
    Cancels: the waiting. The jobs go on.
    """

    def late(error: Exception) -> Flow[None]:
        return empty() if isinstance(error, DeadlineError) else throw(error)

    waiting: Flow[None] = just(*jobs).pipe(flat_map(_end))
    if until == "any":
        waiting = waiting.pipe(ops.take(1))
    if timeout is not None:
        waiting = waiting.pipe(in_time(total=timeout)).pipe(catch(late))
    return waiting.pipe(then(lambda: just(None)))


def _end(job: Job) -> Flow[None]:
    if not job.running:
        return just(None)
    return on_loop(from_callable(job.log.ended.wait), job.log.scope.loop)
