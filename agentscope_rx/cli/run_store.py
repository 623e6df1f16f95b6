"""`run_store`: where the processes of `serve` keep the events of live runs, beside their conversations."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from agentscope_rx.session import Session, SqliteSession, open_session

RUNS_TTL = 3600.0
"""Seconds for which Redis keeps the events of runs whose process is gone."""


def run_store(sessions: str) -> Session | None:
    """The store beside this one of conversations, for SQLite and Redis; None for others, which are too slow for it."""
    store = open_session(sessions)
    if isinstance(store, SqliteSession):
        path = Path(store.path)
        # a file of its own: conversations do not wait for it, and it may lose its last writes in a power cut
        return SqliteSession(path.with_name(f"{path.stem}.runs{path.suffix}"), synchronous="normal")
    if type(store).__name__ != "RedisSession":
        return None
    # imported here: it needs the packages of an extra
    from agentscope_rx.session import RedisSession

    return RedisSession(sessions, prefix=f"{cast('RedisSession', store).prefix}runs:", ttl=RUNS_TTL)
