"""Sources of awaitables, each run as a task on the loop.

| source                        | emits                                          | disposal                    |
|-------------------------------|------------------------------------------------|-----------------------------|
| `from_callable(fn)`           | the result of one call of a coroutine function | cancels its task            |
| `from_awaitable(it)`          | the result of this awaitable                   | cancels its task            |
| `from_async_iterable(make)`   | the items, as fast as there is demand          | cancels its task, closes it |
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate, iscoroutine
from typing import Generic, TypeVar

from agentscope_rx.errors import AwaitCancelledError
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import RunAbortedError, SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope

S = TypeVar("S")
T = TypeVar("T")


BURST = 256
"""After so many items the loop gets a turn: an iterable that never waits must not keep other runs, or a call that
stops this one, from theirs."""


def from_callable(call: Callable[[], Awaitable[T]]) -> Flow[T]:
    """Emits the result of one call of a coroutine function, awaited as a task on the loop.

    Signals: its result and completion, or its exception.
    Cancels: the task; its `finally` blocks run and count as work under way.
    """
    return Producer(_Call, call)


def from_awaitable(awaitable: Awaitable[T]) -> Flow[T]:
    """Emits the result of one awaitable, for one subscription only; `from_callable` may be repeated.

    Signals: its result and completion, or its exception.
    Cancels: the awaitable; a coroutine that has not begun is closed, so that nothing warns of it.
    """

    async def wait() -> T:
        return await awaitable

    return Producer(partial(_Await, awaitable), wait)


def from_async_iterable(make: Callable[[], AsyncIterable[T]]) -> Flow[T]:
    """Emits the items of a fresh async iterable, and reads on only while there is demand.

    Signals: its items and completion, or its exception; both after it has been closed.
    Cancels: the read in progress; the iterable is closed and its `finally` blocks count as work under way.
    """
    return Producer(_Reader, make)


class _TaskSource(Generic[S, T]):
    """A source that runs in a task. Its signals run in that task too, so disposal from there must not cancel it.

    They run in a copy of the subscriber's context, so that variables that the source's code sets do not leak into it.
    """

    __slots__ = ("_scope", "_signal", "_signalling", "_sink", "disposed", "task")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._signal = scope.context.copy().run
        self._signalling = False
        self.disposed = False
        self.task: asyncio.Task[None] | None = None

    def start(self, source: S) -> None:
        self.task = self._scope.spawn(self.drive(source), self._ended)

    async def drive(self, source: S) -> None:
        """Signal what the source gives; the task's coroutine."""
        raise NotImplementedError

    def _ended(self, task: asyncio.Task[None]) -> None:
        # the traceback of a cancelled task holds the frame that holds this object
        self.task = None
        try:
            # a task that is cancelled before its first step (by a loop that shuts down at once) never enters `drive`
            if not (self._signalling or self.disposed):
                self._signalling = True
                cancelled = SourceCancelledError("A source was cancelled from outside before it began.")
                self._signal(self._scope.guarded, self._sink.on_error, cancelled)
        finally:
            self._scope.ended(task)

    def _aborted(self, error: BaseException) -> None:
        """End the run with an error that is no `Exception`, raised by the source's code or by its sink."""
        self._signalling = True
        self._scope.abort(error)
        if not self.disposed:
            # a `shield` has kept this source from disposal, and waits for its last signal
            self._signal(self._sink.on_error, RunAbortedError(f"The run was ended by {error!r}."))
            self.disposed = True

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            if self.task is not None and not self._signalling:
                self.task.cancel()

    def _cancelled_from_outside(self) -> bool:
        return self.task is None or self.task.cancelling() > 0

    def _finish(self, error: BaseException | None) -> bool:
        """Give the terminal signal; disposal cancels nothing from here on. True if the error has to be raised again."""
        if self.disposed:
            if isinstance(error, asyncio.CancelledError):
                return True
            if isinstance(error, Exception):
                report_dropped(error, "a disposed source")
            elif error is not None:
                self._aborted(error)
            return False
        self._signalling = True
        cancelled = isinstance(error, asyncio.CancelledError) and self._cancelled_from_outside()
        try:
            if error is None:
                self._signal(self._sink.on_completed)
            elif isinstance(error, Exception):
                self._signal(self._sink.on_error, error)
            elif cancelled:
                failure = SourceCancelledError(f"A source was cancelled from outside: {error!r}")
                self._signal(self._sink.on_error, failure)
            elif isinstance(error, asyncio.CancelledError):
                failure = AwaitCancelledError()
                failure.__cause__ = error
                self._signal(self._sink.on_error, failure)
            else:
                self._aborted(error)
        except Exception:
            raise
        except BaseException as raised:
            self._aborted(raised)
        return cancelled


class _Call(_TaskSource[Callable[[], Awaitable[T]], T]):
    __slots__ = ()

    async def drive(self, source: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await source()
        except BaseException as error:
            failure = error
        else:
            if not self.disposed:
                self._signalling = True
                try:
                    self._signal(self._sink.on_next, value)
                except Exception:
                    raise
                except BaseException as error:
                    self._aborted(error)
                else:
                    self._finish(None)
            return
        try:
            if self._finish(failure):
                raise failure
        finally:
            # its traceback holds this frame: no cycle for each failed call
            del failure


class _Await(_Call[T]):
    __slots__ = ("_awaitable",)

    def __init__(self, awaitable: Awaitable[T], sink: Sink[T], scope: Scope) -> None:
        super().__init__(sink, scope)
        self._awaitable = awaitable

    def dispose(self) -> None:
        super().dispose()
        waiting = self._awaitable
        if iscoroutine(waiting) and getcoroutinestate(waiting) == CORO_CREATED:
            waiting.close()


class _Reader(_TaskSource[Callable[[], AsyncIterable[T]], T]):
    __slots__ = ("_demand",)

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        super().__init__(sink, scope)
        self._demand = scope.demand

    async def drive(self, source: Callable[[], AsyncIterable[T]]) -> None:
        iterator: AsyncIterator[T] | None = None
        failure: BaseException | None = None
        demand = self._demand
        burst = 0
        signal, on_next = self._signal, self._sink.on_next
        try:
            while not self.disposed:
                try:
                    if iterator is None:
                        iterator = _iterator_of(source)
                    if demand is not None and not demand.ready:
                        await demand.wait()
                    burst += 1
                    if burst == BURST:
                        burst = 0
                        await asyncio.sleep(0)
                    value = await anext(iterator)
                except StopAsyncIteration:
                    break
                except BaseException as error:
                    failure = error
                    break
                # outside of that `try`: a sink's exception is not this source's error
                self._signalling = True
                try:
                    signal(on_next, value)
                except Exception:
                    raise
                except BaseException as error:
                    self._aborted(error)
                self._signalling = False
        finally:
            # from here on disposal sets a flag only: a close that has begun is not cut short
            self._signalling = True
            failure = await _close(iterator, failure)
        try:
            if self._finish(failure) and failure is not None:
                raise failure
        finally:
            del failure


async def _close(iterator: AsyncIterator[object] | None, failure: BaseException | None) -> BaseException | None:
    """Close the iterator if it can be closed; returns the failure of the source, or that of closing it."""
    close = getattr(iterator, "aclose", None)
    if close is not None:
        try:
            await close()
        except Exception as error:
            return failure or error
        except BaseException as error:
            return error
    return failure


def _iterator_of(make: Callable[[], AsyncIterable[T]]) -> AsyncIterator[T]:
    try:
        return aiter(make())
    except StopAsyncIteration as error:
        # it would pass for the end of the items
        raise RuntimeError("An async iterable raised StopAsyncIteration as it was made.") from error
