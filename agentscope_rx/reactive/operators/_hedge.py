"""`hedge`: subscribe a second time when the first attempt is silent; the first that shows something is emitted.

    attempt 1   - - - - - - -(a)         disposed when the other has shown something
    attempt 2          --x--y--|         begun after `after` seconds of silence
    result             n-x--y--|         n: the notice

An attempt that fails before either has shown something leaves the result to the other, if that has begun. The last
error ends the stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def hedge(
    after: float, *, shows: Callable[[T], bool], notice: Callable[[], T] | None = None
) -> Callable[[Observable[T]], Flow[T]]:
    """Subscribes a second time while the first attempt is silent, and emits the faster attempt.

    The attempt that first emits a value for which `shows(value)` is true wins; the other is disposed of. Values before
    that one wait until the winner is known. `notice()` is emitted when the second attempt begins.

    Signals: those of the first attempt to show something; the last error if both fail, the error of the first attempt
    if it fails before the second begins.
    Cancels: both attempts and the wait.
    """
    if not after > 0:
        raise ConfigurationError(f"hedge: after must be more than 0 seconds, not {after!r}.")
    return partial(Producer, partial(_Race, after, shows, notice))


class _Race(Generic[T]):
    __slots__ = ("_after", "_notice", "_running", "_scope", "_source", "_timer", "disposed", "shows", "sink")

    def __init__(
        self,
        after: float,
        shows: Callable[[T], bool],
        notice: Callable[[], T] | None,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self.sink = sink
        self.shows = shows
        # or ended
        self.disposed = False
        self._scope = scope
        self._source: Observable[T]
        self._after = after
        self._notice = notice
        self._running: list[_Runner[T]] = []
        self._timer: asyncio.TimerHandle | None = None

    def start(self, source: Observable[T]) -> None:
        self._source = source
        self._timer = self._scope.call_later(self._after, self._begin_second)
        self._run()

    def dispose(self) -> None:
        self.disposed = True
        self._stop_timer()
        running, self._running = self._running, []
        for runner in running:
            runner.dispose()

    def won(self, winner: _Runner[T]) -> None:
        """Stop the other attempt: this one is the result."""
        self._stop_timer()
        losers, self._running = [each for each in self._running if each is not winner], [winner]
        for loser in losers:
            loser.dispose()

    def failed(self, runner: _Runner[T], error: Exception) -> None:
        """Fail if no other attempt is running."""
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

    def _begin_second(self) -> None:
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
    """One attempt, and the values that it has emitted before it has won."""

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
        """Emit the values that were held back."""
        held, self._held = self._held, None
        for value in held or ():
            if self.disposed or self._race.disposed:
                return
            self._race.sink.on_next(value)
