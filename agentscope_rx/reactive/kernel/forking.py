"""What a forked child makes anew: locks, and objects that belong to the parent's threads and loops.

A child of `os.fork()` has a copy of all objects, and one thread. A lock that another thread held at that moment would
stay locked for good, and what a thread or a loop of the parent was to do would be waited for in vain. So locks that are
kept for longer than a call come from `new_lock()`, and objects with such state are told by `after_fork()`.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol, TypeVar, cast
from weakref import KeyedRef, ref

from reactivex.scheduler import ImmediateScheduler, TimeoutScheduler

from agentscope_rx.reactive.kernel.dropped import report_dropped

T = TypeVar("T")


class Forked(Protocol):
    """Something that has to change in a forked child."""

    def after_fork(self) -> None:
        """Forget what the parent's threads and loops were to do. Called in the child, where locks are free already."""
        ...


class _Lock(Protocol):
    def _at_fork_reinit(self) -> None: ...


_locks: set[ref[object]] = set()
# by identity: a thing may be equal to another, or not hashable
_things: dict[int, KeyedRef[int, Forked]] = {}
_inherited: list[object] = []


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, whoever held it in the parent."""
    return freed_in_child(threading.Lock())


def new_rlock() -> threading.RLock:
    """As `new_lock`, for a lock that its holder may take again."""
    return freed_in_child(threading.RLock())


def freed_in_child(lock: T) -> T:
    """The very lock of the standard library that is given; held weakly."""
    _locks.add(ref(lock, _locks.discard))
    return lock


def told_of_fork(thing: Forked) -> None:
    """Have `thing.after_fork()` called in forked children; held weakly."""
    key = id(thing)
    _things[key] = KeyedRef(thing, _gone, key)


def _gone(thing: ref[Forked]) -> None:
    key = cast("KeyedRef[int, Forked]", thing).key
    if _things.get(key) is thing:
        del _things[key]


def keep_inherited(*things: object) -> None:
    """Never finalize these in the child: that would write to what the parent uses, such as a loop or a connection."""
    _inherited.extend(things)


def _in_child() -> None:
    for lock in tuple(_locks):
        if (found := lock()) is not None:
            cast("_Lock", found)._at_fork_reinit()  # pyright: ignore[reportPrivateUsage]
    for thing in tuple(_things.values()):
        if (told := thing()) is not None:
            try:
                told.after_fork()
            except Exception as error:
                # the others are to be told all the same
                report_dropped(error, "a forked child")


for _each in (ImmediateScheduler, TimeoutScheduler):
    # held by reactivex while it looks up the one scheduler of each kind
    freed_in_child(_each._lock)  # pyright: ignore[reportPrivateUsage]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
