"""`retry`: subscribe again after a failure, as a tenacity policy says, waiting by the loop's clock.

    attempt 1   --X                              notice, then the wait, then a new subscription
    attempt 2        --a--b|
    result      --n----a--b|

The source must be made anew by each subscription (all sources here are). What has been emitted cannot be taken back:
once an attempt has emitted, its error is final unless the policy `discards`, and then the notice says so.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from reactivex import Observable
from tenacity import AsyncRetrying, RetryCallState
from tenacity.stop import stop_after_attempt, stop_base
from tenacity.wait import wait_base, wait_none

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

_ONCE = stop_after_attempt(1)
_AT_ONCE = wait_none()


LONGEST_ASKED = 60.0
"""Seconds: who asks for a longer wait is not waited for, unless the policy says so."""


def _own_wish(error: BaseException) -> float | None:
    asked: object = getattr(error, "retry_after", None)
    return asked if isinstance(asked, (int, float)) else None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again: tenacity's `stop`, `wait` and `retry`, asked with a state filled from the loop's clock.

    `stop(state)` ends the trying, `wait(state)` gives seconds, `retry(state)` looks at `state.outcome`. The seconds
    that the error asks for, by `asked(error)`, make the wait at least as long; if they are more than `longest_asked`
    (None is no limit), or for ever, the error is final. `discards`: try again although values were emitted. `within`: a
    wait that would last until so many seconds after the beginning, or longer, is not begun.
    """

    stop: stop_base | Callable[[RetryCallState], bool] = _ONCE
    wait: wait_base | Callable[[RetryCallState], float] = _AT_ONCE
    retry: Callable[[RetryCallState], bool] = lambda state: True
    discards: bool = False
    asked: Callable[[BaseException], float | None] = _own_wish
    within: float | None = None
    longest_asked: float | None = LONGEST_ASKED


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt that will be followed by another after `delay` seconds; `discarded` if it had emitted."""

    number: int
    delay: float
    error: Exception
    discarded: bool


class jittered(wait_base):
    """Another wait, times a random factor of 1 +- `spread`; `source` gives numbers in [0, 1)."""

    def __init__(self, wait: wait_base, spread: float = 0.5, source: Callable[[], float] = random.random) -> None:
        self.wait = wait
        self.spread = spread
        self.source = source

    def __call__(self, retry_state: RetryCallState) -> float:
        return self.wait(retry_state) * (1 + self.spread * (2 * self.source() - 1))


def retry(
    policy: RetryPolicy,
    *,
    notice: Callable[[Attempt], T] | None = None,
    shows: Callable[[T], bool] | None = None,
    empty: Callable[[], Exception] | None = None,
) -> Callable[[Observable[T]], Flow[T]]:
    """Subscribes again after an error for which the policy wants it, and emits `notice(attempt)` before each wait.

    Only values of which `shows` is true cannot be taken back; all, unless given. With `empty`, an attempt that
    completes without such a value has failed with that error.

    Signals: the values of the attempts; the last attempt's own error, with a note that tells of the ones before.
    Cancels: the attempt in progress, or the wait.
    """

    def operator(source: Observable[T]) -> Flow[T]:
        def connect(sink: Sink[T], scope: Scope) -> None:
            retrying = _Retry(sink, scope, source, policy, notice, shows, empty)
            sink.on_subscribe(retrying)
            retrying.attempt()

        return Flow(connect)

    return operator


class _History(str):
    """A note of ours on an error."""

    __slots__ = ()


class _Retry(OperatorSink, Generic[T]):
    __slots__ = (
        "_emitted",
        "_empty",
        "_failures",
        "_notice",
        "_policy",
        "_scope",
        "_shows",
        "_sink",
        "_source",
        "_started",
        "_timer",
        "_told",
        "_waited",
    )

    def __init__(
        self,
        sink: Sink[T],
        scope: Scope,
        source: Observable[T],
        policy: RetryPolicy,
        notice: Callable[[Attempt], T] | None,
        shows: Callable[[T], bool] | None,
        empty: Callable[[], Exception] | None,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._source = source
        self._policy = policy
        self._notice = notice
        self._shows = shows
        self._empty = empty
        self._timer: asyncio.TimerHandle | None = None
        self._emitted = False
        self._failures = 0
        # texts, the latest few: an error would hold its frames for as long as the trying goes on
        self._told: deque[str] = deque(maxlen=5)
        self._started = scope.loop.time()
        self._waited = 0.0

    def attempt(self) -> None:
        self._timer = None
        if not self.disposed:
            self._emitted = False
            attach(self._source, self, self._scope)

    def on_next(self, value: T) -> None:
        if not self._emitted:
            self._emitted = self._shows is None or self._shows(value)
        self._sink.on_next(value)

    def on_completed(self) -> None:
        self._upstream = None
        if self._empty is not None and not self._emitted:
            self.on_error(self._empty())
        else:
            self._sink.on_completed()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._failures += 1
        try:
            delay = self._decide(error)
        except Exception as failure:
            # a policy that raises; its cause is the error it was asked about
            failure.__cause__ = error
            self._sink.on_error(failure)
            return
        if delay is None:
            self._give_up(error)
            return
        self._told.append(f"{type(error).__name__}: {error}")
        self._waited += delay
        if self._notice is not None:
            try:
                told = self._notice(Attempt(self._failures, delay, error, self._emitted))
            except Exception as failure:
                failure.__cause__ = error
                self._sink.on_error(failure)
                return
            self._sink.on_next(told)
        if not self.disposed:
            # through the loop also without delay: an attempt that fails at once must not nest in the one before
            self._timer = self._scope.call_later(delay, self.attempt)

    def dispose(self) -> None:
        super().dispose()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _decide(self, error: Exception) -> float | None:
        """Seconds until the next attempt, or None to give up."""
        if (self._emitted and not self._policy.discards) or isinstance(error, SourceCancelledError):
            return None
        # tenacity's state is made for its own loop: filled here from the loop's clock instead of the wall's
        state = RetryCallState(cast("AsyncRetrying", None), None, (), {})
        state.start_time = self._started
        state.attempt_number = self._failures
        state.idle_for = self._waited
        state.set_exception((type(error), error, error.__traceback__))
        state.outcome_timestamp = self._scope.loop.time()
        if not self._policy.retry(state):
            return None
        delay = max(0.0, float(self._policy.wait(state)))
        asked, longest = self._policy.asked(error) or 0.0, self._policy.longest_asked
        if not math.isfinite(asked) or (longest is not None and asked > longest):
            # the server's word must not park the caller: it is told how long to wait, and decides
            return None
        delay = max(delay, asked)
        within = self._policy.within
        if within is not None and self._scope.loop.time() - self._started + delay >= within:
            # it would only be cut off, and the error forgotten
            return None
        state.upcoming_sleep = delay
        return None if self._policy.stop(state) else delay

    def _give_up(self, error: Exception) -> None:
        if self._told:
            notes: list[str] = getattr(error, "__notes__", [])
            # one exception object may end many runs: it tells of the last one only
            notes[:] = [note for note in notes if not isinstance(note, _History)]
            error.add_note(_History(f"Attempt {self._failures} of {self._failures}. Before: {'; '.join(self._told)}"))
        self._sink.on_error(error)
