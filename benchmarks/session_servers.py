"""Stores on real servers, for the benchmarks of sessions: `with on_servers() as makers: makers["Redis"]()`.

The servers are started for it, on this machine and without a network between, and acknowledge without waiting for the
disk; so this is the cost of the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from agentscope_rx.session import RedisSession, Session, SqlSession
from tests.support.servers import postgres_server, postgres_url, redis_server, redis_url


@contextmanager
def on_servers() -> Generator[dict[str, Callable[[], Session]]]:
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
