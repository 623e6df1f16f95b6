"""Sources of awaitables, each run as a task on the loop.

| source                        | emits                                          | disposal                    |
|-------------------------------|------------------------------------------------|-----------------------------|
| `from_callable(fn)`           | the result of one call of a coroutine function | cancels its task            |
| `from_awaitable(it)`          | the result of this awaitable                   | cancels its task            |
| `from_async_iterable(make)`   | the items, as fast as there is demand          | cancels its task, closes it |
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection
from contextvars import Context, copy_context
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate, iscoroutine
from operator import is_
from types import AsyncGeneratorType
from typing import Any, Generic, TypeVar

from reactivex import abc

from agentscope_rx.errors import AwaitCancelledError
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Relay, Sink, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import RunAbortedError, SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope

S = TypeVar("S")
T = TypeVar("T")


IN_A_ROW = 32
"""After so many sources in one task the loop gets a turn, too: they may all end without having waited."""

BURST = 256
"""After so many items the loop gets a turn: an iterable that never waits must not keep other runs, or a call that
stops this one, from theirs."""


def from_callable(
    call: Callable[[], Awaitable[T]], *, follow: Callable[[T], abc.ObservableBase[T] | None] | None = None
) -> Flow[T]:
    """Emits the result of one call of a coroutine function, awaited as a task on the loop.

    `follow(result)` may give an Observable, whose values are emitted in the place of the result.

    Signals: its result and completion, or its exception.
    Cancels: the task; its `finally` blocks run and count as work under way.
    """
    return Producer(_Call if follow is None else partial(_Followed, follow, frozenset()), call)


def following(
    follow: Callable[[T], abc.ObservableBase[T] | None], plain: Collection[type]
) -> Callable[[Callable[[], Awaitable[T]]], Flow[T]]:
    """`from_callable` with this `follow`, which is not asked about results of the `plain` types."""
    return partial(Producer, partial(_Followed, follow, frozenset(plain)))


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


class _Ending(threading.local):
    """The driver of the source that gives its last signal on this thread just now, if it can run another one."""

    driver: _Driver | None = None


_ENDING = _Ending()


class _ToBegin:
    """Counts the tasks of sources on a loop that have not begun yet."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


# an attribute of the loop, as its runtime is
_TO_BEGIN = "_agentscope_rx_to_begin"


def _to_begin_on(loop: asyncio.AbstractEventLoop) -> _ToBegin:
    found = _ToBegin()
    setattr(loop, _TO_BEGIN, found)
    return found


class _Driver:
    """The task of a source, and of those that begin in its last signal: they run in it one after the other.

    So a run whose sources follow one another, such as a model's stream and a tool, needs one task, and no turn of the
    loop between them. A source that begins while others run has a task of its own, as has one behind a source that has
    changed a context variable: each begins with the subscriber's variables. Sources begin in the order in which they
    were started, so none takes over a task while another one waits for its own; and a consumer that has values to pull
    gets its turn first, so that it can leave before the next source begins.
    """

    __slots__ = ("_begun", "_source", "context", "next", "task", "to_begin")

    def __init__(self, source: _TaskSource[Any, Any]) -> None:
        scope = source.scope
        self.context: Context = scope.context
        self._source: _TaskSource[Any, Any] | None = source
        self.next: _TaskSource[Any, Any] | None = None
        source.driver = self
        self.to_begin: _ToBegin = getattr(scope.loop, _TO_BEGIN, None) or _to_begin_on(scope.loop)
        self.to_begin.count += 1
        self._begun = False
        self.task: asyncio.Task[None] = scope.loop.create_task(self._run(source), context=scope.context.copy())
        self.task.add_done_callback(self._done)

    async def _run(self, source: _TaskSource[Any, Any] | None) -> None:
        self.to_begin.count -= 1
        self._begun = True
        in_a_row = 0
        while source is not None:
            if not source.disposed:
                await source.drive()
            self._source = None
            source.ended()
            source, self.next = self.next, None
            if source is not None:
                self._source = source
                source.driver = self
                in_a_row += 1
                demand = source.scope.demand
                if in_a_row == IN_A_ROW or (demand is not None and demand.depth):
                    in_a_row = 0
                    await asyncio.sleep(0)
        # all is done: no turn of the loop to hear of it
        self.task.remove_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        source, self._source = self._source, None
        following, self.next = self.next, None
        # the traceback of a cancelled task holds the frame that holds this object
        del self.task
        if not self._begun:
            self.to_begin.count -= 1
        error = None if task.cancelled() else task.exception()
        if error is not None:
            report_dropped(error, "a source")
        try:
            if source is not None:
                source.not_begun()
        finally:
            if source is not None:
                source.ended()
            if following is not None:
                # the signal in which it began has raised an exception
                _Driver(following)


def _changed(context: Context) -> bool:
    """True if a context variable here has another value than in this context. No value is compared: `==` of a foreign
    class may raise an exception, and two equal lists are not one."""
    now = copy_context()
    return len(now) != len(context) or not (
        all(map(is_, now, context)) and all(map(is_, now.values(), context.values()))
    )


