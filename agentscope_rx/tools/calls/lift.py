"""Turns every kind of callable into a Flow of raw values; the last one is the result.

| kind          | callable                                             | runs                   | values              |
|---------------|------------------------------------------------------|------------------------|---------------------|
| `CALL`        | a function                                           | on a worker thread     | what it returns     |
| `COROUTINE`   | an `async def`, or annotated `-> Awaitable`          | as a task on the loop  | what it returns     |
| `ITEMS`       | a generator function, or annotated `-> Iterator`     | on a worker, each item | items, return value |
| `ASYNC_ITEMS` | an async generator, or annotated `-> AsyncIterator`  | as a task on the loop  | its items           |
| `OBSERVABLE`  | a function annotated `-> Observable` (or Flow)       | on the loop            | its values          |

A returned Observable, awaitable, generator or async iterable is followed even if the annotation did not announce it,
and a picture is drawn on a worker thread.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor
from contextvars import copy_context
from enum import Enum, auto
from functools import partial
from types import NoneType
from typing import Annotated, cast, get_args, get_origin

from reactivex import abc

from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.reactive import Flow, Scope, defer, from_async_iterable, from_callable, iterate_on_worker, on_worker
from agentscope_rx.reactive.kernel.observer import OperatorSink, Relay, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.sources.tasks import following
from agentscope_rx.tools.results.media import can_be_drawn, drawn
from agentscope_rx.tools.schemas.signature import return_annotation


class CallableKind(Enum):
    """How a callable is run."""

    CALL = auto()
    COROUTINE = auto()
    ITEMS = auto()
    ASYNC_ITEMS = auto()
    OBSERVABLE = auto()

    @property
    def streams(self) -> bool:
        """True if it announces several values: each is progress that can be shown at once."""
        return self in _STREAMS


_STREAMS = frozenset({CallableKind.ITEMS, CallableKind.ASYNC_ITEMS, CallableKind.OBSERVABLE})


def kind_of(function: Callable[..., object]) -> CallableKind:
    """The way to run this callable: by its kind and, for a plain function, by its return annotation."""
    for each in (function, getattr(function, "__call__", None)):  # noqa: B004 - the method, to look at
        if inspect.iscoroutinefunction(each):
            return CallableKind.COROUTINE
        if inspect.isasyncgenfunction(each):
            return CallableKind.ASYNC_ITEMS
        if inspect.isgeneratorfunction(each):
            return CallableKind.ITEMS
    return _announced(return_annotation(function))


def lift(kind: CallableKind, call: Callable[[], object], executor: Executor | None = None) -> Flow[object]:
    """Emits the raw values of one call; blocking kinds run on `executor` instead of the library's workers.

    Signals: the values and completion, or the callable's exception.
    Cancels: the task or iteration; a blocking call that has begun runs on, its result dropped.
    """
    match kind:
        case CallableKind.COROUTINE:
            return _COROUTINE(call)  # pyright: ignore[reportArgumentType]
        case CallableKind.CALL:
            return _FOLLOWED(on_worker(call, executor))
        case CallableKind.ITEMS:
            return iterate_on_worker(cast("Callable[[], Iterable[object]]", call), executor)
        case CallableKind.ASYNC_ITEMS:
            return from_async_iterable(cast("Callable[[], AsyncIterable[object]]", call))
        case CallableKind.OBSERVABLE:
            # called on the loop, amid the run: its context variables must not reach the stages that follow
            return defer(lambda: cast("abc.ObservableBase[object]", copy_context().run(call)))


_PLAIN = frozenset({str, NoneType, int, float, bool, dict, list, ToolResultBlock})
"""The types that most tools return: nothing to follow."""


class _Followed(OperatorSink):
    """Passes the one value of a call on or, if that is a source of values, these: it is attached when the call ends."""

    __slots__ = ("_found", "_scope", "_sink")

    def __init__(self, sink: Sink[object], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._found: abc.ObservableBase[object] | None = None

    def on_next(self, value: object) -> None:
        if type(value) not in _PLAIN:
            try:
                self._found = _values_of(value)
            except Exception as error:
                self.dispose()
                self._sink.on_error(error)
                return
        if self._found is None:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        found, self._found = self._found, None
        if found is None:
            self._sink.on_completed()
            return
        values = Relay(self._sink)
        self._upstream = values
        attach(found, values, self._scope)


_FOLLOWED: Callable[[Flow[object]], Flow[object]] = partial(OperatorFlow, _Followed)


def _values_of(value: object) -> abc.ObservableBase[object] | None:
    """The source of values that the value is, or None. (A Flow can be awaited too: Observables come first.)"""
    if isinstance(value, abc.ObservableBase):
        return cast("abc.ObservableBase[object]", value)
    if isinstance(value, Awaitable):
        awaitable = cast("Awaitable[object]", value)
        return from_callable(lambda: awaitable)
    if isinstance(value, AsyncIterable):
        items = cast("AsyncIterable[object]", value)
        return from_async_iterable(lambda: items)
    if isinstance(value, Generator):
        generator = cast("Generator[object, None, object]", value)
        return iterate_on_worker(lambda: generator)
    if can_be_drawn(value):
        return on_worker(lambda: drawn(value) or value)
    return None


_COROUTINE: Callable[[Callable[[], Awaitable[object]]], Flow[object]] = following(_values_of, _PLAIN)


def _announced(annotation: object) -> CallableKind:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    returned = get_origin(annotation) or annotation
    if not isinstance(returned, type):
        return CallableKind.CALL
    if issubclass(returned, abc.ObservableBase):
        return CallableKind.OBSERVABLE
    if issubclass(returned, AsyncIterator) or returned is AsyncIterable:
        return CallableKind.ASYNC_ITEMS
    if issubclass(returned, Iterator):
        return CallableKind.ITEMS
    return CallableKind.COROUTINE if issubclass(returned, Awaitable) else CallableKind.CALL
