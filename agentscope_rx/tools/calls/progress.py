"""`emitting`: merges what a tool emits through its context with its own values, in order, before its result.

    values             ----a--------b|
    context.emit       -p-----q--r----      from any thread
    result             -p--a--q--r--b|      p, q, r as `ToolChunk`

It is inside the deadlines and the retries of an attempt: a tool that emits is not silent, and a retry reports that the
chunks of the failed attempt were shown.

A tool on a thread of its own that emits faster than its reader reads has to wait: while `MAX_WAITING` chunks wait for
the loop, and while the reader withholds demand. On an event loop `emit` never waits; `await context.send()` does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from reactivex import abc

from agentscope_rx.messages import OutputBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.kernel.observer import Sink, Upstream, attach
from agentscope_rx.reactive.kernel.runtime import LOST_LOOP_SECONDS, running_loop
from agentscope_rx.tools.calls.signals import ToolChunk
from agentscope_rx.tools.context import ToolContext

MAX_WAITING = 64
"""Chunks of a call that may wait for the loop before its thread has to wait."""


class Beat:
    """A sign of life, which restarts deadlines and is not shown."""


BEAT = Beat()


def emitting(
    call: ToolUseBlock, context: ToolContext | None, begin: Callable[[ToolContext], abc.ObservableBase[object]]
) -> Flow[object]:
    """Emits the values of `begin(context)` and, between them, a `ToolChunk` for each `emit` on that context.

    Signals: values and chunks, completion, errors of `begin` and of its flow; nothing emitted after the end.
    Cancels: the flow; the context is then `stopping`, and its waiting threads wake.
    """

    def connect(sink: Sink[object], scope: Scope) -> None:
        emitter = _Emitter(call, sink, scope)
        sink.on_subscribe(emitter)
        if emitter.ended:
            return
        own = ToolContext(call, link=emitter) if context is None else context.of(call, emitter)
        try:
            source = begin(own)
        except Exception as error:
            emitter.on_error(error)
            return
        attach(source, emitter, scope)

    return Flow(connect)


class _Emitter:
    """Chunks wait in a queue until the loop's next turn, or until the tool's next signal, which they precede."""

    __slots__ = (
        "_call",
        "_draining",
        "_forget",
        "_queue",
        "_rooms",
        "_scheduled",
        "_scope",
        "_sink",
        "_upstream",
        "_waiting",
        "ended",
    )

    def __init__(self, call: ToolUseBlock, sink: Sink[object], scope: Scope) -> None:
        self._call = call
        self._sink = sink
        self._scope = scope
        self._upstream: Upstream | None = None
        self._queue: deque[ToolChunk | Beat] = deque()
        self._scheduled = False
        self._draining = False
        self._waiting: list[threading.Event] = []
        # one for each that waits for room; it is resolved when it is taken out
        self._rooms: deque[Future[None]] = deque()
        self._forget: Callable[[], None] | None = None
        self.ended = False

    # --- the tool's side: any thread ------------------------------------------------------------------------------

    def emit(self, output: tuple[OutputBlock, ...]) -> None:
        if self.ended:
            return
        self._push(ToolChunk(self._call, output, True))
        if running_loop() is None and (room := self.room()) is not None:
            self._block(room)

    def beat(self) -> None:
        if not self.ended and not self._queue:
            self._push(BEAT)

    def room(self) -> Future[None] | None:
        """A future for the moment when more may be emitted; None if it is now."""
        if self.ended or not self._is_full():
            return None
        room: Future[None] = Future()
        # added before the loop checks for room, and before the check of `ended`
        self._rooms.append(room)
        self._scope.call_from_thread(self._check_room)
        if self.ended:
            self._make_room()
        return room

    def _is_full(self) -> bool:
        demand = self._scope.demand
        return len(self._queue) >= MAX_WAITING or (demand is not None and not demand.ready)

    def _block(self, room: Future[None]) -> None:
        while not self._scope.loop.is_closed():
            try:
                room.result(LOST_LOOP_SECONDS)
            except TimeoutError:
                continue
            return
        self._end()

    def _push(self, item: ToolChunk | Beat) -> None:
        self._queue.append(item)
        # the loop clears the flag before it reads the queue, so it sees all that was appended before
        if not self._scheduled:
            self._scheduled = True
            if self._scope.is_here():
                self._scope.call_soon(self._drain)
            else:
                self._scope.call_from_thread(self._drain)

    def wait(self, timeout: float | None) -> None:
        event = threading.Event()
        # added before the check of `ended`, which is set before waiting threads are woken
        self._waiting.append(event)
        if not self.ended:
            event.wait(timeout)
        self._waiting.remove(event)

    # --- the loop's side ------------------------------------------------------------------------------------------

    def on_subscribe(self, upstream: Upstream) -> None:
        self._upstream = upstream
        if self.ended:
            upstream.dispose()

    def on_next(self, value: object) -> None:
        self._drain()
        if not self.ended:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._drain()
        if not self.ended:
            self._end()
            self._sink.on_error(error)

    def on_completed(self) -> None:
        self._drain()
        if not self.ended:
            self._end()
            self._sink.on_completed()

    def dispose(self) -> None:
        if not self.ended:
            upstream = self._upstream
            self._end()
            if upstream is not None:
                upstream.dispose()

    def _drain(self) -> None:
        self._scheduled = False
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue and not self.ended:
                self._sink.on_next(self._queue.popleft())
        finally:
            self._draining = False

    def _check_room(self) -> None:
        """Make room now, or, if the reader withholds demand, once it has demand."""
        self._drain()
        demand = self._scope.demand
        if self.ended or demand is None or demand.ready:
            self._make_room()
        elif self._forget is None:
            # through the loop: a chunk that is emitted then must not come inside of the reader's pull
            self._forget = demand.when_ready(lambda: self._scope.call_soon(self._check_room_again))

    def _check_room_again(self) -> None:
        self._forget = None
        self._check_room()

    def _make_room(self) -> None:
        while self._rooms:
            try:
                room = self._rooms.popleft()
            except IndexError:
                # another thread has found that the call has ended
                return
            if room.set_running_or_notify_cancel():
                room.set_result(None)

    def _end(self) -> None:
        self.ended = True
        self._upstream = None
        self._queue.clear()
        for event in tuple(self._waiting):
            event.set()
        if self._forget is not None:
            self._forget()
        self._make_room()
