"""`next_turn`: a source begins only after `subscribe` has returned.

    subscription = flow.subscribe(...)      the source is attached, and nothing of it signals
    the loop's next turn                    --a--b--|

reactivex lets a cold source signal before `subscribe` has returned: a callback cannot use the subscription then. This
defers a source by one turn of the loop, but only beneath a subscription that is being made at this moment. A source
that is attached later, when another flow has ended or emitted, is attached at once: the subscription exists by then.
So is one beneath an `await` or an `async for`: nobody gets the subscription.
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
    """Emits the source's values, from the loop's next turn on if `subscribe` has not returned yet.

    Signals: those of the source.
    Cancels: the source; before the next turn it is not attached at all.
    """

    return _Begun(source)


class _Begun(Flow[T]):
    def __init__(self, source: abc.ObservableBase[T]) -> None:
        self._source = source

    def _attach(self, sink: Sink[T], scope: Scope) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if not scope.work.outermost().subscribing:
            attach(self._source, sink, scope)
            return
        link = _NextTurn(sink, scope)
        sink.on_subscribe(link)
        if not link.disposed:
            link.start(self._source)


class _NextTurn(Relay[T]):
    __slots__ = ("_handle", "_scope", "_source")

    def __init__(self, sink: Sink[T], scope: Scope) -> None:
        super().__init__(sink)
        self._scope = scope
        self._source: abc.ObservableBase[T] | None = None
        self._handle: asyncio.Handle | None = None

    def start(self, source: abc.ObservableBase[T]) -> None:
        self._source = source
        self._handle = self._scope.call_soon(self._begin)

    def _begin(self) -> None:
        self._handle = None
        source, self._source = self._source, None
        if self.disposed or source is None:
            return
        try:
            attach(source, self, self._scope)
        except Exception as error:
            # an operator that fails to start: the subscription has returned and cannot report it
            self.on_error(error)

    def dispose(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
        self._source = None
        super().dispose()
