"""`SqliteSession`: many sessions in one SQLite file."""

from agentscope_rx.session.sqlite.session import SqliteSession

__all__ = ["SqliteSession"]
