"""`PlanChanges`: the changes of plans, for callbacks by id and as a hot Flow.

    notebook.on_change("log", print)            a callback; the same id replaces it
    notebook.changes.subscribe(show)            every change from now on; disposal ends it

A listener never breaks the tool that makes the change: the error of a callback is reported as dropped, and a subscriber
gets each change in the next turn of its own loop.
"""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import EventSource, PlanEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.reactive import Flow, Scope, just
from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.tools import ToolContext, ToolNotice

OnChange = Callable[[PlanEvent], object]


class PlanChanges:
    """The listeners of one notebook, list or mode. Its methods may be called from any thread."""

    __slots__ = ("_callbacks", "_listeners", "_lock")

    def __init__(self) -> None:
        self._lock = new_lock()
        # each change replaces them, so that `emit` needs no lock
        self._callbacks: dict[str, OnChange] = {}
        self._listeners: tuple[_Listener, ...] = ()

    def on_change(self, id: str, callback: OnChange) -> None:
        """Call `callback(event)` at every change; it replaces the one of the same id."""
        if not callable(callback):
            raise ConfigurationError(f"on_change takes a function of a PlanEvent, not {callback!r:.60}.")
        with self._lock:
            self._callbacks = {**self._callbacks, id: callback}

    def remove(self, id: str) -> bool:
        """Call this callback no more; False if there is none of this id."""
        with self._lock:
            found = id in self._callbacks
            self._callbacks = {key: each for key, each in self._callbacks.items() if key != id}
            return found

    @property
    def flow(self) -> Flow[PlanEvent]:
        """Every change from the subscription on.

        Signals: the events, each in the next turn of the subscriber's loop; it does not end. They are not held back: a
        consumer that pulls keeps those that it has not read.
        Cancels: the subscription.
        """

        def connect(sink: Sink[PlanEvent], scope: Scope) -> None:
            listener = _Listener(self, sink, scope)
            with self._lock:
                self._listeners = (*self._listeners, listener)
            sink.on_subscribe(listener)

        return Flow(connect)

    def forget(self, listener: _Listener) -> None:
        """Send nothing more to this one."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    @property
    def count(self) -> int:
        """The number of callbacks and subscribers."""
        return len(self._callbacks) + len(self._listeners)

    def emit(self, event: PlanEvent) -> None:
        """Tell all of them."""
        for id, callback in self._callbacks.items():
            try:
                callback(event)
            except Exception as error:
                report_dropped(error, f"callback {id!r} on changes of {event.name!r}")
        for listener in self._listeners:
            listener.send(event)


class _Listener:
    """One subscription."""

    __slots__ = ("_changes", "_disposed", "_scope", "_sink")

    def __init__(self, changes: PlanChanges, sink: Sink[PlanEvent], scope: Scope) -> None:
        self._changes = changes
        self._sink = sink
        self._scope = scope
        self._disposed = False

    def send(self, event: PlanEvent) -> None:
        def now() -> None:
            if not self._disposed:
                self._sink.on_next(event)

        if self._scope.is_here():
            self._scope.call_soon(now)
        elif not self._scope.call_from_thread(now):
            # the subscriber's loop is closed
            self.dispose()

    def dispose(self) -> None:
        self._disposed = True
        self._changes.forget(self)


class PlanningHook(Hook):
    """A hook whose changes can be listened to."""

    def __init__(self) -> None:
        self._changes = PlanChanges()

    @property
    def changes(self) -> Flow[PlanEvent]:
        """Every change in any conversation from the subscription on; signals and cancels as `PlanChanges.flow`."""
        return self._changes.flow

    def on_change(self, id: str, callback: OnChange) -> None:
        """Call `callback(event)` after every change; the same id replaces it. Its errors are reported as dropped."""
        self._changes.on_change(id, callback)

    def remove_on_change(self, id: str) -> bool:
        """Remove a callback; False if there is none of this id."""
        return self._changes.remove(id)


def source_of(context: ToolContext) -> EventSource:
    """The source of an event about a change by this tool call."""
    return EventSource(context.run_id, context.agent, context.path, context.runtime, context.parts)


def answer(context: ToolContext, text: str, event: PlanEvent | None) -> Flow[object]:
    """What a tool emits: its text for the model, after the event if something has changed."""
    return just(text) if event is None else just(ToolNotice(context.call, event), text)
