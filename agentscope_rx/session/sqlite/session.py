"""`SqliteSession`: many sessions in one SQLite file; consistent after a crash, safe for several processes.

A save is one transaction. Readers never wait for writers (WAL). A writer that finds the file locked tries again after a
pause on the loop's clock. All work is done on worker threads.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, defer, on_worker
from agentscope_rx.session.attempts import LOCK_SECONDS, Attempt, HeldError, begun_to_end, lock_policy, until_free
from agentscope_rx.session.durable import is_path
from agentscope_rx.session.entry import check_key, check_name, check_names, decode, encode
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, Saved, Session, check_expected
from agentscope_rx.session.sqlite.connections import Connections, Synchronous
from agentscope_rx.session.sqlite.faults import typed_errors
from agentscope_rx.session.sqlite.tables import Tables

T = TypeVar("T")


class SqliteSession(Session):
    """Keeps sessions in the SQLite file `path`, which the first write creates; a leading `~` is expanded.

    - A save is one transaction. It survives the end of the process, `kill -9` included. With `synchronous="full"` it
      survives a power cut, too; `"normal"` is many times faster, and a power cut may undo the last saves, each of them
      as a whole.
    - Readers never wait. Writers of the file take turns, also across processes: a change that cannot begin for
      `lock_timeout` seconds is a `SessionLockedError`.
    - Each row has a checksum. A row that was changed or lost is a `SessionDamagedError` of its entry; other entries can
      be used, and a save of the whole entry repairs it.
    - A folder that does not exist, a file of another program, a full disk and missing permissions are
      `SessionStorageError`s; a file of a newer version is a `SessionFormatError`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "full",
        lock_timeout: float = LOCK_SECONDS,
    ) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or not is_path(text):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"SqliteSession takes the path of a file, not {path!r:.60}.")
        if text == ":memory:":
            raise ConfigurationError("SqliteSession takes the path of a file: use InMemorySession() for ':memory:'.")
        if synchronous not in ("full", "normal"):
            raise ConfigurationError(f"synchronous must be 'full' or 'normal', not {synchronous!r:.60}.")
        self.path: str = text
        self._place = os.path.abspath(os.path.expanduser(text))
        self._lock_retry = lock_policy(lock_timeout)
        self._connections = Connections.shared(self._place, synchronous)
        # at the latest when the program ends
        weakref.finalize(self, self._connections.release)

    def __repr__(self) -> str:
        return f"<SqliteSession in {self.path}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqliteSession) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        def absent() -> str | None:
            check_expected(key, expected, None)
            return None

        def save() -> Flow[str | None]:
            entries = encode(key, values, lists)
            if not entries:
                return self._look(key, lambda tables: tables.checked(key, expected), absent)
            make = expected is ANY_VERSION or expected is None
            return self._change(key, lambda tables: tables.write(key, entries, expected), absent, make=make)

        return defer(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Flow[Saved]:
            check_key(key)
            wanted = check_names(names)
            return self._look(key, lambda tables: decode(key, *tables.entries(key, wanted)), Saved)

        return defer(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> Flow[bool]:
            check_key(key)
            check_name(name)
            return self._change(key, lambda tables: tables.remove(key, name), bool)

        return defer(remove)

    def delete(self, key: str) -> Flow[bool]:
        return defer(lambda: self._change(check_key(key), lambda tables: tables.delete(key), bool))

    def exists(self, key: str) -> Flow[bool]:
        return defer(lambda: self._look(check_key(key), lambda tables: tables.version(key) is not None, bool))

    def keys(self) -> Flow[list[str]]:
        return self._look(None, Tables.keys, list[str])

    def latest(self) -> Flow[str | None]:
        """Emits the key of the session that was saved last, by the writers' clocks; None if there is none."""
        return self._look(None, Tables.latest, lambda: None)

    def close(self) -> Flow[None]:
        """Close the file; the next operation opens it again. Idempotent."""
        return on_worker(lambda: self._connections.close(), ENGINE_WORKERS)

    def _look(self, key: str | None, work: Callable[[Tables], T], absent: Callable[[], T]) -> Flow[T]:
        """Read on a worker; calls `absent` if there is no file."""

        def look() -> T:
            with self._connections.reading(key) as db:
                return absent() if db is None else work(Tables(db, self._place))

        return self._until_free(key, on_worker(lambda: self._typed(key, look), ENGINE_WORKERS))

    def _change(self, key: str, work: Callable[[Tables], T], absent: Callable[[], T], *, make: bool = False) -> Flow[T]:
        """Change on a worker in one transaction; calls `absent` if there is no file and none is made."""

        def change(attempt: Attempt) -> T:
            with self._connections.writing(key, make=make) as db:
                if attempt.left:
                    # checked with the lock held: a disposed save must not overwrite a later one
                    raise HeldError
                return absent() if db is None else work(Tables(db, self._place))

        return self._until_free(key, begun_to_end(lambda attempt: self._typed(key, lambda: change(attempt))))

    def _typed(self, key: str | None, work: Callable[[], T]) -> T | HeldError:
        try:
            with typed_errors(key, self._place):
                return work()
        except HeldError as held:
            # a value, not an error: it must not be reported as dropped if the subscriber has left
            return held

    def _until_free(self, key: str | None, attempt: Flow[T | HeldError]) -> Flow[T]:
        return until_free(attempt, key, lambda: self._place, self._lock_retry)
