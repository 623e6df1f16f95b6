"""Sources: where values come from. Cold: each subscription calls the function anew.

| source                        | emits                                          | disposal                    |
|-------------------------------|------------------------------------------------|-----------------------------|
| `empty`, `never`, `fail`      | nothing; nothing, ever; an error               |                             |
| `defer(make)`                 | what the Observable made at subscription emits | that Observable             |
| `from_callable(fn)`               | the result of one awaitable                    | cancels its task            |
| `from_async_iterable(make)`   | its items, as fast as there is demand          | cancels its task, closes it |
| `timer(seconds)`              | 0 after a delay of the loop's clock            | drops the timer             |

Values that are there: see `iterable`. Blocking functions: see `on_worker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine
from inspect import CORO_CREATED, getcoroutinestate, iscoroutine
from typing import Generic, TypeVar

from agentscope_rx.errors import AwaitCancelledError
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred
from agentscope_rx.reactive.kernel.observer import BooleanDisposable, Sink
from agentscope_rx.reactive.kernel.runtime import RunAbortedError, SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


BURST = 256
"""After so many items the loop gets a turn: an iterable that never waits must not keep other runs, or whoever wants to
stop this one, from theirs."""


def empty() -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Completes at once."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        flag = BooleanDisposable()
        sink.on_subscribe(flag)
        if not flag.disposed:
            sink.on_completed()

    return Flow(connect)


def never() -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Signals nothing until it is disposed."""
    return Flow(lambda sink, scope: sink.on_subscribe(BooleanDisposable()))


def throw(error: Exception) -> Flow[T]:  # pyright: ignore[reportInvalidTypeVarUse]
    """Signals the error at once."""

    def connect(sink: Sink[T], scope: Scope) -> None:
        flag = BooleanDisposable()
        sink.on_subscribe(flag)
        if not flag.disposed:
            sink.on_error(error)

    return Flow(connect)


defer = Deferred


def timer(seconds: float) -> Flow[int]:
    """Emits 0 and completes after so many seconds of the loop's clock."""

    def connect(sink: Sink[int], scope: Scope) -> None:
        flag = _Timer()
        sink.on_subscribe(flag)
        if flag.disposed:
            return

        def ring() -> None:
            flag.handle = None
            if not flag.disposed:
                sink.on_next(0)
            if not flag.disposed:
                sink.on_completed()

        flag.handle = scope.call_later(seconds, ring)

    return Flow(connect)


class _Timer(BooleanDisposable):
    __slots__ = ("handle",)

    def __init__(self) -> None:
        super().__init__()
        self.handle: asyncio.TimerHandle | None = None

    def dispose(self) -> None:
        self.disposed = True
        if self.handle is not None:
            self.handle.cancel()


def from_callable(call: Callable[[], Awaitable[T]]) -> Flow[T]:
    """Emits the result of one call of a coroutine function, awaited as a task on the loop.

    Signals: its result and completion, or its exception.
    Cancels: the task; its `finally` blocks run and count as work under way.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        source = _Call(sink, scope)
        sink.on_subscribe(source)
        if not source.disposed:
            source.start(source.drive(call))

    return Flow(connect)


def from_awaitable(awaitable: Awaitable[T]) -> Flow[T]:
    """Emits the result of this very awaitable: for one subscription only. `from_callable` can be repeated.

    Signals: its result and completion, or its exception.
    Cancels: the awaitable; a coroutine that has not begun is closed, so that nothing warns of it.
    """

    async def wait() -> T:
        return await awaitable

    def connect(sink: Sink[T], scope: Scope) -> None:
        source = _Await(sink, scope, awaitable)
        sink.on_subscribe(source)
        if not source.disposed:
            source.start(source.drive(wait))

    return Flow(connect)


def from_async_iterable(make: Callable[[], AsyncIterable[T]]) -> Flow[T]:
    """Emits the items of a fresh async iterable, reading on only while there is demand.

    Signals: its items and completion, or its exception; both after it has been closed.
    Cancels: the read in progress; the iterable is closed and its `finally` blocks count as work under way.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        source = _Reader(sink, scope)
        sink.on_subscribe(source)
        if not source.disposed:
            source.start(source.drive(make))

    return Flow(connect)


class _TaskSource(Generic[T]):
    """A source that lives in a task. Its signals run in that task too, so disposal from there must not cancel it.

    They run in a context of their own: what the source's code sets is not seen by what follows on its signals.
    """

    __slots__ = ("_scope", "_signal", "_signalling", "_sink", "disposed", "task")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self._signal = scope.context.copy().run
        self._signalling = False
        self.disposed = False
        self.task: asyncio.Task[None] | None = None

    def start(self, coroutine: Coroutine[object, None, None]) -> None:
        self.task = self._scope.spawn(coroutine, self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        # its traceback, if it was cancelled, holds the frame that holds this
        self.task = None
        try:
            # a task that is cancelled before its first step (by a loop that shuts down at once) runs not a line of ours
            if not (self._signalling or self.disposed):
                self._signalling = True
                cancelled = SourceCancelledError("A source was cancelled from outside before it began.")
                self._signal(self._scope.guarded, self._sink.on_error, cancelled)
        finally:
            self._scope.ended(task)

    def _aborted(self, error: BaseException) -> None:
        """End the run with this, which is no `Exception`: raised by the source's code, or by what it signals to."""
        self._signalling = True
        self._scope.abort(error)
        if not self.disposed:
            # shielded from disposal: the shield is told that nothing comes any more
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
        """The terminal signal; nothing is cancelled from here on. True for a cancellation: it goes on as it came."""
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


class _Call(_TaskSource[T]):
    __slots__ = ()

    async def drive(self, call: Callable[[], Awaitable[T]]) -> None:
        try:
            value = await call()
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

    def __init__(self, sink: Sink[T], scope: Scope, awaitable: Awaitable[T]) -> None:
        super().__init__(sink, scope)
        self._awaitable = awaitable

    def dispose(self) -> None:
        super().dispose()
        waiting = self._awaitable
        if iscoroutine(waiting) and getcoroutinestate(waiting) == CORO_CREATED:
            waiting.close()


class _Reader(_TaskSource[T]):
    __slots__ = ("_demand",)

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        super().__init__(sink, scope)
        self._demand = scope.demand

    async def drive(self, make: Callable[[], AsyncIterable[T]]) -> None:
        iterator: AsyncIterator[T] | None = None
        failure: BaseException | None = None
        demand = self._demand
        burst = 0
        signal, on_next = self._signal, self._sink.on_next
        try:
            while not self.disposed:
                try:
                    if iterator is None:
                        iterator = _begun(make)
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
                # outside of that `try`: what a sink raises is not this source's error
                self._signalling = True
                try:
                    signal(on_next, value)
                except Exception:
                    raise
                except BaseException as error:
                    self._aborted(error)
                self._signalling = False
        finally:
            # from here on disposal is only noted: a close that has begun is not cut short
            self._signalling = True
            close = getattr(iterator, "aclose", None)
            if close is not None:
                try:
                    await close()
                except Exception as error:
                    failure = failure or error
                except BaseException as error:
                    failure = error
        try:
            if self._finish(failure) and failure is not None:
                raise failure
        finally:
            del failure


def _begun(make: Callable[[], AsyncIterable[T]]) -> AsyncIterator[T]:
    try:
        return aiter(make())
    except StopAsyncIteration as error:
        # would pass for the end of the items
        raise RuntimeError("An async iterable raised StopAsyncIteration as it was made.") from error
