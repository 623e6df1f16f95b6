"""`emitting`: what a tool emits through its context joins the values that it gives, in order, before its result.

    values             ----a--------b|
    context.emit       -p-----q--r----      from any thread
    result             -p--a--q--r--b|      p, q, r as `ToolChunk`

It stands inside the deadlines and the retries of an attempt: a tool that emits is not silent, and what a failed attempt
has emitted is known to be shown.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from reactivex import abc

from agentscope_rx.message import OutputBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, Scope
from agentscope_rx.reactive.observer import Sink, Upstream, attach
from agentscope_rx.tool.context import ToolContext
from agentscope_rx.tool.event import ToolChunk


def emitting(
    call: ToolUseBlock, context: ToolContext | None, begin: Callable[[ToolContext], abc.ObservableBase[object]]
) -> Flow[object]:
    """Emits the values of `begin(context)` and, as `ToolChunk`s between them, what is emitted through that context.

    Signals: values and chunks, completion, errors of `begin` and of its flow; nothing emitted after the end.
    Cancels: the flow; the context says that it is stopping, and wakes who waits.
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

    __slots__ = ("_call", "_draining", "_queue", "_scheduled", "_scope", "_sink", "_upstream", "_waiting", "ended")

    def __init__(self, call: ToolUseBlock, sink: Sink[object], scope: Scope) -> None:
        self._call = call
        self._sink = sink
        self._scope = scope
        self._upstream: Upstream | None = None
        self._queue: deque[ToolChunk] = deque()
        self._scheduled = False
        self._draining = False
        self._waiting: list[threading.Event] = []
        self.ended = False

    # --- the tool's side: any thread ------------------------------------------------------------------------------

    def emit(self, output: tuple[OutputBlock, ...]) -> None:
        if self.ended:
            return
        self._queue.append(ToolChunk(self._call, output))
        # the loop takes the flag back before it looks at the queue: what was appended before is seen
        if not self._scheduled:
            self._scheduled = True
            if self._scope.is_here():
                self._scope.call_soon(self._drain)
            else:
                self._scope.call_from_thread(self._drain)

    def wait(self, timeout: float | None) -> None:
        event = threading.Event()
        # announced before the look at `ended`, which is set before those who wait are woken
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
            self._end()
            if self._upstream is not None:
                self._upstream.dispose()

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

    def _end(self) -> None:
        self.ended = True
        self._queue.clear()
        for event in tuple(self._waiting):
            event.set()
