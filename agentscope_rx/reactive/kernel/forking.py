"""Resetting locks and objects in a forked child.

A child of `os.fork()` has a copy of all objects, but only one thread. A lock that another thread held at that moment
would stay locked for good, and the work of the parent's threads and loops would never be done. So locks that are kept
for longer than a call come from `new_lock()`, and objects with such state implement `after_fork()`.
"""

from __future__ import annotations

import itertools
import os
import threading
from typing import Protocol, TypeVar, cast
from weakref import ref

from reactivex.scheduler import ImmediateScheduler, TimeoutScheduler

from agentscope_rx.reactive.kernel.dropped import report_dropped

T = TypeVar("T")


class Forked(Protocol):
    """An object that has to change in a forked child."""

    def after_fork(self) -> None:
        """Drop the work of the parent's threads and loops. Called in the child, after its locks were freed."""
        ...


class _ForkedRef(ref[Forked]):
    """A weak reference to such an object, with its id: `weakref.KeyedRef`, which costs two calls in Python."""

    __slots__ = ("key",)

    key: int


class _Lock(Protocol):
    def _at_fork_reinit(self) -> None: ...


_locks: set[ref[object]] = set()
# by id: an object may be equal to another, or not hashable
_objects: dict[int, _ForkedRef] = {}
_inherited: list[object] = []


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, even if a thread of the parent held it."""
    return freed_in_child(threading.Lock())


def new_rlock() -> threading.RLock:
    """As `new_lock`, re-entrant."""
    return freed_in_child(threading.RLock())


def freed_in_child(lock: T) -> T:
    """The lock that is given, freed in forked children; held weakly."""
    _locks.add(ref(lock, _locks.discard))
    return lock


_SHARED = tuple(new_rlock() for _ in range(64))
_next_shared = itertools.cycle(_SHARED).__next__


def shared_lock() -> threading.RLock:
    """One of a few locks, free in forked children, that many objects share: a lock of its own costs each 300 bytes.

    It is for objects that hold it for a few instructions, and call nothing meanwhile that may take another lock.
    """
    return _next_shared()


def call_after_fork(forked: Forked) -> None:
    """Call `forked.after_fork()` in forked children; held weakly."""
    key = id(forked)
    found = _objects[key] = _ForkedRef(forked, _finalized)
    found.key = key


def _finalized(forked: ref[Forked]) -> None:
    key = cast("_ForkedRef", forked).key
    if _objects.get(key) is forked:
        del _objects[key]


def keep_inherited(*objects: object) -> None:
    """Never finalize these in the child, as that would write to the parent's loop or connection."""
    _inherited.extend(objects)


def _in_child() -> None:
    for lock in tuple(_locks):
        if (found := lock()) is not None:
            cast("_Lock", found)._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]
    for forked in tuple(_objects.values()):
        if (found := forked()) is not None:
            try:
                found.after_fork()
            except Exception as error:
                # the other objects must be reset all the same
                report_dropped(error, "a forked child")


for _each in (ImmediateScheduler, TimeoutScheduler):
    # held by reactivex while it looks up the one scheduler of each kind
    freed_in_child(_each._lock)  # pyright: ignore[reportPrivateUsage]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
