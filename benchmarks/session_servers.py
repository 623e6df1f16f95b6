"""Stores on real servers, for the benchmarks of sessions: `with on_servers() as makers: makers["Redis"]()`.

By itself it prints what they cost: `python -m benchmarks.session_servers`. The servers are started for it, on this
machine and without a network between, and acknowledge without waiting for the disk; so this is the cost of the store.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from agentscope_rx.session import ListTail, RedisSession, Session, SqlSession
from tests.support.servers import postgres_server, postgres_url, redis_server, redis_url

MESSAGE = {"name": "Ann", "role": "user", "content": [{"type": "text", "text": "Hello! " * 20}]}
SAVES = 100
AT_ONCE = 8


@contextmanager
def on_servers() -> Iterator[dict[str, Callable[[], Session]]]:
    """A function for each kind of server that is installed, which makes a new and empty store."""
    numbers = count()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        makers: dict[str, Callable[[], Session]] = {
            "SQLAlchemy, SQLite": lambda: SqlSession(f"sqlite:///{folder / str(next(numbers))}.db")
        }
        if (postgres := postgres_server()) is not None:
            stack.callback(postgres.remove)
            makers["SQLAlchemy, PostgreSQL"] = lambda: SqlSession(postgres_url(postgres), prefix=f"b{next(numbers)}_")
        if (redis := redis_server()) is not None:
            stack.callback(redis.remove)
            makers["Redis"] = lambda: RedisSession(redis_url(redis), prefix=f"b{next(numbers)}:")
        yield makers


async def save_at(session: Session, length: int) -> float:
    """The median of the milliseconds of a save that puts two messages behind a list of this length."""
    version = await session.save_all("ann", {"state": {"n": 0}}, {"memory": [MESSAGE] * length})
    taken: list[float] = []
    for number in range(SAVES):
        begun = time.perf_counter()
        tail = ListTail([MESSAGE, MESSAGE], length + 2 * number)
        version = await session.save_all("ann", {"state": {"n": number}}, {"memory": tail}, expected=version)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken) * 1000


async def saves_a_second(session: Session) -> float:
    """Saves of several conversations at once."""

    async def talk(name: str) -> None:
        for number in range(SAVES):
            await session.save_all(name, {"state": {"n": number}}, {"memory": ListTail([MESSAGE, MESSAGE])})

    await talk("first")
    begun = time.perf_counter()
    await asyncio.gather(*(talk(f"user {number}") for number in range(AT_ONCE)))
    return AT_ONCE * SAVES / (time.perf_counter() - begun)


async def _row(make: Callable[[], Session]) -> str:
    cells: list[str] = []
    for length in (10, 1_000, 10_000):
        session = make()
        cells.append(f"{await save_at(session, length):12.2f}")
        await session.close()
    session = make()
    cells.append(f"{await saves_a_second(session):14.0f}")
    await session.close()
    return "".join(cells)


def main() -> None:
    """Print a row for each store."""
    print(f"{'a save of 2 messages, ms, at n =':36}{'10':>12}{'1,000':>12}{'10,000':>12}{'saves a second':>16}")
    with on_servers() as makers:
        for name, make in makers.items():
            print(f"{name:36}{asyncio.run(_row(make))}", flush=True)


if __name__ == "__main__":
    main()
