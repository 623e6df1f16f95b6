"""The calls that change a disk, as the tests meddle with them: counted, failing at the n-th, or with the power gone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

CALLS = ("open", "write", "fsync", "ftruncate", "replace", "unlink", "mkdir", "rmdir")
"""Of `os`; what only reads is not among them, `open` counts where it makes a file."""


class PowerCut(BaseException):
    """The machine is off: nothing of the program runs any more, its clean-up included."""


class Call(NamedTuple):
    """One changing call; `size` is that of a write."""

    name: str
    path: str
    size: int


class Disk:
    """Writes down each changing call, and asks `on_call(number, name)` before it is made.

    `on_call` may raise. If it gives a number of bytes, a write is cut short to that and then fails with `PowerCut`.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.written = 0
        self.on_call: Callable[[int, str], int | None] = lambda number, name: None
        self._paths: dict[int, str] = {}

    def _around(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            if name == "open" and not args[0] & os.O_CREAT:
                return self._opened(target, real(target, *args, **kwargs))
            path = self._paths.get(target, "?") if isinstance(target, int) else os.fspath(target)
            size = len(args[0]) if name == "write" else 0
            self.calls.append(Call(name, path, size))
            cut = self.on_call(len(self.calls) - 1, name)
            if name == "open":
                return self._opened(target, real(target, *args, **kwargs))
            if name == "write":
                if cut is not None:
                    real(target, bytes(args[0])[:cut])
                    raise PowerCut
                self.written += size
            return real(target, *args, **kwargs)

        return call

    def _opened(self, path: Any, descriptor: int) -> int:
        self._paths[descriptor] = os.fspath(path)
        return descriptor

    @contextmanager
    def watched(self) -> Iterator[Disk]:
        """The calls of `os` go through this disk inside the block."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._around(name, getattr(os, name)))
            yield self


def power_off_at(disk: Disk, last: int, cut: int | None = None) -> None:
    """The call of this number is not made, or (a write) made with `cut` bytes only; nor is any after it."""

    def on_call(number: int, name: str) -> int | None:
        if number == last and name == "write" and cut is not None:
            return cut
        if number >= last:
            raise PowerCut
        return None

    disk.on_call = on_call


def fail_at(disk: Disk, *numbers: int) -> None:
    """The calls of these numbers fail, as on a full disk."""

    def on_call(number: int, name: str) -> None:
        if number in numbers:
            raise OSError(28, f"No space left on device (call {number}: {name})")

    disk.on_call = on_call
