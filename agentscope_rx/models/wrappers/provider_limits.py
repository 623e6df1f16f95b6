"""`ProviderLimits`: a limiter with the room that the provider's headers report.

    headers say: 2 left, whole again at t=30                        [a]  [b]  c waits ........[c]
                                                                     0    1   2               30

What an answer tells counts from the moment that its request began: requests begun since then, and not answered yet,
are taken off, as the provider may not have counted them. An answer to a request that began before the one that told
last is late news: it counts where it says less.

At the reset a limit is whole again, and the requests that begin then are taken off until an answer tells anew. So it is
when it was told longer ago than `longest`, whatever the reset: one answer must not park all runs.
"""

from __future__ import annotations

import itertools
from asyncio import AbstractEventLoop
from typing import NamedTuple

from agentscope_rx.models.rates import Counted, LimitWindow, RateHeaders
from agentscope_rx.reactive.limiter import EPSILON, LOCK, ByClock, Lease, Limiter, Tokens, changed, notify

AGAIN = 60.0
"""Seconds that a limit is taken to last after its reset, until an answer tells."""

_AMOUNT = 1e-6


class RemainingLimit(NamedTuple):
    """What is left of a limit now, and in how many seconds it is whole again; None for what is not known."""

    left: float
    limit: float | None
    whole_in: float | None


class RequestCost(Tokens):
    """One attempt: what it takes of a budget, of each kind of limit, and its number among those begun."""

    __slots__ = ("begun", "costs")

    def __init__(self, question: float, written: float) -> None:
        super().__init__(question + written)
        # the tokens of an answer are counted as they come: nobody is refused for those to come
        self.costs: dict[Counted, float] = {
            "requests": 1.0,
            "tokens": question + written,
            "input_tokens": question,
            "output_tokens": 1.0,
        }
        self.begun = 0


class _Left:
    """What is left of one limit, at an instant."""

    __slots__ = ("at", "begun", "left", "told", "whole_at")

    def __init__(self, told: LimitWindow, at: float, left: float, begun: int, longest: float) -> None:
        self.told = told
        self.at = at
        self.left = left
        self.begun = begun
        """The number of the attempt whose answer told it."""
        self.whole_at = None if told.reset is None else min(told.reset, at + longest)

    def advance(self, now: float) -> bool:
        """Bring it to this instant; False if nothing is known any more."""
        told = self.told
        if self.whole_at is None or now < self.whole_at - EPSILON:
            if told.refill and told.limit is not None:
                self.left = min(told.limit, self.left + told.refill * (now - self.at))
            self.at = now
            return True
        if told.limit is None:
            return False
        self.left, self.at, self.whole_at = told.limit, now, now + AGAIN
        return True

    def need(self, asked: RequestCost) -> float:
        """What there must be for it: one that needs more than all goes when it is whole."""
        cost, limit = asked.costs[self.told.counted], self.told.limit
        return cost if limit is None else min(cost, limit)

    def wait(self, now: float, asked: RequestCost) -> float:
        lacking = self.need(asked) - self.left
        if lacking <= _AMOUNT or self.whole_at is None:
            # (nothing tells for how long one would have to wait)
            return 0.0
        until_whole = self.whole_at - now
        return max(EPSILON, min(until_whole, lacking / self.told.refill) if self.told.refill else until_whole)


class _Known:
    """All that is known by one clock."""

    __slots__ = ("limits", "unanswered")

    def __init__(self) -> None:
        self.limits: dict[str, _Left] = {}
        self.unanswered: dict[RequestCost, None] = {}


class ProviderLimits(Limiter):
    """Has room for the requests that the provider would accept, by the headers of its answers."""

    __slots__ = ("_known", "_numbers")
    by_clock = True

    def __init__(self) -> None:
        super().__init__()
        self._known: ByClock[_Known] = ByClock(_Known)
        self._numbers = itertools.count(1)

    def after_fork(self) -> None:
        super().after_fork()
        for known in self._known.states:
            known.unanswered.clear()

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        now, known = self._now(loop)
        if not known.limits or not isinstance(tokens, RequestCost):
            return 0.0
        return max(limit.wait(now, tokens) for limit in known.limits.values())

    def take(self, lease: Lease) -> None:
        asked = lease.tokens
        if isinstance(asked, RequestCost):
            _, known = self._now(lease.loop)
            asked.begun = next(self._numbers)
            known.unanswered[asked] = None
            for limit in known.limits.values():
                limit.left -= limit.need(asked)

    def give(self, lease: Lease) -> None:
        if isinstance(lease.tokens, RequestCost):
            self._known.of(lease.loop)[1].unanswered.pop(lease.tokens, None)

    def hear(self, asked: RequestCost, rates: RateHeaders, longest: float, loop: AbstractEventLoop) -> None:
        """The headers of this attempt's answer. Who fits now is let through; called on the loop that began it."""
        with LOCK:
            now, known = self._now(loop)
            known.unanswered.pop(asked, None)
            since = [other for other in known.unanswered if other.begun > asked.begun]
            for each in rates.limits:
                new = _Left(each, rates.at, each.remaining, asked.begun, longest)
                new.left -= sum(map(new.need, since))
                old = known.limits.get(each.name)
                if not new.advance(now):
                    if old is None or old.begun <= asked.begun:
                        known.limits.pop(each.name, None)
                elif old is None or old.begun <= asked.begun or new.left < old.left:
                    known.limits[each.name] = new
            calls = changed(self)
        notify(calls)

    def left(self, loop: AbstractEventLoop) -> dict[str, RemainingLimit]:
        """What is left, by the names of the limits."""
        with LOCK:
            now, known = self._now(loop)
            return {
                name: RemainingLimit(
                    max(0.0, each.left), each.told.limit, None if each.whole_at is None else each.whole_at - now
                )
                for name, each in known.limits.items()
            }

    def _now(self, loop: AbstractEventLoop) -> tuple[float, _Known]:
        clock, known = self._known.of(loop)
        now = clock()
        if known.limits:
            gone = [name for name, limit in known.limits.items() if not limit.advance(now)]
            for name in gone:
                del known.limits[name]
        return now, known
