"""The file of a `SqliteChunkStore`: its connections, transactions, and SQLite's errors as those of this library.

Connections are kept open between operations and closed before a fork, as `SqliteSession` does it. The file is in WAL
mode: readers see one moment, and wait for no writer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from os.path import abspath, expanduser
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, KnowledgeFormatError, KnowledgeStorageError, SetupError
from agentscope_rx.knowledge.stores.sqlite.damage import Damage, format_of, is_whole
from agentscope_rx.knowledge.stores.sqlite.tables import FORMAT, SCHEMA
from agentscope_rx.session.attempts import HeldError
from agentscope_rx.session.sqlite.connections import Connections, Opened

BUSY_SECONDS = 30.0
"""How long an operation waits for another writer."""
_DAMAGED = "The file is damaged. Restore a copy, or delete the file and index the documents again"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def path_of(path: str | PathLike[str]) -> str:
    """The absolute path: a program that changes its working folder goes on with the same file."""
    name = fspath(path) if isinstance(path, (str, os.PathLike)) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(name, str) or not name.strip() or name.startswith((":memory:", "file:")):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"SqliteChunkStore needs the path of a file, such as 'knowledge.db', not {path!r:.60}. "
            "InMemoryChunkStore keeps chunks in memory."
        )
    return abspath(expanduser(name))


class Database(Connections):
    """The file at this path."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "normal")

    @contextmanager
    def read(self) -> Generator[sqlite3.Connection | None]:
        """A connection in a transaction that sees one moment; None if there is no file."""
        with self._translated(), self.reading(None) as connection:
            yield connection

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection]:
        """A connection in a transaction that commits at the end, and is undone by an error."""
        with self._translated(), self.writing("", make=True) as connection:
            assert connection is not None
            yield connection

    def _open(self, key: str | None, *, make: bool) -> Opened | None:
        if self._file() is None:
            if not os.path.isdir(folder := os.path.dirname(self.path)):
                raise KnowledgeStorageError(self.path, f"there is no folder {folder}; make it first")
            if not make:
                return None
            # private: the file holds the text of the documents. In this way only for a new file: closing a descriptor
            # of an open one would end SQLite's locks on it
            with suppress(FileExistsError):
                os.close(os.open(self.path, _CREATE, 0o600))
        connection = sqlite3.connect(
            f"{Path(self.path).as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            # a commit survives the end of the process; after a loss of power the last ones may be missing
            connection.execute("PRAGMA synchronous = NORMAL")
            # the file may come from others: nothing in its definitions may call a function with effects
            connection.execute("PRAGMA trusted_schema = OFF")
            there = self._is_there(connection)
            if not there and not make:
                connection.close()
                return None
            if not there:
                self._create(connection)
            file = self._file()
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise
        return Opened(connection, file or (0, 0))

    def _is_there(self, connection: sqlite3.Connection) -> bool:
        found = format_of(connection)
        if found is not None and found != FORMAT:
            raise KnowledgeFormatError(
                self.path, f"it has format {found!r:.20}, this version of agentscope-rx knows {FORMAT}."
            )
        return is_whole(connection)

    def _create(self, connection: sqlite3.Connection) -> None:
        # kept in the file, so that it is set once
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            # (another process may have made them meanwhile)
            if not self._is_there(connection):
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute("INSERT INTO kb_format VALUES (?)", (FORMAT,))
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except HeldError as error:
            raise self._busy() from error
        except sqlite3.Error as error:
            raise self._typed(error) from error
        except Damage as error:
            raise KnowledgeFormatError(self.path, f"{error}. {_DAMAGED}.") from error
        except UnicodeDecodeError as error:
            raise KnowledgeFormatError(self.path, f"it has text that is not UTF-8. {_DAMAGED}.") from error
        except OSError as error:
            raise KnowledgeStorageError(self.path, error.strerror or str(error)) from error

    def _busy(self) -> KnowledgeStorageError:
        return KnowledgeStorageError(self.path, "another process is writing", retryable=True)

    def _typed(self, error: sqlite3.Error) -> Exception:
        code: object = getattr(error, "sqlite_errorcode", 0)
        primary = code & 0xFF if isinstance(code, int) else 0
        if "no such module: fts5" in str(error):
            return SetupError(
                "This Python's SQLite has no FTS5, which SqliteChunkStore needs. Use a Python whose sqlite3 module has "
                "it, as those of python.org and of the distributions do."
            )
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
            return self._busy()
        if primary == sqlite3.SQLITE_NOTADB:
            return KnowledgeFormatError(self.path, "it is no SQLite database. Give the store a path of its own.")
        if "decode to UTF-8" in str(error):
            # (an error of Python's module, without a code)
            return KnowledgeFormatError(self.path, f"it has text that is not UTF-8. {_DAMAGED}.")
        if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
            return KnowledgeFormatError(self.path, f"SQLite says: {error}. {_DAMAGED}.")
        if primary == sqlite3.SQLITE_READONLY:
            what = "it is read-only. SQLite writes also to read it: make the file and its folder writable"
            return KnowledgeStorageError(self.path, what)
        return KnowledgeStorageError(self.path, str(error))