class _TaskSource(Generic[S, T]):
    """A source that runs in a task. Its signals run in that task too, so disposal from there must not cancel it.

    They run in a copy of the subscriber's context, so that variables that the source's code sets do not leak into it.
    """

    __slots__ = ("_signal", "_signalling", "_sink", "_source", "disposed", "driver", "scope")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self.scope: Scope = scope
        self._signal = scope.context.copy().run
        self._signalling = False
        self.disposed = False
        self._source: S
        self.driver: _Driver | None = None

    def start(self, source: S) -> None:
        self._source = source
        self.scope.work.begin()
        driver = _ENDING.driver
        if driver is None or driver.context is not self.scope.context or driver.to_begin.count:
            _Driver(self)
        elif driver.next is None:
            driver.next = self
        else:
            # several that begin at once: the first one, too, has a task of its own, before this one's
            first, driver.next = driver.next, None
            _Driver(first)
            _Driver(self)

    async def drive(self) -> None:
        """Signal what the source gives; run by the driver's task."""
        raise NotImplementedError

    def not_begun(self) -> None:
        """Signal that the source's task was cancelled before `drive`, by a loop that shuts down at once."""
        if not (self._signalling or self.disposed):
            self._signalling = True
            cancelled = SourceCancelledError("A source was cancelled from outside before it began.")
            self._signal(self.scope.guarded, self._sink.on_error, cancelled)

    def ended(self) -> None:
        """Count the source as ended, with its last `finally` block."""
        self.driver = None
        try:
            self.scope.work.end()
        except Exception:
            raise
        except BaseException as error:
            self.scope.abort(error)

    def _last_signal(self, call: Callable[..., object], *args: object) -> None:
        """Give a signal after which the task has nothing more to do: a source that begins in it may have the task."""
        driver = self.driver
        if driver is None or driver.task.cancelling() or _changed(driver.context):
            # it was cancelled, or has left a context variable changed
            self._signal(call, *args)
            return
        _ENDING.driver = driver
        try:
            self._signal(call, *args)
        finally:
            _ENDING.driver = None

    def _aborted(self, error: BaseException) -> None:
        """End the run with an error that is no `Exception`, raised by the source's code or by its sink."""
        self._signalling = True
        self.scope.abort(error)
        if not self.disposed:
            # a `shield` has kept this source from disposal, and waits for its last signal
            self._signal(self._sink.on_error, RunAbortedError(f"The run was ended by {error!r}."))
            self.disposed = True

    def dispose(self) -> None:
        if not self.disposed:
            self.disposed = True
            if self.driver is not None and not self._signalling:
                self.driver.task.cancel()

    def _cancelled_from_outside(self) -> bool:
        return self.driver is None or self.driver.task.cancelling() > 0

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
                self._last_signal(self._sink.on_completed)
            elif isinstance(error, Exception):
                self._last_signal(self._sink.on_error, error)
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

    async def drive(self) -> None:
        try:
            value = await self._source()
        except BaseException as error:
            failure = error
        else:
            if not self.disposed:
                self._signalling = True
                try:
                    self._last_signal(self._emit, value)
                except Exception:
                    raise
                except BaseException as error:
                    self._aborted(error)
            return
        try:
            if self._finish(failure):
                raise failure
        finally:
            # its traceback holds this frame: no cycle for each failed call
            del failure

    def _emit(self, value: T) -> None:
        self._sink.on_next(value)
        if not self.disposed:
            self._sink.on_completed()


class _Followed(_Call[T]):
    """A call whose result may be an Observable: the source of all values then."""

    __slots__ = ("_follow", "_plain", "_values")

    def __init__(
        self,
        follow: Callable[[T], abc.ObservableBase[T] | None],
        plain: Collection[type],
        sink: Sink[T],
        scope: Scope,
    ) -> None:
        self._sink = sink
        self.scope: Scope = scope
        self._signal = scope.context.copy().run
        self._signalling = False
        self.disposed = False
        self.driver: _Driver | None = None
        self._follow = follow
        self._plain = plain
        self._values: Relay[T] | None = None

    def _emit(self, value: T) -> None:
        if type(value) not in self._plain:
            try:
                found = self._follow(value)
            except Exception as error:
                self._sink.on_error(error)
                return
            if found is not None:
                values = self._values = Relay(self._sink)
                attach(found, values, self.scope)
                return
        self._sink.on_next(value)
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        super().dispose()
        values, self._values = self._values, None
        if values is not None:
            values.dispose()


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
    __slots__ = ()

    async def drive(self) -> None:
        source = self._source
        iterator: AsyncIterator[T] | None = None
        failure: BaseException | None = None
        demand = self.scope.demand
        burst = 0
        # an async generator that has come to its end is closed
        closed = False
        signal, sink = self._signal, self._sink
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
                    closed = type(iterator) is AsyncGeneratorType
                    break
                except BaseException as error:
                    failure = error
                    break
                # outside of that `try`: a sink's exception is not this source's error
                self._signalling = True
                try:
                    # (looked up each time: an operator may be in the way of the first values only)
                    signal(sink.on_next, value)
                except Exception:
                    raise
                except BaseException as error:
                    self._aborted(error)
                self._signalling = False
        finally:
            # from here on disposal sets a flag only: a close that has begun is not cut short
            self._signalling = True
            if not closed:
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
