"""`shield`: a source that has begun runs to its end, even if the subscriber leaves (as `asyncio.shield`).

For a write that must not be torn. After disposal the source goes on as work under way in its scope, so that a clean-up
that waits for the scope finds it done. Its error, which has no subscriber any more, goes to the dropped-error hook.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred, Immediate, reduced
from agentscope_rx.reactive.kernel.observer import Sink, Upstream, attach
from agentscope_rx.reactive.kernel.operator import Producer
from agentscope_rx.reactive.kernel.runtime import RunAbortedError
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def shield(source: Observable[T]) -> Flow[T]:
    """Emits the source's values. Disposal ends the signals, not the source.

    Signals: those of the source.
    Cancels: nothing.
    """

    def shield() -> abc.ObservableBase[T]:
        rest = reduced(source)
        # a value that is there needs no shield
        return rest if isinstance(rest, Immediate) else Producer(_Shield, rest)

    return Deferred(shield)


class _Shield(Generic[T]):
    __slots__ = ("_scope", "_sink", "disposed")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self.disposed = False

    def start(self, source: abc.ObservableBase[T]) -> None:
        self._scope.work.begin()
        attach(source, self, self._scope)

    def on_subscribe(self, upstream: Upstream) -> None: ...

    def on_next(self, value: T) -> None:
        if not self.disposed:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._scope.work.end()
        if not self.disposed:
            self._sink.on_error(error)
        elif not isinstance(error, RunAbortedError):
            report_dropped(error, "a write that outlived its run")

    def on_completed(self) -> None:
        self._scope.work.end()
        if not self.disposed:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.disposed = True
