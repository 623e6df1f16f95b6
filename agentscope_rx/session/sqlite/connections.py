"""The connections to one SQLite file: opened when needed, kept for the next operation, none open over a fork.

SQLite's locks belong to the process, and its bookkeeping of them is copied by a fork: a child that used a file which
was open in its parent would believe that it holds locks. So a fork waits until no operation is in progress, closes the
connections that are kept, and parent and child open their own afterwards.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from agentscope_rx.errors import SessionDamagedError, SessionFormatError, SessionStorageError
from agentscope_rx.reactive.kernel.forking import new_lock, new_rlock
from agentscope_rx.session.attempts import HeldError
from agentscope_rx.session.sqlite.faults import RESTORE, is_held
from agentscope_rx.session.sqlite.tables import APPLICATION, FORMAT, SCHEMA

Synchronous = Literal["full", "normal"]

KEPT = 4
"""How many connections without an operation stay open."""
QUEUE_SECONDS = 0.05
"""How long a writer blocks its thread for another one of this process, before it waits on the loop's clock."""
FORK_SECONDS = 10.0
"""How long a fork waits for operations in progress."""
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
# private: the file holds conversations; SQLite gives its other files the same mode
_MODE = 0o600
_SMALLEST = 512
"""Bytes of the smallest page: a database is empty, or has one."""


class Opened(NamedTuple):
    """A connection, and the file that it is connected to."""

    db: sqlite3.Connection
    file: tuple[int, int]


