"""The end of a run while work in the background is in progress, by the policy `wait`.

    answer --wait_for_work--> a job ends, or input comes --> one more round --> answer --> ... --> Done
                              the run is interrupted     --> end_interrupted; at its deadline or a shutdown Done

A run that no further round is allowed to, by its limits or `max_iters`, ends and leaves the work in progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from agentscope_rx.agent.background.jobs import Jobs
from agentscope_rx.agent.interruption import Cut
from agentscope_rx.agent.react.stage import ActingCore
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.events import Event
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, Scope, Tail, tail
from agentscope_rx.reactive.kernel.observer import Sink

GoOn = Callable[[ActingCore, Run], Tail[Event | Done] | None]
Next = Done | Tail[Event | Done]


def waits(run: Run) -> Jobs | None:
    """The jobs that a run which would end now waits for; None if it does not wait."""
    jobs = run.conversation.jobs
    if jobs is None or jobs.policy.wait != "wait" or run.inbox.closed or run.inbox.items or not jobs.in_progress:
        return None
    return jobs


def wait_for_work(agent: ActingCore, run: Run, jobs: Jobs, reply: Msg, go_on: GoOn) -> Tail[Event | Done]:
    """The stage that waits for the end of a job, or for input. `go_on` gives the round that follows, if it may begin.

    Signals: a tail; or the reply, which memory has.
    Cancels: the waiting. The jobs go on.
    """

    def follow() -> Next | None:
        if run.interrupted:
            # the run has its answer: a deadline, or a shutdown, ends it with that
            ended = run.interruption.cut is not Cut.REPLY
            return Done(reply) if ended else tail(lambda: agent.end_interrupted(run))
        if not run.inbox.items and jobs.in_progress:
            return None
        return (go_on(agent, run) if run.inbox.at_end() else None) or Done(reply)

    def connect(sink: Sink[Next], scope: Scope) -> None:
        waiting = _Waiting(run, jobs, sink, scope, follow)
        sink.on_subscribe(waiting)
        waiting.look()

    return tail(lambda: cast("Stage", Flow(connect)))


class _Waiting:
    __slots__ = ("_follow", "_forget", "_jobs", "_run", "_scheduled", "_scope", "_sink", "disposed")

    def __init__(self, run: Run, jobs: Jobs, sink: Sink[Next], scope: Scope, follow: Callable[[], Next | None]) -> None:
        self._run = run
        self._jobs = jobs
        self._sink = sink
        self._scope = scope
        self._follow = follow
        self._scheduled = False
        self.disposed = False
        run.inbox.on_put = self._wake_from_anywhere
        jobs.waiting.add(self.wake)
        self._forget = run.interruption.event.listen(self.wake)

    def _wake_from_anywhere(self) -> None:
        self._scope.call_from_thread(self.look)

    def wake(self) -> None:
        """Look on the loop's next turn: jobs that end together are one round."""
        if not (self._scheduled or self.disposed):
            self._scheduled = True
            self._scope.call_soon(self.look)

    def look(self) -> None:
        self._scheduled = False
        if self.disposed:
            return
        next = self._follow()
        if next is not None:
            self.dispose()
            self._sink.on_next(next)
            self._sink.on_completed()

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed: bool = True
            self._run.inbox.on_put = None
            self._jobs.waiting.discard(self.wake)
            self._forget()
