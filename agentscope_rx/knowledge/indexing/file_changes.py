"""`FileChanges`: that something in a folder has changed, by the file system's notifications. Needs `watchfiles`.

    subscribed   --()------{a}------{b, c}--      () when the watcher is ready; then the paths that have changed

Notifications may be late, doubled or, of too many at once, lost: they say when to look, not what has changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, Protocol, cast

from agentscope_rx.errors import KnowledgeError, MissingExtraError
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, Outcome, defer, iterate_on_worker, just, using

STEP: Final = 50
"""Milliseconds without a change after which changes are reported, and in which a disposal is noticed."""
LOOK: Final = 5_000
"""Milliseconds after which the watcher returns without a change."""


class _Watcher(Protocol):
    def __enter__(self) -> _Watcher: ...
    def __exit__(self, *args: object) -> None: ...
    def watch(self, debounce: int, step: int, timeout: int, stop: threading.Event) -> object: ...


class FileChanges:
    """Reports that something in a folder has changed, by the file system's notifications (package `watchfiles`).

        subscribed   --()------{a}------{b, c}--      () when the watcher is ready; then the paths that have changed

    Changes within `debounce` seconds are reported together. Notifications may be late, doubled or lost: they say when
    to look, not what has changed. `polling` looks at the files in intervals, for network drives; None takes the
    environment variable WATCHFILES_FORCE_POLLING.
    """

    def __init__(self, *, debounce: float = 1.0, polling: bool | None = None) -> None:
        self._debounce = max(STEP, round(debounce * 1000))
        self._polling = polling

    def of(self, path: Path) -> Flow[frozenset[str]]:
        """The paths in this folder that have changed; an empty set when the watcher is ready.

        Signals: sets of paths, without an end; `MissingExtraError`; `KnowledgeError` if the folder cannot be watched.
        Cancels: the watcher; its thread is free within a few hundredths of a second.
        """

        def stop(event: threading.Event, outcome: Outcome | None = None) -> None:
            event.set()

        def watch(event: threading.Event) -> Flow[frozenset[str]]:
            return iterate_on_worker(partial(self._changes, path, event), ENGINE_WORKERS)

        return using(lambda: defer(lambda: just(threading.Event())), watch, stop, on_dispose=stop)

    def _changes(self, path: Path, stop: threading.Event) -> Iterator[frozenset[str]]:
        with self._watcher(path) as watcher:
            yield frozenset()
            while not stop.is_set():
                found = watcher.watch(self._debounce, STEP, LOOK, stop)
                if isinstance(found, set):
                    yield frozenset(name for _, name in cast("set[tuple[int, str]]", found))
                elif found == "signal":
                    # a Ctrl-C, which the main thread gets, too
                    return

    def _watcher(self, path: Path) -> _Watcher:
        try:
            # (its documentation calls this "rust backend direct usage"; the functions around it do not say when the
            # watcher is ready, and a change before that is lost)
            from watchfiles._rust_notify import RustNotify
        except ImportError:
            raise MissingExtraError("watchfiles", "knowledge") from None
        polling = self._polling
        if polling is None:
            polling = os.environ.get("WATCHFILES_FORCE_POLLING", "").lower() not in ("", "false", "disable", "disabled")
        try:
            return cast("_Watcher", RustNotify([str(path)], False, polling, 300, True, True))
        except OSError as error:
            raise KnowledgeError(f"{path} cannot be watched: {error}.") from error
