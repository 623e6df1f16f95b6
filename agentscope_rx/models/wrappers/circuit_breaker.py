"""`CircuitBreaker`: after so many failures on end, ask no more for a while.

    closed      --X--X--X        `failures` on end: open
    open                 ! ! !   each request fails at once, with `CircuitOpenError`, for `reset` seconds
    half-open                    one request is let through: if it does well, closed; if not, open again

A failure is an error that says nothing of the request itself: the provider is down, slow or overloaded. One object is
one circuit, for all runs, threads and event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agentscope_rx.errors import CircuitOpenError, ConfigurationError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.models.retryable import ErrorKinds, check_error_kinds, error_predicate, is_retryable
from agentscope_rx.models.wrappers.base import AttemptWrapper
from agentscope_rx.reactive import Flow, Outcome, catch, defer, flat_map_iterable, flow, just, throw, using
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.reactive.kernel.forking import call_after_fork, new_lock
from agentscope_rx.reactive.limiter import ByClock


@dataclass(slots=True)
class _State:
    """The circuit by one clock: failures on end, until when it is open, who tries whether it may be closed."""

    failures: int = 0
    until: float = 0.0
    trial: _Mark | None = None

    @property
    def tried(self) -> bool:
        """Whether somebody tries now; on a loop that was closed without a word to them, nobody does."""
        return self.trial is not None and not self.trial.loop.is_closed()


@dataclass(frozen=True, slots=True, eq=False)
class _Mark:
    """One attempt."""

    loop: asyncio.AbstractEventLoop


class CircuitBreaker(AttemptWrapper):
    """Asks `model`, but not while it fails and fails. Each attempt counts.

    `when` says which errors count as failures: those that are `retryable`, unless given. An attempt that ends by
    another error has been answered; one that is disposed of says nothing.
    """

    def __init__(
        self, model: ChatModel | str, *, failures: int = 5, reset: float = 30.0, when: ErrorKinds = is_retryable
    ) -> None:
        super().__init__(model)
        if type(failures) is not int or failures < 1:
            raise ConfigurationError(f"failures must be a whole number of at least 1, not {failures!r}.")
        number = isinstance(reset, (int, float)) and not isinstance(reset, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < reset < float("inf"):
            raise ConfigurationError(f"reset must be more than 0 seconds, not {reset!r}.")
        check_error_kinds("when", when)
        self._failures = failures
        self._reset = reset
        self._counts = error_predicate(when)
        self._states: ByClock[_State] = ByClock(_State)
        self._lock = new_lock()
        call_after_fork(self)

    def after_fork(self) -> None:
        """An attempt of the parent's tells its outcome there."""
        for state in self._states.states:
            state.trial = None

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Refuses the attempt while the circuit is open.

        Signals: those of the attempt; `CircuitOpenError`, which is not retried.
        Cancels: the attempt.
        """

        def begin(attempt: Flow[ChatResponse]) -> Flow[ChatResponse]:
            mark = _Mark(asyncio.get_running_loop())
            left = self._enter(mark)
            if left is not None:
                return throw(CircuitOpenError(self._failures, left, model=self.model_name, provider=self.provider))

            def failed(error: Exception) -> Flow[ChatResponse]:
                self._settle(mark, ok=not self._counts(error))
                return throw(error)

            def answered() -> Iterable[ChatResponse]:
                self._settle(mark, ok=True)
                return ()

            watched = attempt.pipe(flat_map_iterable(_itself, answered), catch(failed))
            return using(lambda: just(mark), lambda mark: watched, self._left)

        return lambda attempt: defer(lambda: begin(flow(attempt)))

    @property
    def is_open(self) -> bool:
        """Whether a request would be refused now; on any loop."""
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            return state.failures >= self._failures and (state.tried or clock() < state.until)

    def _enter(self, mark: _Mark) -> float | None:
        """Seconds for which it is refused; None if it may go ahead."""
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            if state.failures < self._failures:
                return None
            left = state.until - clock()
            if left > 0 or state.tried:
                return max(left, 0.0)
            state.trial = mark
            return None

    def _settle(self, mark: _Mark, *, ok: bool) -> None:
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            if state.failures >= self._failures and state.trial is not mark:
                # it began before the circuit was opened: one that is late with its answer does not close it
                return
            state.trial = None
            state.failures = 0 if ok else state.failures + 1
            if state.failures >= self._failures:
                state.until = clock() + self._reset

    def _left(self, mark: _Mark, ending: Outcome) -> None:
        if ending is Outcome.DISPOSED:
            with self._lock:
                state = self._states.of(asyncio.get_running_loop())[1]
                if state.trial is mark:
                    # the next one tries
                    state.trial = None


def _itself(chunk: ChatResponse) -> Iterable[ChatResponse]:
    return (chunk,)
