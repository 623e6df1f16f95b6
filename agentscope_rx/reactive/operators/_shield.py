"""`shielded`: what has begun runs to its end, even if the subscriber leaves.

For a write that must not be torn. After disposal the source goes on as work under way in its scope, so that a clean-up
that waits for the scope finds it done; its error, which nobody can hear any more, goes to the dropped-error hook.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.fuse import Deferred, Immediate, reduced
from agentscope_rx.reactive.kernel.observer import Sink, Upstream, attach
from agentscope_rx.reactive.kernel.runtime import RunAbortedError
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def shield(source: Observable[T]) -> Flow[T]:
    """Emits what the source emits; disposal ends the signals but not the source."""

    def shield() -> abc.ObservableBase[T]:
        rest = reduced(source)
        # what is done already needs no shield
        if isinstance(rest, Immediate):
            return rest
        return Flow(lambda sink, scope: _Shield(sink, scope).start(rest))

    return Deferred(shield)


class _Shield(Generic[T]):
    __slots__ = ("_scope", "_sink", "left")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        self._sink = sink
        self._scope = scope
        self.left = False

    def start(self, source: abc.ObservableBase[T]) -> None:
        self._sink.on_subscribe(self)
        if not self.left:
            self._scope.work.begin()
            attach(source, self, self._scope)

    def on_subscribe(self, upstream: Upstream) -> None: ...

    def on_next(self, value: T) -> None:
        if not self.left:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._scope.work.end()
        if not self.left:
            self._sink.on_error(error)
        elif not isinstance(error, RunAbortedError):
            report_dropped(error, "a write that outlived its run")

    def on_completed(self) -> None:
        self._scope.work.end()
        if not self.left:
            self._sink.on_completed()

    def dispose(self) -> None:
        self.left = True
