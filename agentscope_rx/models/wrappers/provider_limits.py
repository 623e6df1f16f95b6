"""`ProviderLimits`: a limiter that follows the rate limit headers of the provider's answers.

    headers: 2 remaining, reset at t=30                         [a]  [b]  c waits ........[c]
                                                                 0    1   2               30

The numbers in an answer count from the moment that its request began. The provider may not have counted requests that
began later and have no answer yet, so their cost is subtracted. Answers may arrive out of order: an answer to an older
request replaces the current numbers only if it lowers them.

At its reset a limit is full again. Requests that begin afterwards are subtracted until the next answer reports new
numbers. A report is valid for at most `longest` seconds, even if its reset is later: one answer must not stop all runs.
"""

from __future__ import annotations

import itertools
from asyncio import AbstractEventLoop
from typing import NamedTuple

from agentscope_rx.models.rates import Counted, LimitWindow, RateHeaders
from agentscope_rx.reactive.limiter import EPSILON, LOCK, ByClock, Lease, Limiter, Tokens, changed, notify

DEFAULT_WINDOW = 60.0
"""The assumed length in seconds of the windows after a reset, until an answer reports new numbers."""

_AMOUNT = 1e-6


class RemainingLimit(NamedTuple):
    """The amount left of a limit now, and the seconds until it is full again; None for unknown values."""

    left: float
    limit: float | None
    whole_in: float | None


class RequestCost(Tokens):
    """The cost of one attempt for a token budget and for each kind of limit, its sequence number and admission time."""

    __slots__ = ("admitted", "costs", "number")

    def __init__(self, input_tokens: float, output_tokens: float) -> None:
        super().__init__(input_tokens + output_tokens)
        # providers count output tokens as they are generated, so a request is not refused for those to come
        self.costs: dict[Counted, float] = {
            "requests": 1.0,
            "tokens": input_tokens + output_tokens,
            "input_tokens": input_tokens,
            "output_tokens": 1.0,
        }
        self.number: int = 0
        self.admitted: float = 0.0


class _Remaining:
    """The amount left of one limit at one moment."""

    __slots__ = ("at", "left", "number", "reset", "window")

    def __init__(self, window: LimitWindow, at: float, left: float, number: int, longest: float) -> None:
        self.window = window
        self.at = at
        self.left = left
        self.number = number
        """The number of the attempt whose answer reported this limit."""
        self.reset = None if window.reset is None else min(window.reset, at + longest)

    def advance(self, now: float) -> bool:
        """Update the amount to this moment; False if it is no longer known."""
        window = self.window
        if self.reset is None or now < self.reset - EPSILON:
            if window.refill and window.limit is not None:
                self.left = min(window.limit, self.left + window.refill * (now - self.at))
            self.at = now
            return True
        if window.limit is None:
            return False
        self.left, self.at, self.reset = window.limit, now, now + DEFAULT_WINDOW
        return True

    def cost(self, request: RequestCost) -> float:
        """The amount that a request needs; one that costs more than the whole limit goes when the limit is full."""
        cost, limit = request.costs[self.window.counted], self.window.limit
        return cost if limit is None else min(cost, limit)

    def wait(self, now: float, request: RequestCost) -> float:
        missing = self.cost(request) - self.left
        if missing <= _AMOUNT or self.reset is None:
            # (without a reset the length of the wait is unknown)
            return 0.0
        until_reset = self.reset - now
        return max(EPSILON, min(until_reset, missing / self.window.refill) if self.window.refill else until_reset)


class _State:
    """The limits and the unanswered requests of one clock."""

    __slots__ = ("limits", "unanswered")

    def __init__(self) -> None:
        self.limits: dict[str, _Remaining] = {}
        self.unanswered: dict[RequestCost, None] = {}


class ProviderLimits(Limiter):
    """Admits the requests that the provider would accept, according to the headers of its answers."""

    __slots__ = ("_numbers", "_states")
    by_clock = True

    def __init__(self) -> None:
        super().__init__()
        self._states: ByClock[_State] = ByClock(_State)
        self._numbers = itertools.count(1)

    def after_fork(self) -> None:
        super().after_fork()
        for state in self._states.states:
            state.unanswered.clear()

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        now, state = self._advanced(loop)
        if not state.limits or not isinstance(tokens, RequestCost):
            return 0.0
        return max(limit.wait(now, tokens) for limit in state.limits.values())

    def take(self, lease: Lease) -> None:
        request = lease.tokens
        if isinstance(request, RequestCost):
            request.admitted, state = self._advanced(lease.loop)
            request.number = next(self._numbers)
            state.unanswered[request] = None
            for limit in state.limits.values():
                limit.left -= limit.cost(request)

    def give(self, lease: Lease) -> None:
        if isinstance(lease.tokens, RequestCost):
            self._states.of(lease.loop)[1].unanswered.pop(lease.tokens, None)

    def update(self, request: RequestCost, rates: RateHeaders, longest: float, loop: AbstractEventLoop) -> None:
        """Apply the headers of a request's answer and admit requests that fit now. Call it on the request's loop."""
        with LOCK:
            now, state = self._advanced(loop)
            state.unanswered.pop(request, None)
            # of requests admitted at one moment, any may reach the provider first
            later = [other for other in state.unanswered if other.number > request.number or other.admitted >= rates.at]
            for window in rates.limits:
                new = _Remaining(window, rates.at, window.remaining, request.number, longest)
                new.left -= sum(map(new.cost, later))
                old = state.limits.get(window.name)
                if not new.advance(now):
                    if old is None or old.number <= request.number:
                        state.limits.pop(window.name, None)
                elif old is None or old.number <= request.number or new.left < old.left:
                    state.limits[window.name] = new
            calls = changed(self)
        notify(calls)

    def left(self, loop: AbstractEventLoop) -> dict[str, RemainingLimit]:
        """The remaining limits by name."""
        with LOCK:
            now, state = self._advanced(loop)
            return {
                name: RemainingLimit(
                    max(0.0, each.left), each.window.limit, None if each.reset is None else each.reset - now
                )
                for name, each in state.limits.items()
            }

    def _advanced(self, loop: AbstractEventLoop) -> tuple[float, _State]:
        """The time on the loop's clock, and its state updated to that time."""
        clock, state = self._states.of(loop)
        now = clock()
        if state.limits:
            unknown = [name for name, limit in state.limits.items() if not limit.advance(now)]
            for name in unknown:
                del state.limits[name]
        return now, state
