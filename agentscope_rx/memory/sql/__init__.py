"""`SqlMemory`: a conversation of any length in a database. It needs the extra `sql`."""

from __future__ import annotations

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("sqlalchemy") is None:
    raise MissingExtraError("sqlalchemy", "sql")

from agentscope_rx.memory.sql.memory import SqlMemory

__all__ = ["SqlMemory"]
