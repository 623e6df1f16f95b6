"""`JsonSession`: sessions in files, one folder for each key; whole after a crash, safe for several processes.

    ~/.agentscope_rx/sessions/
        ann/                        the key, in characters that mean nothing to a file system (`naming`)
            manifest.json           what the session consists of (`manifest`)
            memory.1.jsonl          a list: one item on each line, appended to while it only grows
            state.7.json            a value
            lock                    held by whoever writes

All file work is done on worker threads. Readers take no lock, and see what one save left. A writer that finds another
one at work tries again after a moment of the loop's clock.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from agentscope_rx.errors import ConfigurationError, SessionLockedError, SessionStorageError
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    RetryPolicy,
    concat_map,
    defer,
    just,
    on_worker,
    retry,
    shield,
    using,
)
from agentscope_rx.session.durable import make_folder
from agentscope_rx.session.entry import check_key, check_name, check_names, decode, encode
from agentscope_rx.session.folder import Folder, stored_keys
from agentscope_rx.session.lock import LOCK, HeldError, locked
from agentscope_rx.session.session import ANY_VERSION, Expected, Saved, Session, check_expected

T = TypeVar("T")

DEFAULT_ROOT = "~/.agentscope_rx/sessions"
LOCK_SECONDS = 30.0
"""How long a change waits for another one to let go of the session."""
PAUSE, LONGEST_PAUSE = 0.002, 0.05
"""Seconds between two looks whether it has; each time the former more, to at most the latter."""


class JsonSession(Session):
    """Keeps sessions in files below `root`, which is made, and its `~` expanded, when it is first written to."""

    def __init__(self, root: str | os.PathLike[str] | None = None, *, lock_timeout: float = LOCK_SECONDS) -> None:
        if not lock_timeout >= 0:
            raise ConfigurationError(f"lock_timeout must be 0 or more seconds, not {lock_timeout!r}.")
        self.root = Path(DEFAULT_ROOT if root is None else root)
        self._patience = RetryPolicy(
            stop=lambda state: (state.seconds_since_start or 0.0) >= lock_timeout,
            # how long to wait is no secret
            wait=lambda state: min(LONGEST_PAUSE, PAUSE * state.attempt_number) * random.uniform(0.5, 1.0),  # noqa: S311
            retry=lambda state: isinstance(state.outcome and state.outcome.exception(), SessionLockedError),
        )

    def __repr__(self) -> str:
        return f"<JsonSession in {self.root}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSession) and self._place == other._place

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> str:
        """The folder, however it was named."""
        return os.path.abspath(os.path.expanduser(self.root))

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Sequence[object]] | None = None,
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

            # (a save that expects a session makes no folder for one that has gone)
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
            return self._change(key, lambda folder: folder.remove(name), _nothing)

        return defer(remove)

    def delete(self, key: str) -> Flow[bool]:
        return defer(lambda: self._change(check_key(key), Folder.delete, _nothing))

    def exists(self, key: str) -> Flow[bool]:
        return defer(lambda: self._look(check_key(key), Folder.is_there))

    def keys(self) -> Flow[list[str]]:
        """The keys of all sessions, sorted; also of damaged ones, as far as their folders' names tell."""

        def look() -> list[str]:
            with _our_errors(None, self.root):
                return stored_keys(_expanded(self.root))

        return on_worker(look, ENGINE_WORKERS)

    def _look(self, key: str, work: Callable[[Folder], T]) -> Flow[T]:
        """Read on a worker."""
        return self._until_free(key, on_worker(lambda: self._at(key, work), ENGINE_WORKERS))

    def _change(self, key: str, work: Callable[[Folder], T], absent: Callable[[], T], *, make: bool = False) -> Flow[T]:
        """Change a session on a worker, holding its lock; what `absent` gives if there is no folder, nor to be one."""

        def change(folder: Folder, visit: _Visit) -> T | HeldError:
            if make:
                make_folder(folder.path)
            elif not folder.path.is_dir():
                return absent()
            with locked(folder.path):
                # asked with the lock in hand: what was disposed of must not overwrite what was saved after that
                return HeldError() if visit.left else work(folder)

        # a change that has begun runs to its end, and an error that comes too late for the subscriber is reported
        attempt = using(
            lambda: just(_Visit()),
            lambda visit: shield(
                on_worker(lambda: self._at(key, lambda folder: change(folder, visit)), ENGINE_WORKERS)
            ),
            lambda visit, ending: None,
            on_dispose=_Visit.leave,
        )
        return self._until_free(key, attempt)

    def _at(self, key: str, work: Callable[[Folder], T | HeldError]) -> T | HeldError:
        folder = Folder(_expanded(self.root), key)
        try:
            with _our_errors(key, folder.path):
                return work(folder)
        except HeldError as held:
            # told as a value: a subscriber who has left need not hear of it
            return held

    def _until_free(self, key: str, attempt: Flow[T | HeldError]) -> Flow[T]:
        """Subscribe again while somebody else holds the session."""

        def unless_held(result: T | HeldError) -> T:
            if isinstance(result, HeldError):
                raise SessionLockedError(key, str(Folder(_expanded(self.root), key).path / LOCK))
            return result

        return attempt.pipe(concat_map(unless_held), retry(self._patience))


class _Visit:
    """Whether somebody still waits for a change."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = False

    def leave(self) -> None:
        """Nobody does."""
        self.left = True


def _nothing() -> bool:
    """There was nothing to remove."""
    return False


@contextmanager
def _our_errors(key: str | None, path: Path) -> Generator[None]:
    """The file system's errors as ours."""
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
