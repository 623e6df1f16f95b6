"""`Flow`: the Observable that every stage returns. Cold: nothing happens before subscription, all stops at disposal.

| you write                          | you get                                                                |
|------------------------------------|------------------------------------------------------------------------|
| `flow.subscribe(...)`              | signals on the running loop, or on the library's; a disposable         |
| `await flow`                       | the last value; cancelling the awaiting task disposes                  |
| `flow.run()`                       | the same for a script without a loop: blocks                           |
| `async for x in flow`              | pulled, with back-pressure; leaving the loop disposes                  |
| `async with flow as values`        | the same, and the end waits for the clean-up                           |
| `flow.buffered(capacity, policy)`  | either of these two, with your own buffer                              |
| `flow.pipe(ops...)`                | a Flow again, behind kernel and stock operators alike                  |
| `flow.as_task()`                   | an asyncio task for the last value                                     |

Kernel operators attach a Flow through `_attach`; all other code uses `subscribe`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast, overload

from reactivex import ConnectableObservable, Observable, abc

from agentscope_rx.reactive.channel import DEFAULT_CAPACITY, Overflow
from agentscope_rx.reactive.kernel.forking import new_rlock
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.reactive.unbegun import Unbegun

if TYPE_CHECKING:
    from agentscope_rx.reactive.kernel.bridge import FlowIterator

T = TypeVar("T", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")

Operator = Callable[[Observable[A]], Observable[B]]
"""A function that `pipe` takes: a kernel operator, a stock one, or your own."""


class Flow(Observable[T]):
    """A cold Observable that you can also await, iterate and run. Each subscription is a run of its own.

    | write                        | get                                                                  |
    |------------------------------|----------------------------------------------------------------------|
    | `await flow`                 | the last value                                                       |
    | `flow.run()`                 | the last value, in a thread without a loop                           |
    | `async for value in flow`    | values as fast as you read them, through a buffer of 64              |
    | `async with flow as values`  | the same; the end of the block waits for the clean-up                |
    | `flow.buffered(...)`         | the same, with a buffer and policy of your choice                    |
    | `flow.subscribe(...)`        | callbacks                                                            |
    | `flow.pipe(...)`             | another Flow                                                         |
    | `flow.as_task()`             | an asyncio task                                                      |

    For implementers: each subscription calls `attach(sink, scope)`.
    """

    def __init__(self, attach: Callable[[Sink[T], Scope], None]) -> None:
        # Observable.__init__ would make a lock for every stage of every turn; see `lock`.
        self._attach = attach

    _unbegun: Unbegun | None = None

    # Observable has slices, by which a plain `for` would go on for ever: flow[0], flow[1], ...
    __iter__ = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, not begun: await it, run() it or subscribe to it>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Report an attribute of the result that was read from the flow: its `run()` or `await` was forgotten."""
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                message += f". It has not begun: for {name!r} of its result await it, or run() it"
            raise AttributeError(message, name=name, obj=self)

    def warning(self, unbegun: Unbegun) -> Self:
        """This flow, with a warning if it is freed without a subscription, alone or as part of another flow."""
        connect = self._attach

        def begin(sink: Sink[T], scope: Scope) -> None:
            unbegun.begun = True
            connect(sink, scope)

        self._attach = begin
        self._unbegun = unbegun
        return self

    def holding(self, unbegun: Unbegun) -> Self:
        """The same for a flow whose `attach` sets `begun` itself."""
        self._unbegun = unbegun
        return self

    def take_over(self) -> Self:
        """This flow without the warning, for a caller that may never subscribe to it."""
        if self._unbegun is not None:
            self._unbegun.begun = True
        return self

    @property
    def lock(self) -> threading.RLock:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The lock that some reactivex operators expect on their source; created on first use."""
        own = cast("dict[str, threading.RLock]", self.__dict__)
        return own.get("_lock") or own.setdefault("_lock", new_rlock())

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | abc.OnNext[T] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Start one run and hand its signals to an observer or to callbacks.

        Signals arrive serially on one loop's thread: the running loop's if there is one here, else the library's. An
        exception of a callback disposes the run and goes to `on_dropped`, as does an error without `on_error`. You may
        use the returned disposable from any thread.
        """
        scope = scheduler if isinstance(scheduler, Scope) else Scope.here()
        subscription: Subscription[T] = Subscription(scope, on_next, on_error, on_completed)
        subscription.start(self)
        return subscription

    @overload
    def pipe(self) -> Flow[T]: ...
    @overload
    def pipe(self, o1: Operator[T, A], /) -> Flow[A]: ...
    @overload
    def pipe(self, o1: Operator[T, A], o2: Operator[A, B], /) -> Flow[B]: ...
    @overload
    def pipe(self, o1: Operator[T, A], o2: Operator[A, B], o3: Operator[B, C], /) -> Flow[C]: ...
    @overload
    def pipe(self, o1: Operator[T, A], o2: Operator[A, B], o3: Operator[B, C], o4: Operator[C, D], /) -> Flow[D]: ...
    @overload
    def pipe(
        self,
        o1: Operator[T, A],
        o2: Operator[A, B],
        o3: Operator[B, C],
        o4: Operator[C, D],
        o5: Operator[D, E],
        /,
        *more: Callable[[Observable[E]], Observable[E]],
    ) -> Flow[E]: ...
    def pipe(self, *operators: Callable[[Observable[object]], Observable[object]]) -> Flow[object]:  # pyright: ignore[reportInconsistentOverload, reportIncompatibleMethodOverride]
        """Apply operators from left to right. The result is a Flow again, with `await` and `async for`.

        Connectable Observables (from `publish` and the like) stay as they are, to keep `connect`.
        """
        # (no casts: a run pipes a lot)
        piped: Observable[object] = self  # pyright: ignore[reportAssignmentType]
        for operator in operators:
            piped = operator(piped)
        # looked at first, and not by isinstance: mostly the result of a kernel operator
        if hasattr(piped, "_attach"):
            return piped  # pyright: ignore[reportReturnType]
        if isinstance(piped, ConnectableObservable) or not isinstance(piped, Observable):  # pyright: ignore[reportUnnecessaryIsInstance]
            return cast("Flow[object]", piped)
        return flow(piped)

    def run(self, scheduler: abc.SchedulerBase | None = None) -> T:
        """Run to the end on the library's loop and return the last value; blocks this thread.

        Raises the flow's error, reactivex's `SequenceContainsNoElementsError` if there was no value, and
        `RunInsideLoopError` on the thread of a running loop. Ctrl-C disposes the run and waits for its clean-up.
        """
        from agentscope_rx.reactive.kernel.bridge import run_flow

        return run_flow(self)

    def __await__(self) -> Generator[object, None, T]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from agentscope_rx.reactive.kernel.bridge import last_value

        return last_value(self).__await__()

    def as_task(self, *, name: str | None = None) -> asyncio.Task[T]:
        """An asyncio task for the last value, on the running loop; cancelling it disposes the run."""
        from agentscope_rx.reactive.kernel.bridge import last_value

        # (a task may be cancelled before it has begun)
        return asyncio.get_running_loop().create_task(last_value(self.take_over()), name=name)

    def __aiter__(self) -> FlowIterator[T]:
        from agentscope_rx.reactive.kernel.bridge import FlowIterator

        return FlowIterator(self)

    def buffered(
        self: Flow[A],
        capacity: int = DEFAULT_CAPACITY,
        overflow: Overflow | None = None,
        *,
        coalesce: Callable[[A, A], A | None] | None = None,
        max_bytes: int | None = None,
        size_of: Callable[[A], int] | None = None,
    ) -> FlowIterator[A]:
        """Iterate this flow once, with `async for` or `async with`, through a bounded buffer.

        A buffer is full when `capacity` items wait or, with `max_bytes`, when a new item would exceed that many bytes;
        `size_of(item)` is the size of an item. A larger item passes an empty buffer.

        | `overflow`    | when the buffer is full                                                              |
        |---------------|--------------------------------------------------------------------------------------|
        | `WAIT`        | sources stop reading, and go on at half of the bound; nothing is lost                |
        | `COALESCE`    | the same, but an item that merges with the last one needs no place                   |
        | `DROP_OLDEST` | the oldest item is dropped                                                           |
        | `DROP_NEWEST` | the new item is dropped                                                              |
        | `FAIL`        | the run is disposed, and the reader gets `ChannelFullError`                          |

            pushed      --a1-a2-a3-X-b1-b2--       coalesce(a1, a2) = a1a2, coalesce(a3, X) = None
            pulled      --a1-----------a2a3-X-b1b2--

        The default is `COALESCE` if `coalesce` is given, else `WAIT`. Under both, not to pull pauses the run.
        `coalesce(last, item)` returns one item with the content of both, or None. `statistics()` counts the items, and
        `overshoot`: how far one source item with several values has exceeded the bounds.
        """
        from agentscope_rx.reactive.kernel.bridge import FlowIterator

        if overflow is None:
            overflow = Overflow.WAIT if coalesce is None else Overflow.COALESCE
        return FlowIterator(self, capacity, overflow, coalesce, max_bytes, size_of)

    def __aenter__(self) -> Coroutine[object, object, FlowIterator[T]]:
        from agentscope_rx.reactive.kernel.bridge import enter

        return enter(self, sys._getframe(1))

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Coroutine[object, object, None]:
        from agentscope_rx.reactive.kernel.bridge import leave

        return leave(self, sys._getframe(1))


def flow(source: Observable[A]) -> Flow[A]:
    """Any Observable as a Flow, with `await`, `async for` and `run()`: for the results of stock operators."""
    if isinstance(source, Flow):
        return source
    return Flow(lambda sink, scope: attach(source, sink, scope))
