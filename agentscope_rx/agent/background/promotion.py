"""`in_background`: the items of a call as its stage sees them, with a handle in the place of a result that takes long.

the call       --a--b--c--d--result|           subscribed to once
after 3        --a--b--handle|                 it goes on as a job
after 9        --a--b--c--d--result|           as any call
after 0        handle|                         unless it has ended by then
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from agentscope_rx.agent.background.job import Job
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink
from agentscope_rx.reactive.log_readers import LogFollower
from agentscope_rx.tools import ToolChunk, ToolEvent, ToolRetry


def in_background(
    items: Callable[[Job], Flow[ToolEvent]],
    make: Callable[[], Job],
    after: float,
    promote: Callable[[Job], Iterable[ToolEvent] | None],
    *,
    always: bool = False,
) -> Flow[ToolEvent]:
    """The `items(job)` for `after` seconds, then those of `promote(job)`, the last of which is the handle.

    `make` makes the job of each subscription. `promote` returns None if the call is to stay in the foreground. With
    `always` a call goes on that has ended by then, too.

    Signals: the items; the error of the call, if it has not gone on.
    Cancels: the call, unless it has gone on.
    """

    def connect(sink: Sink[ToolEvent], scope: Scope) -> None:
        foreground = _Foreground(sink, scope, make(), after, promote, always)
        sink.on_subscribe(foreground)
        if not foreground.disposed:
            foreground.start(items(foreground.job))

    return Flow(connect)


class _Foreground(OperatorSink):
    __slots__ = ("_after", "_always", "_follower", "_promote", "_scope", "_sink", "_timer", "job")

    def __init__(
        self,
        sink: Sink[ToolEvent],
        scope: Scope,
        job: Job,
        after: float,
        promote: Callable[[Job], Iterable[ToolEvent] | None],
        always: bool,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self.job: Job = job
        self._after = after
        self._promote = promote
        self._always = always
        self._timer: asyncio.TimerHandle | None = None
        self._follower: LogFollower[ToolEvent] = LogFollower(job.log, 0, self, scope)

    def start(self, items: Flow[ToolEvent]) -> None:
        follower, log = self._follower, self.job.log
        self.on_subscribe(follower)
        # before the call begins: the log keeps what a reader has yet to read
        log.join(follower)
        self.job.open(items, self._scope)
        if self.disposed:
            return
        if not self._after and (self._always or not log.ended.fired) and self._go_on():
            return
        if self._after:
            self._timer = self._scope.call_later(self._after, self._late)
        follower.begin()

    def _late(self) -> None:
        self._timer = None
        if not self.disposed and not self.job.log.ended.fired:
            self._go_on()

    def _go_on(self) -> bool:
        """Give the handle, and leave the call to itself; False if it is to stay."""
        # before it is a job: the run that shows it begins there
        self.job.shown_to = self._follower.position
        try:
            items = self._promote(self.job)
        except Exception as error:
            self.dispose()
            self._sink.on_error(error)
            return True
        if items is None:
            return False
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()
        for item in items:
            if not self.disposed:
                self._sink.on_next(item)
        if not self.disposed:
            self._sink.on_completed()
        return True

    def on_next(self, item: ToolEvent) -> None:
        if isinstance(item, ToolChunk):
            self.job.values.add(item)
        elif isinstance(item, ToolRetry):
            self.job.values.restart()
        self._sink.on_next(item)

    def on_error(self, error: Exception) -> None:
        self._end()
        cause = error.__cause__
        if cause is not None and not isinstance(cause, Exception):
            # it ends the run, as in any call
            self._scope.abort(cause)
        else:
            self._sink.on_error(error)

    def on_completed(self) -> None:
        self._end()
        self._sink.on_completed()

    def dispose(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        super().dispose()

    def _end(self) -> None:
        self._upstream = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
