"""`recurse`: run stages one after the other, each naming the next, at constant depth.

    stage 1  --e1--e2--tail(stage 2)|
    stage 2                          --e3--tail(stage 3)|
    stage 3                                             --e4--|
    recurse  --e1--e2----------------e3-----------------e4--|

It is `flat_map` with tail calls: a stage is built and attached after the one that named it has completed, in a
loop, so that neither the stack nor any reference to an earlier stage grows with the number of stages.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.scope import Scope

K = TypeVar("K")
T = TypeVar("T")


class Tail(Generic[T]):
    """A reference to the next stage, made by `tail`: a stage emits it, and `recurse` then begins the next one."""

    __slots__ = ("build",)

    def __init__(self, build: Callable[[], abc.ObservableBase[T | Tail[T]]]) -> None:
        self.build: Callable[[], abc.ObservableBase[T | Tail[T]]] = build


def tail(build: Callable[[], abc.ObservableBase[T | Tail[T]]]) -> Tail[T]:
    """Names the next stage. `build` is called once the stage that emits the tail has completed."""
    return Tail(build)


def recurse(
    first: Callable[[], abc.ObservableBase[T | Tail[T]]],
    *,
    done: type[K] | None = None,
    last: Callable[[K], abc.ObservableBase[T | Tail[T]]] | None = None,
) -> Flow[T]:
    """Emits the values of a stage, then those of the next stage that it names, until a stage names none.

    A stage names the next one by emitting `tail(build)`. A value of class `done` names `last(value)`. The stack does
    not grow.

    Signals: every value that is not a tail; the first error of a stage, or of building one. Of several tails in
    one stage the last counts.
    Cancels: the stage in progress; no further stage is built.
    """
    return Producer(partial(_Recurse, done, last), first)


class _Recurse(OperatorSink, Generic[T]):
    __slots__ = ("_advancing", "_done", "_last", "_next", "_scope", "_sink", "_stage_done")

    def __init__(
        self,
        done: type[object] | None,
        last: Callable[[Any], abc.ObservableBase[T | Tail[T]]] | None,
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._done = done
        self._last = last
        self._next: Callable[[], abc.ObservableBase[T | Tail[T]]] | None = None
        self._stage_done = False
        self._advancing = False

    def start(self, first: Callable[[], abc.ObservableBase[T | Tail[T]]]) -> None:
        self._next = first
        self._advance()

    def on_next(self, value: T | Tail[T]) -> None:
        kind = type(value)
        if kind is Tail:
            self._next = value.build  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        elif kind is self._done and self._last is not None:
            self._next = partial(self._last, value)
        else:
            self._sink.on_next(value)  # pyright: ignore[reportArgumentType]

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._next = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._stage_done = True
        if self._next is None:
            self._sink.on_completed()
        elif not self._advancing:
            self._advance()

    def dispose(self) -> None:
        self._next = None
        super().dispose()

    def _advance(self) -> None:
        """Attach the next stage, and the ones after it for as long as each completes while it is being attached."""
        self._advancing = True
        self._stage_done = True
        while self._stage_done and self._next is not None and not self.disposed:
            build, self._next = self._next, None
            self._stage_done = False
            try:
                stage = build()
                while type(stage) is Deferred and not self.disposed:  # pyright: ignore[reportUnknownArgumentType]
                    stage = stage.make()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            except Exception as error:
                self._sink.on_error(error)
                break
            if not self.disposed:
                attach(stage, self, self._scope)  # pyright: ignore[reportUnknownArgumentType]
        self._advancing = False
