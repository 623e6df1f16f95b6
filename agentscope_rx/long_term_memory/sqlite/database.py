"""The file of a `SqliteLongTermMemory`: its tables, its connections, and the errors of SQLite as those of this library.

Each operation opens the file anew. So the object can be used on any thread and after a fork, and holds nothing open.
The names begin with `ltm_`, so the file may hold other tables, too.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from os import PathLike, fspath
from os.path import abspath, expanduser

from agentscope_rx.errors import (
    ConfigurationError,
    LongTermMemoryFormatError,
    LongTermMemoryStorageError,
    SetupError,
)

FORMAT = 1
BUSY_SECONDS = 30.0
"""How long an operation waits for another process that writes."""

_TABLES = """
CREATE TABLE ltm_format (version INTEGER NOT NULL);
CREATE TABLE ltm_facts (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL,
    user TEXT NOT NULL, agent TEXT NOT NULL, session TEXT NOT NULL,
    text TEXT NOT NULL, subject TEXT NOT NULL, same TEXT NOT NULL, gist TEXT NOT NULL,
    distilled INTEGER NOT NULL, version INTEGER NOT NULL,
    created TEXT NOT NULL, updated TEXT NOT NULL, confirmed TEXT NOT NULL,
    ended TEXT, reason TEXT, superseded_by TEXT,
    source TEXT NOT NULL
);
CREATE UNIQUE INDEX ltm_same ON ltm_facts (user, agent, session, same) WHERE ended IS NULL;
CREATE INDEX ltm_gist ON ltm_facts (user, agent, session, gist) WHERE ended IS NULL;
CREATE INDEX ltm_root ON ltm_facts (root);
CREATE TABLE ltm_vectors (number INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);
CREATE TABLE ltm_changes (user TEXT PRIMARY KEY, number INTEGER NOT NULL);
CREATE VIRTUAL TABLE ltm_words USING fts5 (owner, terms, tokenize = "porter unicode61 remove_diacritics 2");
"""


class Database:
    """The file at this path."""

    def __init__(self, path: str | PathLike[str], busy_seconds: float = BUSY_SECONDS) -> None:
        name = fspath(path)
        if not isinstance(name, str) or not name.strip() or name.startswith((":memory:", "file:")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"SqliteLongTermMemory needs the path of a file, such as 'notes.db', not {path!r:.60}."
            )
        # (a program that changes its working folder goes on with the same file)
        self.path: str = abspath(expanduser(name))
        self._busy_seconds = busy_seconds

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A connection for reading, in one transaction."""
        with self._translated(), closing(self._open()) as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.rollback()

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """A connection for writing: one transaction, committed at the end, undone at an error."""
        with self._translated(), closing(self._open()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def checkpoint(self) -> None:
        """Overwrite the write-ahead log, if the file has one: it holds what was erased, while others use the file.

        A process that is reading at this moment keeps it for as long as it reads.
        """
        with self._translated(), closing(self._open()) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _open(self) -> sqlite3.Connection:
        with suppress(OSError):
            # a new file is its owner's only; SQLite reports what is wrong with the path
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(self.path, timeout=self._busy_seconds, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            # what is forgotten is overwritten in the file
            connection.execute("PRAGMA secure_delete = ON")
            if not self._version(connection):
                self._create(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ltm_format'").fetchone()
        if known is None:
            return 0
        found = int(connection.execute("SELECT version FROM ltm_format").fetchone()[0])
        if found != FORMAT:
            raise LongTermMemoryFormatError(
                self.path, f"It has format {found}, this version of agentscope-rx knows {FORMAT}."
            )
        return found

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # (another process may have made them meanwhile)
            if not self._version(connection):
                for statement in _TABLES.split(";"):
                    if statement.strip():
                        connection.execute(statement)
                connection.execute("INSERT INTO ltm_format VALUES (?)", (FORMAT,))
            connection.commit()
        except BaseException:
            connection.rollback()
            raise

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "no such module: fts5" in str(error):
                raise SetupError(
                    "This Python's SQLite has no FTS5, which SqliteLongTermMemory needs. Use a Python whose "
                    "sqlite3 module has it, as those of python.org and of the distributions do."
                ) from error
            busy = "locked" in str(error) or "busy" in str(error)
            reason = f"another process has been writing for {self._busy_seconds:g} s" if busy else str(error)
            raise LongTermMemoryStorageError(self.path, reason, retryable=busy) from error
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error) or "malformed" in str(error):
                raise LongTermMemoryFormatError(self.path, f"SQLite says: {error}.") from error
            raise LongTermMemoryStorageError(self.path, str(error)) from error