class Connections:
    """The connections to one file. `reading` and `writing` give one inside a block, in a transaction."""

    def __init__(self, path: str, synchronous: Synchronous) -> None:
        self.path = path
        self._synchronous = synchronous
        self._kept: list[Opened] = []
        self._users = 0
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._free = threading.Condition()
        self._writer = new_lock()
        self._closing = new_rlock()
        self._used = 0
        self._forking = False

    @classmethod
    def shared(cls, path: str, synchronous: Synchronous) -> Connections:
        """Those that all stores of this file have in this process; each calls `release` when it is done.

        A thousand agents with a store each of one file would have thousands of open files otherwise.
        """
        with _sharing:
            found = _shared.get((path, synchronous))
            if found is None:
                found = _shared[path, synchronous] = cls(path, synchronous)
            found._users += 1
            return found

    def release(self) -> None:
        """Close the file if no other store has it."""
        with _sharing:
            self._users -= 1
            last = not self._users
        if last:
            self.close()

    @contextmanager
    def reading(self, key: str | None) -> Generator[sqlite3.Connection | None]:
        """A connection in a transaction that sees one moment; None if there is no store at the path."""
        with self._operation(), self._connected(key, make=False) as db:
            if db is None:
                yield None
                return
            with _transaction(db, "BEGIN"):
                yield db

    @contextmanager
    def writing(self, key: str, *, make: bool) -> Generator[sqlite3.Connection | None]:
        """A connection in a transaction that commits at the end of the block; `HeldError` if another writer has one.

        Without a store at the path it is None, unless one is to be made.
        """
        with self._operation():
            if not self._writer.acquire(timeout=QUEUE_SECONDS):
                raise HeldError
            try:
                with self._connected(key, make=make) as db:
                    if db is None:
                        yield None
                        return
                    with _transaction(db, "BEGIN IMMEDIATE"):
                        yield db
            finally:
                self._writer.release()

    def close(self) -> None:
        """Close the connections that are kept; the next operation opens one."""
        # a second call returns when the file is closed, too; re-entrant, because the garbage collector may call it
        with self._closing:
            with self._free:
                kept, self._kept = self._kept, []
            for each in kept:
                _close(each.db)

    # --- forks

    def before_fork(self) -> None:
        """Let no operation begin, wait for those in progress, and close what is kept."""
        with self._free:
            self._forking = True
            self._free.wait_for(lambda: not self._used, FORK_SECONDS)
        self.close()

    def after_fork(self, *, child: bool) -> None:
        """Go on. In the child operations in progress have no thread."""
        if child:
            self._reset()
        with self._free:
            self._forking = False
            self._free.notify_all()

    # --- connections

    @contextmanager
    def _operation(self) -> Generator[None]:
        with self._free:
            self._free.wait_for(lambda: not self._forking)
            self._used += 1
        try:
            yield
        finally:
            with self._free:
                self._used -= 1
                self._free.notify_all()

    @contextmanager
    def _connected(self, key: str | None, *, make: bool) -> Generator[sqlite3.Connection | None]:
        """A connection that is kept or opened; one that has failed is closed."""
        opened = self._take() or self._open(key, make=make)
        if opened is None:
            yield None
            return
        try:
            yield opened.db
        except (sqlite3.Error, OSError) as error:
            if is_held(error):
                self._keep(opened)
            else:
                _close(opened.db)
            raise
        except BaseException:
            self._keep(opened)
            raise
        self._keep(opened)

    def _take(self) -> Opened | None:
        """A connection that is kept, if it is still one to the file of that name."""
        with self._free:
            opened = self._kept.pop() if self._kept else None
        if opened is None:
            return None
        if opened.file != self._file():
            # the file was removed or replaced: what is written to it would be lost
            _close(opened.db)
            self.close()
            return None
        return opened

    def _keep(self, opened: Opened) -> None:
        with self._free:
            # in a transaction only if its rollback failed
            if len(self._kept) < KEPT and not opened.db.in_transaction:
                self._kept.append(opened)
                return
        _close(opened.db)

    def _open(self, key: str | None, *, make: bool) -> Opened | None:
        if self._file() is None:
            if not os.path.isdir(folder := os.path.dirname(self.path)):
                raise SessionStorageError(key, self.path, f"there is no folder {folder}; make it first")
            if not make:
                return None
            # in this way only for a new file: closing a descriptor of an open one would end SQLite's locks on it
            with suppress(FileExistsError):
                os.close(os.open(self.path, _CREATE, _MODE))
        if 0 < (size := os.stat(self.path).st_size) < _SMALLEST:
            # SQLite takes it for an empty one
            raise SessionDamagedError(key, self.path, f"it ends after {size} bytes", RESTORE)
        db = sqlite3.connect(
            f"{Path(self.path).as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None, check_same_thread=False
        )
        try:
            db.text_factory = bytes
            with _transaction(db, "BEGIN"):
                there = self._is_store(db, key)
            if not there and not (make and self._make(db, key)):
                db.close()
                return None
            # (a number: what `PRAGMA synchronous` takes)
            db.execute(f"PRAGMA synchronous = {2 if self._synchronous == 'full' else 1}")
            file = self._file()
        except BaseException:
            _close(db)
            raise
        return Opened(db, file or (0, 0))

    def _is_store(self, db: sqlite3.Connection, key: str | None) -> bool:
        """True for the file of a store, False for an empty one; an error for any other. Needs a transaction."""
        application: int = db.execute("PRAGMA application_id").fetchone()[0]
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        if application == APPLICATION:
            if found > FORMAT:
                raise SessionFormatError(key, self.path, found, FORMAT)
            return True
        if application or found or db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None:
            reason = "it is a database of another program; give SqliteSession a file of its own"
            raise SessionStorageError(key, self.path, reason)
        return False

    def _make(self, db: sqlite3.Connection, key: str | None) -> bool:
        """Make the tables, unless another process has done so meanwhile."""
        # kept in the file, so that it is set once
        db.execute("PRAGMA journal_mode = WAL")
        with _transaction(db, "BEGIN IMMEDIATE"):
            if not self._is_store(db, key):
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
        return True

    def _file(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return (found.st_dev, found.st_ino)


@contextmanager
def _transaction(db: sqlite3.Connection, begin: str) -> Generator[None]:
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # some errors have ended the transaction already
        if db.in_transaction:
            with suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def _close(db: sqlite3.Connection) -> None:
    # the close of the last connection moves the log into the file; if that fails, the next one does it
    with suppress(sqlite3.Error):
        db.close()


_all: weakref.WeakSet[Connections] = weakref.WeakSet()
_shared: weakref.WeakValueDictionary[tuple[str, str], Connections] = weakref.WeakValueDictionary()
# re-entrant, because the garbage collector may release a store
_sharing = new_rlock()


def _before_fork() -> None:
    for each in tuple(_all):
        each.before_fork()


def _after_fork(*, child: bool) -> None:
    for each in tuple(_all):
        each.after_fork(child=child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(child=False),
        after_in_child=lambda: _after_fork(child=True),
    )
