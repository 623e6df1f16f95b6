"""Flows in plain Python: `run()`, `await`, `async for`, `async with`.

An iterator holds its channel, and the channel does not hold the iterator: when an `async for` is left, by `break` or by
an exception, the iterator is finalized and disposes the run at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, TimeoutError
from functools import partial
from types import FrameType, TracebackType
from typing import Generic, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from reactivex.internal.exceptions import SequenceContainsNoElementsError

from agentscope_rx.errors import RunInsideLoopError
from agentscope_rx.reactive.channel import DEFAULT_CAPACITY, Buffering, Channel, ChannelStatistics, Overflow
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.runtime import library_loop, running_loop
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription, raisable

T = TypeVar("T")

CLOSING_SECONDS = 10.0
"""How long `run()` waits, after Ctrl-C, for the clean-up of the run."""


class FlowIterator(AsyncIterator[T], Generic[T]):
    """Pulls a flow through a bounded channel. The run starts at the first pull and is disposed with the handle.

    As `async with`, the end of the block waits for the clean-up.
    """

    __slots__ = ("__weakref__", "_buffering", "_channel", "_source")

    def __init__(
        self,
        source: Flow[T],
        capacity: int = DEFAULT_CAPACITY,
        overflow: Overflow = Overflow.WAIT,
        coalesce: Callable[[T, T], T | None] | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[T], int] | None = None,
    ) -> None:
        self._channel: Channel[T] | None = None
        self._source: Flow[T] | None = source
        self._buffering = Buffering(capacity, overflow, coalesce, max_bytes, size_of)

    def __repr__(self) -> str:
        if self._channel is None:
            return f"<FlowIterator {'not begun' if self._source is not None else 'closed'}>"
        counts = self._channel.statistics()
        return f"<FlowIterator {counts.received} received, {counts.waiting} waiting>"

    def __aiter__(self) -> FlowIterator[T]:
        return self

    async def __anext__(self) -> T:
        """The next value. After an exception the run has ended or is disposed."""
        channel = self._channel
        if channel is None:
            source, self._source = self._source, None
            if source is None:
                raise StopAsyncIteration
            self._channel = channel = Channel(self._buffering)
            channel.open(source)
        try:
            items = channel.items
            if (
                items
                and channel.plain
                and channel.waiter is None
                and (channel.demand.ready or len(items) > channel.resumes_at + 1)
            ):
                # what `pull` would do, without a coroutine of its own for what is there already
                return items.popleft()
            return await channel.pull()
        except BaseException:
            channel.dispose()
            raise

    async def aclose(self) -> None:
        """Dispose the run and wait for its clean-up."""
        self._source = None
        if self._channel is not None:
            self._channel.dispose()
            await self._channel.scope.work.idle()

    async def __aenter__(self) -> FlowIterator[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def statistics(self) -> ChannelStatistics:
        """Counts of the items that have passed the buffer, and of those that wait in it."""
        if self._channel is None:
            return ChannelStatistics(
                0, self._buffering.capacity, 0, 0, 0, 0, False, max_bytes=self._buffering.max_bytes
            )
        return self._channel.statistics()

    def __del__(self) -> None:
        if self._channel is not None:
            self._channel.dispose()


class _Block(NamedTuple):
    """An `async with` block: the frame and the task that entered it, and its iterator."""

    frame: int
    task: asyncio.Task[object]
    iterator: FlowIterator[object]


_entered: WeakKeyDictionary[object, list[_Block]] = WeakKeyDictionary()


async def enter(source: Flow[T], frame: FrameType) -> FlowIterator[T]:
    """Begin an `async with` over a flow; one flow object may be entered by many tasks, and more than once."""
    iterator = FlowIterator(source)
    task = asyncio.current_task()
    assert task is not None
    # (the id, as the frame would keep the block's variables alive; the frame lives as long as its block)
    _entered.setdefault(source, []).append(_Block(id(frame), task, cast("FlowIterator[object]", iterator)))
    return iterator


async def leave(source: Flow[object], frame: FrameType) -> None:
    """End the innermost `async with` over this flow: of this frame, else (in an `AsyncExitStack`) of this task."""
    task = asyncio.current_task()
    assert task is not None
    blocks = _entered[source]
    # An async generator that was left half-way is closed by a task of the loop, not by the one that entered the block.
    own = [each for each in blocks if each.frame == id(frame)] or [each for each in blocks if each.task is task]
    others = [each for each in blocks if each.task.get_loop() is task.get_loop()]
    block = (own or others)[-1]
    blocks.remove(block)
    await block.iterator.aclose()


class _LastValue(Subscription[T]):
    """A subscription that keeps the last value of a run and settles a future with it."""

    __slots__ = ("_future", "_has", "_value")

    def __init__(self, scope: Scope, future: asyncio.Future[T] | Future[T]) -> None:
        super().__init__(scope, None, None, None)
        self._future: asyncio.Future[T] | Future[T] | None = future
        self._has = False

    def on_next(self, value: T) -> None:
        if not self.disposed:
            self._value = value
            self._has = True

    def on_error(self, error: Exception) -> None:
        if self.disposed:
            # it is reported
            super().on_error(error)
            return
        future = self._future
        self._end()
        _fail(future, raisable(error))

    def on_completed(self) -> None:
        if self.disposed:
            return
        future = self._future
        self._end()
        if not self._has:
            _fail(future, SequenceContainsNoElementsError())
        elif future is not None and not future.done():
            future.set_result(self._value)

    def _deliver(self) -> Callable[[BaseException], object]:
        return partial(_fail, self._future)

    def _forget(self) -> None:
        super()._forget()
        # its error has a traceback, which may hold this subscription
        self._future = None


def _fail(future: asyncio.Future[T] | Future[T] | None, error: BaseException) -> None:
    if future is not None and not future.done():
        future.set_exception(error)


async def last_value(source: Flow[T]) -> T:
    """The last value of one run; a cancellation disposes the run and is raised again."""
    scope = Scope.here()
    future: asyncio.Future[T] = scope.loop.create_future()
    last = _LastValue(scope, future)
    last.begin(source)
    # what the flow is made of is freed with it
    del source
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and (error := future.exception()) is not None:
            report_dropped(error, "an await that was cancelled")
        raise
    finally:
        last.dispose()
        # an error's traceback holds this frame, which would make a cycle of each failed run
        del future, last


WAKE_SECONDS = 0.5
"""How long `run()` waits at a time. A signal that arrives just before a thread waits does not wake it, and Ctrl-C would
be noticed at the end of the wait."""


def run_flow(source: Flow[T]) -> T:
    """The last value of one run on the library's loop; blocks the calling thread."""
    if running_loop() is not None:
        # (the error says enough: no warning of a flow that was never begun)
        source.take_over()
        raise RunInsideLoopError
    future: Future[T] = Future()
    scope = Scope.here()
    assert scope.loop is library_loop()
    last = _LastValue(scope, future)
    try:
        # inside the `try`, as Ctrl-C may come at once
        last.start(source)
        while True:
            try:
                return future.result(WAKE_SECONDS)
            except TimeoutError:
                # the run's own, or the end of a slice
                if future.done():
                    break
        return future.result()
    except BaseException:
        if not future.done():
            last.dispose()
            _wait_idle(scope)
        raise
    finally:
        del future, last


def _wait_idle(scope: Scope) -> None:
    closed: Future[None] = Future()
    scope.call_from_thread(lambda: scope.work.when_idle(lambda: closed.set_result(None)))
    try:
        closed.result(CLOSING_SECONDS)
    except TimeoutError:
        # the clean-up goes on, on the library's loop
        return
