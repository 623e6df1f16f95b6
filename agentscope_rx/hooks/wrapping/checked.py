"""`Checked`: one hook's operator around a flow, with checks on both of its sides; the base of the checks by kind.

    source --> attempt --> the hook's operator --> check --> sink
               one for each subscription that the operator makes

A violation is a `HookError` that goes to the sink at once and disposes of the operator: an operator that tries again
must not be able to try for ever what is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast

from reactivex import abc

from agentscope_rx.errors import HookError
from agentscope_rx.hooks.error_notes import add_note
from agentscope_rx.hooks.wrapping.around_hook import Step
from agentscope_rx.hooks.wrapping.requests import Request
from agentscope_rx.reactive import Flow, concat, flat_map_iterable, from_iterable, on_loop
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.scope import Scope

T = TypeVar("T")
R = TypeVar("R", bound=Request)


class Checked(OperatorSink, Generic[T, R]):
    """The sink of one hook's operator. A subclass looks at what goes in, what comes out, and the beginning and end."""

    __slots__ = (
        "_due",
        "_early",
        "_live",
        "_scope",
        "_sink",
        "_source",
        "attempts",
        "completed",
        "error",
        "request",
        "step",
    )

    def __init__(self, step: Step, request: R, sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        # or ended
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._source: Flow[T]
        self._due: T | None = None
        self._early: list[T] = []
        self.step: Step = step
        self.request: R = request
        self.attempts: int = 0
        """How often the operator has subscribed."""
        self._live: list[_Attempt[T]] = []
        self.completed: bool = False
        """True if the latest attempt has completed."""
        self.error: Exception | None = None
        """The error of the latest attempt."""

    @property
    def active(self) -> int:
        """The number of attempts that have not ended."""
        return len(self._live)

    # --- for subclasses -------------------------------------------------------------------------------------------

    def begins(self) -> HookError | Iterable[T]:
        """Called for each attempt: what is emitted first, beside the operator, or why the attempt is refused."""
        return ()

    def lead(self, first: Iterable[T]) -> Flow[T]:
        """What is emitted before a further attempt begins, as a flow."""
        return from_iterable(first)

    def entered(self, item: T, sink: Sink[T]) -> None:
        """An item of the source, for the operator."""
        sink.on_next(item)

    def failed(self, error: Exception) -> None:
        """An attempt has failed."""
        self.error = error

    def announced(self, item: T) -> None:
        """A notice comes out; what came out before it may be void."""

    def ends(self) -> HookError | None:
        """Called when the operator's flow has completed: why that is refused."""

    def fails(self, error: Exception) -> Exception:
        """Called when the operator's flow has failed: the error to pass on."""
        return error

    # --- the operator -----------------------------------------------------------------------------------------------

    def start(self, source: Flow[T]) -> None:
        self._source = source
        # an operator that leaves the loop, such as ops.subscribe_on, must not take the source with it
        attempts: Flow[T] = on_loop(Flow(self._attempt), self._scope.loop)
        flow: object
        try:
            # a context variable that it sets stays within it
            flow = copy_context().run(self.step.apply, attempts, self.request)
            if isinstance(flow, abc.ObservableBase):
                attach(cast("abc.ObservableBase[T]", flow), self, self._scope)
                return
        except Exception as error:
            self.on_error(error)
            return
        self.fail(self.problem(f"must return an Observable, not {type(flow).__name__}: {flow!r:.60}"))

    def _attempt(self, sink: Sink[T], scope: Scope) -> None:
        """The operator subscribes to its source."""
        inner = self._inner(scope)
        attempt = _Attempt(self, sink, inner, here=inner is scope)
        sink.on_subscribe(attempt)
        if self._live:
            # a stock operator that tries again disposes of the attempt before only when it has subscribed
            scope.call_soon(lambda: self._begin(attempt, scope))
        else:
            self._begin(attempt, scope)

    def _begin(self, attempt: _Attempt[T], scope: Scope) -> None:
        if attempt.disposed:
            return
        if self.disposed:
            # a source that was kept, such as one that runs share
            attempt.cut_off()
            return
        self.attempts += 1
        beginning = self.begins()
        if isinstance(beginning, HookError):
            self.fail(beginning)
            return
        self._live.append(attempt)
        self.completed, self.error = False, None
        first = tuple(beginning)
        source = self._source
        if first:
            # not through the operator: for a retry or a deadline they would be values of the attempt
            source = concat(self.lead(first).pipe(flat_map_iterable(self._beside)), source)
        attach(source, attempt, attempt.scope)

    def _beside(self, item: T) -> Iterable[T]:
        if not self.disposed:
            self.announced(item)
            self._sink.on_next(item)
        return ()

    def _inner(self, scope: Scope) -> Scope:
        """The operator's own scope, if it is derived from that of the run, so that its demand is kept."""
        outer = self._scope
        derived = scope.loop is outer.loop and scope.work.outermost() is outer.work.outermost()
        return scope if derived else outer

    def on_next(self, item: T) -> None:
        if not self.disposed:
            self._sink.on_next(item)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if self.disposed:
            return
        if error is not self.error and not isinstance(error, HookError):
            add_note(error, self.step.hook, self.step.where, self.request.agent)
        error = self.fails(error)
        self.stop()
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        if self.disposed:
            return
        problem = self.ends()
        self.stop()
        if problem is None:
            self._sink.on_completed()
        else:
            self._sink.on_error(problem)

    def dispose(self) -> None:
        super().dispose()
        self.stop()

    def stop(self) -> None:
        """The end: an operator that ends without disposing of its source must not leave it running."""
        self.disposed: bool = True
        # (an error refers to its frames, and these to this object)
        self.error = None
        live, self._live = self._live, []
        for attempt in live:
            if attempt.here:
                attempt.cut_off()
            else:
                # its disposal may be on the way from another loop
                attempt.dispose()

    def left(self, attempt: _Attempt[T]) -> None:
        """The attempt has ended."""
        if attempt in self._live:
            self._live.remove(attempt)

    # --- announcements --------------------------------------------------------------------------------------------

    def announce(self, item: T, sink: Sink[T]) -> None:
        """Put an item through the operator that must come out at once.

        If the operator drops it or holds it back, it is emitted beside the operator.
        """
        self._due = item
        sink.on_next(item)
        if self._due is item and not self.disposed:
            self._due = None
            self._early.append(item)
            self._beside(item)

    def is_repeated(self, item: T) -> bool:
        """True if the item was emitted beside the operator, and comes out now."""
        if item is self._due:
            self._due = None
        elif self._early:
            for index, early in enumerate(self._early):
                if early is item:
                    del self._early[index]
                    return True
        return False

    # --- errors ---------------------------------------------------------------------------------------------------

    def problem(self, text: str, event: str = "") -> HookError:
        """A `HookError` that names the hook and the event; its cause is the error of the latest attempt."""
        error = HookError(text, hook=self.step.hook.name, event=event or self.step.where)
        error.__cause__ = self.error
        return error

    def fail(self, error: HookError) -> None:
        """End with the error, and dispose of the operator."""
        if not self.disposed:
            self.dispose()
            self._sink.on_error(error)


class _Attempt(OperatorSink, Generic[T]):
    """One subscription of the operator to its source."""

    __slots__ = ("_left", "_parent", "_sink", "here", "scope")

    def __init__(self, parent: Checked[T, Any], sink: Sink[T], scope: Scope, *, here: bool) -> None:
        self._upstream = None
        self.disposed = False
        self._left = False
        self._parent = parent
        self._sink = sink
        self.scope: Scope = scope
        self.here: bool = here
        """True if the operator has subscribed within the run and on its loop."""

    def on_next(self, item: T) -> None:
        self._parent.entered(item, self._sink)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._parent.left(self)
        self._parent.failed(error)
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._parent.left(self)
        self._parent.completed = True
        self._sink.on_completed()

    def dispose(self) -> None:
        self._left = True
        self._parent.left(self)
        super().dispose()

    def cut_off(self) -> None:
        """End it with the flow that the operator stands around; what still listens in the next turn is told."""
        super().dispose()
        self.scope.call_soon(self._tell)

    def _tell(self) -> None:
        if not self._left:
            self._left: bool = True
            self._sink.on_error(
                self._parent.problem("shares what it stands around with another run, and its own run has left it")
            )
