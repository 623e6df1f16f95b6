"""`CircuitBreaker`: stops asking a model for a while after a number of consecutive failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from agentscope_rx.errors import CircuitOpenError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.logs import log_circuit
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
    """The circuit by one clock: consecutive failures, the time until which it is open, and the trial attempt."""

    failures: int = 0
    until: float = 0.0
    trial: _Token | None = None

    @property
    def on_trial(self) -> bool:
        """True if a trial attempt is in progress. One on a closed loop has ended without a result."""
        return self.trial is not None and not self.trial.loop.is_closed()


@dataclass(frozen=True, slots=True, eq=False)
class _Token:
    """The identity of one attempt."""

    loop: asyncio.AbstractEventLoop


class CircuitBreaker(AttemptWrapper):
    """Asks `model` unless its last attempts have failed. Each attempt counts, retries included.

        closed      --X--X--X        `failures` in a row: open
        open                 ! ! !   each request fails at once with `CircuitOpenError`, for `reset` seconds
        half-open                    one request is sent: if it succeeds, closed; if not, open again

    `CircuitOpenError` is not retried, so a fallback answers without delay. `when` selects the errors that count as
    failures (default: those that are `retryable`, because a refused request says nothing about the provider). An
    attempt that ends with another error counts as a success; a disposed attempt does not count. One object is one
    circuit for all runs, threads and event loops.
    """

    def __init__(
        self, model: ChatModel | str, *, failures: int = 5, reset: float = 30.0, when: ErrorKinds = is_retryable
    ) -> None:
        super().__init__(model)
        check_count("failures", failures)
        check_seconds("reset", reset, infinite=False)
        check_error_kinds("when", when)
        self._failures = failures
        self._reset = reset
        self._counts = error_predicate(when)
        self._states: ByClock[_State] = ByClock(_State)
        self._lock = new_lock()
        call_after_fork(self)

    def after_fork(self) -> None:
        """Called in a forked child: a trial attempt belongs to the parent process, and ends there."""
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
            token = _Token(asyncio.get_running_loop())
            left = self._enter(token)
            if left is not None:
                return throw(CircuitOpenError(self._failures, left, model=self.model_name, provider=self.provider))

            def failed(error: Exception) -> Flow[ChatResponse]:
                self._settle(token, ok=not self._counts(error))
                return throw(error)

            def answered() -> Iterable[ChatResponse]:
                self._settle(token, ok=True)
                return ()

            watched = attempt.pipe(flat_map_iterable(_itself, answered), catch(failed))
            return using(lambda: just(token), lambda token: watched, self._disposed)

        return lambda attempt: defer(lambda: begin(flow(attempt)))

    @property
    def is_open(self) -> bool:
        """True if a request would be refused now. Call it in a running event loop."""
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            return state.failures >= self._failures and (state.on_trial or clock() < state.until)

    def _enter(self, token: _Token) -> float | None:
        """None if the attempt may begin, else the seconds for which it is refused."""
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            if state.failures < self._failures:
                return None
            left = state.until - clock()
            if left > 0 or state.on_trial:
                return max(left, 0.0)
            state.trial = token
            return None

    def _settle(self, token: _Token, *, ok: bool) -> None:
        with self._lock:
            clock, state = self._states.of(asyncio.get_running_loop())
            if state.failures >= self._failures and state.trial is not token:
                # the attempt began before the circuit opened, so its late answer does not close it
                return
            state.trial = None
            was_open = state.failures >= self._failures
            state.failures = 0 if ok else state.failures + 1
            opens = state.failures >= self._failures
            if opens:
                state.until = clock() + self._reset
        if opens or was_open:
            log_circuit(self.model_name, self._failures, self._reset if opens else None)

    def _disposed(self, token: _Token, ending: Outcome) -> None:
        if ending is Outcome.DISPOSED:
            with self._lock:
                state = self._states.of(asyncio.get_running_loop())[1]
                if state.trial is token:
                    # the next attempt is the trial
                    state.trial = None


def _itself(chunk: ChatResponse) -> Iterable[ChatResponse]:
    return (chunk,)
