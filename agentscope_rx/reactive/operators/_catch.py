"""`catch`: go on with another Flow where the source failed.

source    --a--b--X
result    --a--b--c--d--|      where function(X) emits c, d
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from reactivex import Observable, abc

from agentscope_rx.reactive.kernel.dropped import report_dropped
from agentscope_rx.reactive.kernel.flow import Flow
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.reactive.kernel.runtime import RunAbortedError, SourceCancelledError
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.reactive.operators._using import CLEAN_UP_SECONDS, when_idle

T = TypeVar("T")


def catch(
    function: Callable[[Exception], abc.ObservableBase[T]], *, settled: bool = False
) -> Callable[[Observable[T]], Flow[T]]:
    """Emits the source's values and, if it fails, those of `function(error)` in place of the error.

    It does not catch `SourceCancelledError`: a loop that shuts down gets no more work. With `settled` each error waits
    until nothing is under way in the scope: until the sources that it has cut off have ended. It is for a flow that has
    its scope for itself, such as that of `using`.

    Signals: those of the source, then of the other Flow, whose error is not caught; the exception of `function`.
    Cancels: the one of the two that is in progress.
    """
    return partial(OperatorFlow, partial(_CatchSettled if settled else _Catch, function))


class _Catch(OperatorSink, Generic[T]):
    __slots__ = ("_caught", "_function", "_scope", "_sink", "on_next")

    def __init__(self, function: Callable[[Exception], abc.ObservableBase[T]], sink: Sink[T], scope: Scope) -> None:
        self._upstream = None
        self.disposed = False
        self._sink = sink
        self._scope = scope
        self._function = function
        self._caught = False
        self.on_next = sink.on_next

    def on_completed(self) -> None:
        self._upstream = None
        self._sink.on_completed()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if self._caught or isinstance(error, SourceCancelledError):
            self._sink.on_error(error)
            return
        self._caught = True
        try:
            other = self._function(error)
        except Exception as failure:
            self._sink.on_error(failure)
            return
        if not self.disposed:
            attach(other, self, self._scope)


class _CatchSettled(_Catch[T]):
    __slots__ = ()

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        if self._caught:
            self._sink.on_error(error)
        else:
            when_idle(self._scope.work, self._scope, CLEAN_UP_SECONDS, lambda: self._settled(error))

    def _settled(self, error: Exception) -> None:
        if not self.disposed:
            super().on_error(error)
        elif not isinstance(error, RunAbortedError):
            # (of a run that was aborted, the subscriber receives the exception itself)
            report_dropped(error, "a disposed run")
