"""`next_turn`: what is being subscribed to begins once it has been subscribed to.

    subscription = flow.subscribe(...)      the source is attached, and nothing of it signals
    the loop's next turn                    --a--b--|

reactivex lets a cold source signal before `subscribe` has returned: a callback cannot use the subscription then. This
puts a source off by one turn of the loop, but only beneath a subscription that is being made at this moment. What is
attached later, as another flow has ended or emitted, is attached at once: the subscription is held by then.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from reactivex import abc

from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import Relay, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")


def next_turn(source: abc.ObservableBase[T]) -> Flow[T]:
    """Attaches to the source on the loop's next turn, if the outermost subscription is being made now; else at once.

    Signals: those of the source.
    Cancels: the source; before the next turn it is not attached at all.
    """

    def connect(sink: Sink[T], scope: Scope) -> None:
        if not scope.work.outermost().subscribing:
            attach(source, sink, scope)
            return
        soon = _Soon(sink, scope, source)
        sink.on_subscribe(soon)
        if not soon.disposed:
            soon.handle = scope.call_soon(soon.begin)

    return Flow(connect)


class _Soon(Relay[T]):
    __slots__ = ("_scope", "_source", "handle")

    def __init__(self, sink: Sink[T], scope: Scope, source: abc.ObservableBase[T]) -> None:
        super().__init__(sink)
        self._scope = scope
        self._source: abc.ObservableBase[T] | None = source
        self.handle: asyncio.Handle | None = None

    def begin(self) -> None:
        self.handle = None
        source, self._source = self._source, None
        if self.disposed or source is None:
            return
        try:
            attach(source, self, self._scope)
        except Exception as error:
            # an operator that fails to start: the subscription is no longer there to say so
            self.on_error(error)

    def dispose(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.cancel()
        self._source = None
        super().dispose()
