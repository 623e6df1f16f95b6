"""`SqlSession`: sessions in a database, by SQLAlchemy's asyncio engine. It needs the extra `sql`."""

from __future__ import annotations

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("sqlalchemy") is None:
    raise MissingExtraError("sqlalchemy", "sql")

from agentscope_rx.session.sql.session import SqlSession

__all__ = ["SqlSession"]
