"""What SQLite reports, as errors of the library.

| SQLite                                             | here                                               |
|----------------------------------------------------|----------------------------------------------------|
| BUSY, LOCKED, PROTOCOL                             | `HeldError`: another writer, try again             |
| CORRUPT, NOTADB; a missing table, a broken rule    | `SessionDamagedError`                              |
| FULL, IOERR, READONLY, CANTOPEN, PERM and others   | `SessionStorageError`                              |
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager

from agentscope_rx.errors import SessionDamagedError, SessionStorageError
from agentscope_rx.session.attempts import HeldError

RESTORE = (
    "Put back a copy of it, with its -wal file if the copy has one, or save what can still be read: "
    "sqlite3 FILE .recover"
)
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT}
_HINTS = {
    sqlite3.SQLITE_FULL: "The old state stays; free some space and save again",
    sqlite3.SQLITE_READONLY: "Change the permissions of the file and of its folder",
    sqlite3.SQLITE_CANTOPEN: "SQLite writes two more files beside it, so its folder must be writable",
}


def is_held(error: Exception) -> bool:
    """True if another connection holds the lock."""
    return _code(error) in _BUSY


@contextmanager
def typed_errors(key: str | None, path: str) -> Generator[None]:
    """Raise the errors of SQLite and of the file system as those of the library."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code in _BUSY:
            raise HeldError from None
        if code in _DAMAGED:
            raise SessionDamagedError(key, path, str(error), RESTORE) from error
        hint = _HINTS.get(code)
        raise SessionStorageError(key, path, f"{error}. {hint}" if hint else str(error)) from error
    except UnicodeDecodeError as error:
        raise SessionDamagedError(key, path, f"it has text that is not UTF-8 ({error})", RESTORE) from error
    except OSError as error:
        raise SessionStorageError(key, path, error.strerror or str(error)) from error


def _code(error: Exception) -> int:
    """The primary result code; 0 for another error."""
    found: object = getattr(error, "sqlite_errorcode", 0)
    return found & 0xFF if isinstance(found, int) else 0
