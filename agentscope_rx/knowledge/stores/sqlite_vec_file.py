"""The file of a `SqliteVecChunkStore`, its tables and statements. Each operation opens the file anew.

So a store can be used on any thread and after a fork, and holds nothing open. The file is mapped into memory: what one
operation has read is there for the next.

| table       | a row                                                                             |
|-------------|-----------------------------------------------------------------------------------|
| `info`      | the format, and the model of the vectors                                          |
| `documents` | a document: its record, and its fields for conditions                             |
| `chunks`    | a chunk: its record; `blank` if its vector is all zeros, which has no cosine      |
| `words`     | the terms of a chunk, for FTS5 (BM25)                                             |
| `vectors`   | the vector of a chunk, for `vec0` of sqlite-vec, which compares with each of them |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from os import PathLike, fspath
from os.path import abspath, expanduser
from typing import Any, cast

import apsw

from agentscope_rx.errors import ConfigurationError, KnowledgeFormatError, KnowledgeStorageError
from agentscope_rx.knowledge.store import IndexInfo
from agentscope_rx.knowledge.stores.arguments import refuse_other

APPLICATION = 0x6B736356
FORMAT = 1
BUSY_SECONDS = 30.0
# (it has no types)
_library: Callable[[], str] = import_module("sqlite_vec").loadable_path
_MAPPED = 1 << 40
"""Bytes of the file that are mapped at most: all of it."""

_TABLES = """
CREATE TABLE info (embedding TEXT NOT NULL, dimensions INTEGER NOT NULL);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, chunks INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    record BLOB NOT NULL, fields TEXT NOT NULL
);
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY, document INTEGER NOT NULL, place INTEGER NOT NULL, page INTEGER, kind TEXT NOT NULL,
    blank INTEGER NOT NULL, record BLOB NOT NULL
);
CREATE UNIQUE INDEX chunks_of_documents ON chunks (document, place);
CREATE INDEX blank_chunks ON chunks (number) WHERE blank;
CREATE VIRTUAL TABLE words USING fts5 (
    terms, content = '', contentless_delete = 1, tokenize = "porter unicode61 remove_diacritics 2"
);
"""


class VecFile:
    """The file at this path."""

    def __init__(self, path: str | PathLike[str]) -> None:
        name = fspath(path)
        if not isinstance(name, str) or not name.strip() or name.startswith((":memory:", "file:")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"SqliteVecChunkStore needs the path of a file, such as 'knowledge.db', not {path!r:.60}."
            )
        # (a program that changes its working folder goes on with the same file)
        self.path: str = abspath(expanduser(name))

    @contextmanager
    def reading(self) -> Generator[apsw.Connection | None]:
        """A connection that sees one moment; None if there is no store."""
        with self._our_errors(), closing(self._connected()) as db:
            _apply(db, "BEGIN")
            try:
                yield db if self._is_store(db) else None
            finally:
                _apply(db, "ROLLBACK")

    @contextmanager
    def writing(self) -> Generator[apsw.Connection]:
        """A connection in a transaction, which commits at the end and is undone at an error."""
        with self._our_errors(), closing(self._connected()) as db:
            _apply(db, "BEGIN IMMEDIATE")
            try:
                if not self._is_store(db):
                    _apply(db, _TABLES)
                    _apply(db, f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT}")
                yield db
                _apply(db, "COMMIT")
            except BaseException:
                if db.in_transaction:
                    with suppress(apsw.Error):
                        _apply(db, "ROLLBACK")
                raise

    def open(self, info: IndexInfo) -> IndexInfo:
        """Make the store one of these vectors, unless it has others."""
        with self.reading() as db:
            if db is not None and info_of(db) == info:
                return info
        with self.writing() as db:
            has = info_of(db)
            if has is not None:
                if has != info and rows(db, "SELECT 1 FROM documents LIMIT 1"):
                    refuse_other(self.path, has, info)
                _apply(db, "DELETE FROM info; DROP TABLE IF EXISTS vectors")
            rows(db, "INSERT INTO info VALUES (?, ?)", info.embedding, info.dimensions)
            columns = f"vector float[{info.dimensions}] distance_metric=cosine"
            _apply(db, f"CREATE VIRTUAL TABLE vectors USING vec0 ({columns})")
        return info

    def _connected(self) -> apsw.Connection:
        with suppress(OSError):
            # a new file is its owner's only; SQLite reports what is wrong with the path
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        db = apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(int(BUSY_SECONDS * 1000))
            db.enable_load_extension(True)
            db.load_extension(_library())
            db.enable_load_extension(False)
            _apply(db, f"PRAGMA mmap_size = {_MAPPED}")
        except BaseException:
            db.close()
            raise
        return db

    def _is_store(self, db: apsw.Connection) -> bool:
        """True for the file of a store, False for an empty one; an error for any other."""
        application, version = value(db, "PRAGMA application_id"), value(db, "PRAGMA user_version")
        if application == APPLICATION:
            if version != FORMAT:
                raise KnowledgeFormatError(
                    self.path, f"it has format {version}, this version of agentscope-rx knows {FORMAT}."
                )
            return True
        if application or version or rows(db, "SELECT 1 FROM sqlite_master LIMIT 1"):
            raise KnowledgeFormatError(self.path, "it is a database of another program or store; name another file.")
        return False

    @contextmanager
    def _our_errors(self) -> Generator[None]:
        try:
            yield
        except (apsw.BusyError, apsw.LockedError) as error:
            reason = f"another process has been writing for {BUSY_SECONDS:g} s"
            raise KnowledgeStorageError(self.path, reason, retryable=True) from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise KnowledgeFormatError(self.path, f"SQLite says: {error}.") from error
        except (apsw.Error, OSError) as error:
            raise KnowledgeStorageError(self.path, str(error)) from error


def info_of(db: apsw.Connection) -> IndexInfo | None:
    """What the vectors of the store are made with, None before the first `open`."""
    found = rows(db, "SELECT embedding, dimensions FROM info")
    return IndexInfo(embedding=found[0][0], dimensions=found[0][1]) if found else None


def rows(db: apsw.Connection, sql: str, *values: object) -> Sequence[Any]:
    """The rows of a statement."""
    # (the types of its bindings are not complete)
    execute = cast("Callable[[str, tuple[object, ...]], Iterable[Any]]", db.execute)  # pyright: ignore[reportUnknownMemberType]
    return list(execute(sql, values))


def value(db: apsw.Connection, sql: str, *values: object) -> Any:
    """The first value of the first row."""
    return rows(db, sql, *values)[0][0]


def _apply(db: apsw.Connection, statements: str) -> None:
    """Carry out statements that give no rows."""
    rows(db, statements)
