"""`retry`: subscribe again after a failure, by a tenacity policy, waiting by the loop's clock.

    attempt 1   --X                              notice, then the wait, then a new subscription
    attempt 2        --a--b|
    result      --n----a--b|

The source must be made anew by each subscription (all sources here are). Emitted values cannot be taken back: once an
attempt has emitted, its error is final unless the policy `discards`, and then the notice has `discarded` set.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from reactivex import Observable
from tenacity import AsyncRetrying, RetryCallState
from tenacity.stop import stop_after_attempt, stop_base
from tenacity.wait import wait_base, wait_none

from agentscope_rx.errors import DeadlineError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.reactive.kernel.deadline import Deadline
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")

HISTORY = 5
"""The number of earlier failures that the note of the last one lists."""

_ONCE = stop_after_attempt(1)
_AT_ONCE = wait_none()


MAX_RETRY_AFTER = 60.0
"""Seconds. An error that asks for a longer wait is final, unless the policy allows more."""


def _retry_after(error: BaseException) -> float | None:
    seconds: object = getattr(error, "retry_after", None)
    return seconds if isinstance(seconds, (int, float)) else None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again: tenacity's `stop`, `wait` and `retry`, with times of the loop's clock.

    - `stop(state)` ends the attempts, `wait(state)` gives seconds, `retry(state)` decides by `state.outcome`.
    - `retry_after(error)`: the seconds that an error asks for, the least wait. An error that asks for more than
      `max_retry_after` (None is no limit), or for ever, is final.
    - `discards`: try again even after values were emitted.
    - `within`: a wait that would end so many seconds after the first attempt began, or later, is not begun.
    """

    stop: stop_base | Callable[[RetryCallState], bool] = _ONCE
    wait: wait_base | Callable[[RetryCallState], float] = _AT_ONCE
    retry: Callable[[RetryCallState], bool] = lambda state: True
    discards: bool = False
    retry_after: Callable[[BaseException], float | None] = _retry_after
    within: float | None = None
    max_retry_after: float | None = MAX_RETRY_AFTER


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt; another follows after `delay` seconds. `discarded` is true if it had emitted values."""

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
    failed: Callable[[Attempt], object] | None = None,
    each: float | None = None,
    total: float | None = None,
    late: Callable[[str, float], Exception] = DeadlineError,
) -> Callable[[Observable[T]], Flow[T]]:
    """Subscribes again after each error that the policy retries.

        source      --x   (wait)   --x   (wait)   --a-b|
        result      -----------------------------------a-b|

    - `notice(attempt)` is emitted before each wait; `failed(attempt)` is only called, such as to log it.
    - After a value was emitted an error is final, unless the policy `discards`. `shows(value)` tells which values
      count; all by default.
    - `empty`: an attempt that completes without such a value has failed with `empty()`.
    - `each` and `total`: deadlines in seconds, as of `timeout(total=each)` around each attempt, whose error
      `late("total", each)` may be retried, and of `timeout(total=total)` around all: `late("overall", total)` is final.

    Signals: the values of the attempts; the last attempt's own error, with a note that lists the ones before.
    Cancels: the attempt in progress, or the wait.
    """

    return partial(Producer, partial(_Retry, _Ways(policy, notice, shows, empty, failed, each, total, late)))


class _Ways(NamedTuple):
    """The parameters of `retry`."""

    policy: RetryPolicy
    notice: Callable[[Attempt], Any] | None
    shows: Callable[[Any], bool] | None
    empty: Callable[[], Exception] | None
    failed: Callable[[Attempt], object] | None
    each: float | None
    total: float | None
    late: Callable[[str, float], Exception]


class _History(str):
    """The note of this operator on an error."""

    __slots__ = ()


class _Retry(OperatorSink, Generic[T]):
    __slots__ = (
        "_deadline",
        "_emitted",
        "_failures",
        "_history",
        "_overall",
        "_scope",
        "_sink",
        "_source",
        "_started",
        "_timer",
        "_waited",
        "_ways",
        "on_next",
    )

    def __init__(self, ways: _Ways, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._source: Observable[T]
        self._ways = ways
        self._timer: asyncio.TimerHandle | None = None
        self._emitted = False
        self._failures = 0
        # the latest few, as texts: an error would keep its frames alive until the last attempt
        self._history: list[str] | None = None
        self._waited = 0.0
        self._deadline: Deadline | None = None
        self._overall: Deadline | None = None
        self._started = 0.0

    def start(self, source: Observable[T]) -> None:
        self._source = source
        each, total = self._ways.each, self._ways.total
        # the earlier one first, or the timer of the run would be set twice; of equal ones the last deadline counts
        if each is not None and (total is None or each < total):
            self._deadline = Deadline(self._scope, each, self._attempt_passed)
        if total is not None:
            self._overall = Deadline(self._scope, total, self._overall_passed)
        known = self._overall or self._deadline
        self._started: float = self._scope.loop.time() if known is None else known.since
        self._attempt()

    def _attempt(self) -> None:
        self._timer = None
        if not self.disposed:
            self._emitted = False
            self.on_next = self._first  # pyright: ignore[reportAttributeAccessIssue]
            each = self._ways.each
            if each is not None and self._deadline is None:
                self._deadline = Deadline(self._scope, each, self._attempt_passed)
            connect = getattr(self._source, "_attach", None)
            if connect is not None:
                connect(self, self._scope)
            else:
                attach(self._source, self, self._scope)

    def _attempt_passed(self) -> None:
        self._deadline = None
        upstream, self._upstream = self._upstream, None
        if self.disposed or upstream is None:
            return
        upstream.dispose()
        assert self._ways.each is not None
        self.on_error(_late(self._ways, "total", self._ways.each))

    def _overall_passed(self) -> None:
        self._overall = None
        if self.disposed:
            return
        self.dispose()
        assert self._ways.total is not None
        self._sink.on_error(_late(self._ways, "overall", self._ways.total))

    def _end(self) -> None:
        """Drop the deadlines: the last signal comes next."""
        self.disposed: bool = True
        # (`_first` would hold this object)
        self.on_next = self._sink.on_next  # pyright: ignore[reportAttributeAccessIssue]
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._overall is not None:
            self._overall.cancel()
            self._overall = None

    if TYPE_CHECKING:

        def on_next(self, value: T, /) -> None: ...

    def _first(self, value: T) -> None:
        """The values of an attempt up to the first that counts; those behind it have no call here."""
        if not self._emitted:
            shows = self._ways.shows
            self._emitted = shows is None or shows(value)
            if self._emitted:
                self.on_next = self._sink.on_next  # pyright: ignore[reportAttributeAccessIssue]
        self._sink.on_next(value)

    def on_completed(self) -> None:
        self._upstream = None
        if self._ways.empty is not None and not self._emitted:
            self.on_error(self._ways.empty())
        else:
            self._end()
            self._sink.on_completed()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._failures += 1
        try:
            delay = self._decide(error)
        except Exception as failure:
            # the policy's own exception; its cause is the error that it was called with
            failure.__cause__ = error
            self._end()
            self._sink.on_error(failure)
            return
        if delay is None:
            self._give_up(error)
            return
        history = self._history = [] if self._history is None else self._history[1 - HISTORY :]
        history.append(f"{type(error).__name__}: {error}")
        self._waited += delay
        ways = self._ways
        if ways.notice is not None or ways.failed is not None:
            attempt = Attempt(self._failures, delay, error, self._emitted)
            try:
                if ways.failed is not None:
                    ways.failed(attempt)
                notices = () if ways.notice is None else (ways.notice(attempt),)
            except Exception as failure:
                failure.__cause__ = error
                self._end()
                self._sink.on_error(failure)
                return
            for notice in notices:
                self._sink.on_next(notice)
        if not self.disposed:
            # through the loop also without delay: an attempt that fails at once must not nest in the one before
            self._timer = self._scope.call_later(delay, self._attempt)

    def dispose(self) -> None:
        super().dispose()
        self._end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _decide(self, error: Exception) -> float | None:
        """Seconds until the next attempt, or None to give up."""
        if (self._emitted and not self._ways.policy.discards) or isinstance(error, SourceCancelledError):
            return None
        # tenacity's state is made for its own loop: filled here from the loop's clock instead of the wall's
        state = RetryCallState(cast("AsyncRetrying", None), None, (), {})
        state.start_time = self._started
        state.attempt_number = self._failures
        state.idle_for = self._waited
        state.set_exception((type(error), error, error.__traceback__))
        state.outcome_timestamp = self._scope.loop.time()
        if not self._ways.policy.retry(state):
            return None
        delay = max(0.0, float(self._ways.policy.wait(state)))
        seconds, longest = self._ways.policy.retry_after(error) or 0.0, self._ways.policy.max_retry_after
        if not math.isfinite(seconds) or (longest is not None and seconds > longest):
            # a server must not make the caller wait without end: the error says how long, and the caller decides
            return None
        delay = max(delay, seconds)
        within = self._ways.policy.within
        if within is not None and self._scope.loop.time() - self._started + delay >= within:
            # the deadline would cut it off and hide the error
            return None
        state.upcoming_sleep = delay
        return None if self._ways.policy.stop(state) else delay

    def _give_up(self, error: Exception) -> None:
        if self._history:
            notes: list[str] = getattr(error, "__notes__", [])
            # one exception object may end many runs: it has the note of the last one only
            notes[:] = [note for note in notes if not isinstance(note, _History)]
            error.add_note(
                _History(f"Attempt {self._failures} of {self._failures}. Before: {'; '.join(self._history)}")
            )
        self._end()
        self._sink.on_error(error)


def _late(ways: _Ways, which: str, limit: float) -> Exception:
    try:
        return ways.late(which, limit)
    except Exception as failure:
        return failure
