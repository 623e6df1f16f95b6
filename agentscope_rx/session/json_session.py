"""`JsonSession`: sessions in files, one folder for each key; consistent after a crash, safe for several processes.

    ~/.agentscope_rx/sessions/
        ann/                        the key, in characters that are safe in file names (`manifest`)
            manifest.json           the list of its files (`manifest`)
            memory.1.jsonl          a list: one item on each line, appended to while it only grows
            state.7.json            a value
            lock                    held by the writer

All file work is done on worker threads. Readers take no lock and see the state after one save. A writer that finds the
session locked tries again after a pause on the loop's clock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError, SessionStorageError
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, defer, on_worker
from agentscope_rx.session.attempts import LOCK_SECONDS, Attempt, HeldError, begun_to_end, lock_policy, until_free
from agentscope_rx.session.durable import LOCK, is_path, locked, make_folder
from agentscope_rx.session.entry import check_key, check_name, check_names, decode, encode
from agentscope_rx.session.folder import Folder, latest_key, stored_keys
from agentscope_rx.session.session import ANY_VERSION, Expected, Items, Saved, Session, check_expected

T = TypeVar("T")

DEFAULT_ROOT = "~/.agentscope_rx/sessions"


class JsonSession(Session):
    """Keeps sessions in files below the folder `root`, which the first write creates: one folder for each key.

        ~/.agentscope_rx/sessions/
            ann/                    the key; characters other than a-z, 0-9, - and _ are escaped
                manifest.json       the content: each entry's file, size and digest
                memory.1.jsonl      a list: one item on each line
                state.7.json        a value
                lock                held by the writer

    A leading `~` is expanded. A relative path is below the working directory of now, also if that changes later.

    - A crash leaves the previous save or this one, at whatever byte it happens.
    - Readers take no lock. Writers of one session take turns, also across processes: a change that cannot begin for
      `lock_timeout` seconds is a `SessionLockedError`. A lock ends with its process.
    - Files belong to their owner only. Work on files is done on worker threads.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, *, lock_timeout: float = LOCK_SECONDS) -> None:
        self._lock_retry = lock_policy(lock_timeout)
        self.root: Path = Path(DEFAULT_ROOT if root is None else root)
        if not is_path(text := str(self.root)):
            raise ConfigurationError(f"JsonSession takes the path of a folder, not {root!r:.60}.")
        self._folder = self.root if text.startswith("~") else Path(os.path.abspath(self.root))

    def __repr__(self) -> str:
        return f"<JsonSession in {self.root}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSession) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> str:
        """The absolute path of the folder."""
        return os.path.abspath(os.path.expanduser(self._folder))

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        def save() -> Flow[str | None]:
            entries = encode(key, values, lists)
            if not entries:
                return self._look(key, lambda folder: folder.checked(expected))

            def absent() -> str | None:
                check_expected(key, expected, None)
                return None

            # a save that expects a session must not make a folder for a deleted one
            make = expected is ANY_VERSION or expected is None
            return self._change(key, lambda folder: folder.write(entries, expected), absent, make=make)

        return defer(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        def load() -> Flow[Saved]:
            check_key(key)
            wanted = check_names(names)
            return self._look(key, lambda folder: decode(key, *folder.entries(wanted)))

        return defer(load)

    def remove(self, key: str, name: str) -> Flow[bool]:
        def remove() -> Flow[bool]:
            check_key(key)
            check_name(name)
            return self._change(key, lambda folder: folder.remove(name), _nothing_removed)

        return defer(remove)

    def delete(self, key: str) -> Flow[bool]:
        return defer(lambda: self._change(check_key(key), Folder.delete, _nothing_removed))

    def exists(self, key: str) -> Flow[bool]:
        return defer(lambda: self._look(check_key(key), Folder.exists))

    def keys(self) -> Flow[list[str]]:
        """The keys of all sessions, sorted; also of damaged ones, if the name of their folder holds the key."""

        def look() -> list[str]:
            with _our_errors(None, self.root):
                return stored_keys(_expanded(self._folder))

        return on_worker(look, ENGINE_WORKERS)

    def latest(self) -> Flow[str | None]:
        """Emits the key of the session that was saved last, by the times of its files; None if there is none."""

        def look() -> str | None:
            with _our_errors(None, self.root):
                return latest_key(_expanded(self._folder))

        return on_worker(look, ENGINE_WORKERS)

    def _look(self, key: str, work: Callable[[Folder], T]) -> Flow[T]:
        """Read the session on a worker."""
        return self._until_free(key, on_worker(lambda: self._at(key, work), ENGINE_WORKERS))

    def _change(self, key: str, work: Callable[[Folder], T], absent: Callable[[], T], *, make: bool = False) -> Flow[T]:
        """Change the session on a worker, with its lock held; calls `absent` if there is no folder and none is made."""

        def change(folder: Folder, attempt: Attempt) -> T | HeldError:
            if make:
                make_folder(folder.path)
            elif not folder.path.is_dir():
                return absent()
            with locked(folder.path):
                # checked with the lock held: a disposed save must not overwrite a later one
                return HeldError() if attempt.left else work(folder)

        changes = begun_to_end(lambda attempt: self._at(key, lambda folder: change(folder, attempt)))
        return self._until_free(key, changes)

    def _at(self, key: str, work: Callable[[Folder], T | HeldError]) -> T | HeldError:
        folder = Folder(_expanded(self._folder), key)
        try:
            with _our_errors(key, folder.path):
                return work(folder)
        except HeldError as held:
            # a value, not an error: it must not be reported as dropped if the subscriber has left
            return held

    def _until_free(self, key: str, attempt: Flow[T | HeldError]) -> Flow[T]:
        """Subscribe again while another writer holds the lock."""

        return until_free(attempt, key, lambda: str(Folder(_expanded(self._folder), key).path / LOCK), self._lock_retry)


def _nothing_removed() -> bool:
    return False


@contextmanager
def _our_errors(key: str | None, path: Path) -> Generator[None]:
    """Raise errors of the file system as `SessionStorageError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise SessionStorageError(key, str(error.filename or path), reason) from error


def _expanded(root: Path) -> Path:
    try:
        return root.expanduser()
    except RuntimeError as error:
        raise ConfigurationError(f"{root} cannot be used for sessions: {error} Give JsonSession a root.") from error
