"""`hedge`: subscribe a second time when the first is silent; who shows something first is heard.

    attempt 1   - - - - - - -(a)         disposed when the other has spoken
    attempt 2          --x--y--|         begun after `after` seconds of silence
    result             n-x--y--|         n: the notice

An attempt that fails before anybody has spoken waits for the other, if there is another; the last error is the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def hedge(
    after: float, *, shows: Callable[[T], bool], notice: Callable[[], T] | None = None
) -> Callable[[Observable[T]], Flow[T]]:
    """Emits what the first attempt emits that has a value that `shows`; the other, if it was begun, is disposed of.

    Values before the first that shows are held back until it is clear whose they are. `notice()` is emitted when the
    second is begun.

    Signals: those of the attempt that was first; the last error if both have failed, at once if the first fails early.
    Cancels: both, and the wait.
    """
    if not after > 0:
        raise ConfigurationError(f"hedge: after must be more than 0 seconds, not {after!r}.")

    def operator(source: Observable[T]) -> Flow[T]:
        def connect(sink: Sink[T], scope: Scope) -> None:
            race = _Race(sink, scope, source, after, shows, notice)
            sink.on_subscribe(race)
            if not race.disposed:
                race.start()

        return Flow(connect)

    return operator


class _Race(Generic[T]):
    __slots__ = ("_after", "_notice", "_running", "_scope", "_source", "_timer", "disposed", "shows", "sink")

    def __init__(
        self,
        sink: Sink[T],
        scope: Scope,
        source: Observable[T],
        after: float,
        shows: Callable[[T], bool],
        notice: Callable[[], T] | None,
    ) -> None:
        self.sink = sink
        self.shows = shows
        # or decided and ended
        self.disposed = False
        self._scope = scope
        self._source = source
        self._after = after
        self._notice = notice
        self._running: list[_Runner[T]] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._scope.call_later(self._after, self._silent)
        self._run()

    def dispose(self) -> None:
        self.disposed = True
        self._stop_timer()
        running, self._running = self._running, []
        for runner in running:
            runner.dispose()

    def won(self, winner: _Runner[T]) -> None:
        """One has spoken: the other is stopped."""
        self._stop_timer()
        losers, self._running = [each for each in self._running if each is not winner], [winner]
        for loser in losers:
            loser.dispose()

    def failed(self, runner: _Runner[T], error: Exception) -> None:
        """One has failed; if it was the last that runs, that is the end."""
        self._running.remove(runner)
        if not self._running:
            self._stop_timer()
            self.disposed = True
            self.sink.on_error(error)

    def completed(self, runner: _Runner[T]) -> None:
        self.won(runner)
        runner.release()
        if not self.disposed:
            self.disposed = True
            self._running = []
            self.sink.on_completed()

    def _silent(self) -> None:
        self._timer = None
        if self.disposed:
            return
        if self._notice is not None:
            self.sink.on_next(self._notice())
        if not self.disposed:
            self._run()

    def _run(self) -> None:
        runner = _Runner(self)
        self._running.append(runner)
        attach(self._source, runner, self._scope)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Runner(OperatorSink, Generic[T]):
    __slots__ = ("_held", "_race")

    def __init__(self, race: _Race[T]) -> None:
        self._upstream = None
        self.disposed = False
        self._race = race
        self._held: list[T] | None = []

    def on_next(self, value: T) -> None:
        if self._held is None:
            self._race.sink.on_next(value)
            return
        self._held.append(value)
        if self._race.shows(value):
            self._race.won(self)
            self.release()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._race.failed(self, error)

    def on_completed(self) -> None:
        self._upstream = None
        self._race.completed(self)

    def release(self) -> None:
        """Emit what was held back."""
        held, self._held = self._held, None
        for value in held or ():
            if self.disposed or self._race.disposed:
                return
            self._race.sink.on_next(value)
