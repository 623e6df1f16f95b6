"""Two limiters by time: `TokenBudget`, at most n tokens in a period, and `Cooldown`, no room until a time.

spent      [--40--]    [--50--]             limit 100 in 60 s
a wants 30               ......[30]         when the 40 are 60 s old
correct(50 -> 5)            |[30]           or when less was spent than estimated
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.limiter import EPSILON, LOCK, ByClock, Lease, Limiter, Tokens, changed, notify


class _Account:
    """The tokens spent in the last seconds."""

    __slots__ = ("spent", "total")

    def __init__(self) -> None:
        self.spent: deque[Tokens] = deque()
        self.total = 0.0


class TokenBudget(Limiter):
    """Room for `limit` tokens in any `per` seconds. A request for more than that waits until none are spent."""

    __slots__ = ("_accounts", "limit", "per")
    by_clock = True

    def __init__(self, limit: float, per: float) -> None:
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < limit < float("inf"):
            raise ConfigurationError(f"A budget must be a number of more than 0, not {limit!r}.")
        super().__init__()
        self.limit: float = limit
        self.per: float = per
        self._accounts: ByClock[_Account] = ByClock(_Account)

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        now, account = self._now(loop)
        over = account.total + min(self.limit, 0 if tokens is None else tokens.amount) - self.limit
        if over <= EPSILON:
            return 0.0
        for each in account.spent:
            over -= each.amount
            if over <= EPSILON:
                return each.at + self.per - now
        return self.per

    def take(self, lease: Lease) -> None:
        if lease.tokens is not None:
            lease.tokens.at, account = self._now(lease.loop)
            account.spent.append(lease.tokens)
            account.total += lease.tokens.amount

    def correct(self, tokens: Tokens, amount: float, loop: AbstractEventLoop) -> None:
        """Replace the estimate by the amount really spent, and serve waiting requests; on the loop that took it."""
        with LOCK:
            _, account = self._now(loop)
            if tokens in account.spent:
                account.total += amount - tokens.amount
            tokens.amount = amount
            calls = changed(self)
        notify(calls)

    def spent(self, loop: AbstractEventLoop) -> float:
        """The tokens spent in the last `per` seconds."""
        with LOCK:
            return self._now(loop)[1].total

    def _now(self, loop: AbstractEventLoop) -> tuple[float, _Account]:
        clock, account = self._accounts.of(loop)
        now, spent = clock(), account.spent
        while spent and spent[0].at + self.per - now <= EPSILON:
            account.total -= spent.popleft().amount
        if not spent:
            # no rounding error of many sums
            account.total = 0.0
        return now, account


class Cooldown(Limiter):
    """No room until a time."""

    __slots__ = ("_until",)
    by_clock = True

    def __init__(self) -> None:
        super().__init__()
        self._until: ByClock[list[float]] = ByClock(lambda: [float("-inf")])

    def begin(self, seconds: float, loop: AbstractEventLoop) -> None:
        """Have no room for so many seconds, or longer if a cooldown under way is longer; called on this loop."""
        with LOCK:
            clock, until = self._until.of(loop)
            until[0] = max(until[0], clock() + seconds)

    def wait(self, loop: AbstractEventLoop, tokens: Tokens | None = None) -> float:
        clock, until = self._until.of(loop)
        left = until[0] - clock()
        return left if left > EPSILON else 0.0
