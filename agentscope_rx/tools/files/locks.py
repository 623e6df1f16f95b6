"""One lock for each file, for all who use it in this process: what is read, changed and written is not lost."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from weakref import WeakValueDictionary

from agentscope_rx.reactive.kernel.forking import new_lock

_locks: WeakValueDictionary[object, _FileLock] = WeakValueDictionary()
_guard = new_lock()


class _FileLock:
    """A lock that goes when nobody holds it or waits for it."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = new_lock()


@contextmanager
def locked(*keys: object) -> Generator[None]:
    """Hold the locks of these files; always taken in one order, so that no two wait for each other."""
    with ExitStack() as held:
        for key in sorted(set(keys), key=repr):
            with _guard:
                lock = _locks.setdefault(key, _FileLock())
            held.enter_context(lock.lock)
            # the lock lives as long as it is held
            held.callback(_keep, lock)
        yield


def _keep(_: object) -> None:
    return None
