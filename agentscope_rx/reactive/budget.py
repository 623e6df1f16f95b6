"""Two gates that time opens: `Budget`, at most so much spent in a time, and `Pause`, nobody until then.

spent      [--40--]    [--50--]             limit 100 in 60 s
a wants 30               ......[30]         when the 40 are 60 s old
correct(50 -> 5)            |[30]           or when it turns out that less was spent
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive.limiter import EXACT, LOCK, ByClock, Charge, Gate, Lease, changed, tell


class _Account:
    """What was spent in the last seconds."""

    __slots__ = ("spent", "total")

    def __init__(self) -> None:
        self.spent: deque[Charge] = deque()
        self.total = 0.0


class Budget(Gate):
    """Room for charges of at most `limit` in any `per` seconds. One of more than all waits until nothing is spent."""

    __slots__ = ("_accounts", "limit", "per")
    by_clock = True

    def __init__(self, limit: float, per: float) -> None:
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < limit < float("inf"):
            raise ConfigurationError(f"A budget must be a number of more than 0, not {limit!r}.")
        super().__init__()
        self.limit = limit
        self.per = per
        self._accounts: ByClock[_Account] = ByClock(_Account)

    def wait(self, loop: AbstractEventLoop, charge: Charge | None = None) -> float:
        now, account = self._now(loop)
        over = account.total + min(self.limit, 0 if charge is None else charge.amount) - self.limit
        if over <= EXACT:
            return 0.0
        for each in account.spent:
            over -= each.amount
            if over <= EXACT:
                return each.at + self.per - now
        return self.per

    def take(self, lease: Lease) -> None:
        if lease.charge is not None:
            lease.charge.at, account = self._now(lease.loop)
            account.spent.append(lease.charge)
            account.total += lease.charge.amount

    def correct(self, charge: Charge, amount: float, loop: AbstractEventLoop) -> None:
        """So much was really spent. Who fits now is let through; called on the loop that took it."""
        with LOCK:
            _, account = self._now(loop)
            if charge in account.spent:
                account.total += amount - charge.amount
            charge.amount = amount
            told = changed(self)
        tell(told)

    def spent(self, loop: AbstractEventLoop) -> float:
        """How much was spent in the last `per` seconds."""
        with LOCK:
            return self._now(loop)[1].total

    def _now(self, loop: AbstractEventLoop) -> tuple[float, _Account]:
        clock, account = self._accounts.of(loop)
        now, spent = clock(), account.spent
        while spent and spent[0].at + self.per - now <= EXACT:
            account.total -= spent.popleft().amount
        if not spent:
            # no remainder of many sums
            account.total = 0.0
        return now, account


class Pause(Gate):
    """Room for nobody until a time."""

    __slots__ = ("_until",)
    by_clock = True

    def __init__(self) -> None:
        super().__init__()
        self._until: ByClock[list[float]] = ByClock(lambda: [float("-inf")])

    def begin(self, seconds: float, loop: AbstractEventLoop) -> None:
        """Nobody for so long, or longer if that has been said before; called on this loop."""
        with LOCK:
            clock, until = self._until.of(loop)
            until[0] = max(until[0], clock() + seconds)

    def wait(self, loop: AbstractEventLoop, charge: Charge | None = None) -> float:
        clock, until = self._until.of(loop)
        left = until[0] - clock()
        return left if left > EXACT else 0.0
