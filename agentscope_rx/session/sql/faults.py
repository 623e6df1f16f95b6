"""Errors of SQLAlchemy, its drivers and the network as errors of the session."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from agentscope_rx.errors import SessionError, SessionLockedError, SessionServerError

_RETRYABLE = ("08", "40", "53", "55P03", "57")
"""SQLSTATE: no connection, rolled back, too few resources, a lock not available, cancelled or shut down by someone."""
_NEVER_RETRYABLE = ("53100",)
"""SQLSTATE: the disk is full."""
_LOST = ("08", "57")
"""SQLSTATE: the connection was lost, or ended by the server."""
_DRIVERS = frozenset({"asyncpg", "aiosqlite", "sqlite3", "aiomysql", "asyncmy", "pymysql", "psycopg"})


class Progress:
    """How far a request has come: `unsure` from the moment that its commit is sent until the answer is there."""

    __slots__ = ("unsure",)

    def __init__(self) -> None:
        self.unsure: bool = False


@contextmanager
def our_errors(key: str | None, server: str, timeout: float, progress: Progress) -> Generator[None]:
    """Raise the errors of the block as `SessionError`s."""
    try:
        yield
    except PoolTimeoutError as error:
        reason = "all connections of the pool were in use for too long"
        raise SessionServerError(key, server, reason, retryable=True) from error
    except TimeoutError as error:
        reason = f"there was no answer within {timeout:g} s"
        raise SessionServerError(key, server, reason, retryable=True, unsure=progress.unsure) from error
    except (SQLAlchemyError, OSError) as error:
        raise _told(error, key, server, progress) from error
    except Exception as error:
        # SQLAlchemy wraps the errors of statements, not those of connecting
        if type(error).__module__.partition(".")[0] not in _DRIVERS:
            raise
        raise _told(error, key, server, progress) from error


def _told(error: Exception, key: str | None, server: str, progress: Progress) -> SessionError:
    found: BaseException = (error.orig or error) if isinstance(error, DBAPIError) else error
    # (not the text of a SQLAlchemyError, which may have the statement and its parameters)
    reason = str(found) or type(found).__name__
    state = getattr(found, "sqlstate", None)
    if isinstance(state, str):
        retryable = state.startswith(_RETRYABLE) and not state.startswith(_NEVER_RETRYABLE)
        # with another answer the transaction is rolled back
        unsure = progress.unsure and state.startswith(_LOST)
        return SessionServerError(key, server, _without_class(reason), retryable=retryable, unsure=unsure)
    if "database is locked" in reason and key is not None:
        return SessionLockedError(key, server)
    lost = isinstance(error, OSError) or (isinstance(error, DBAPIError) and error.connection_invalidated)
    return SessionServerError(key, server, _without_class(reason), retryable=lost, unsure=progress.unsure)


def _without_class(reason: str) -> str:
    """The text of a driver's error without the class that SQLAlchemy's adapter puts before it."""
    return reason.partition(">: ")[2] or reason if reason.startswith("<class ") else reason
