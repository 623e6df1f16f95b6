"""`ToolCheck`: one hook's operator around the events of a tool call; the one result that comes out is the call's.

The operator may change, drop and add events, and may answer without running the tool. Exactly one result with the
call's id comes out, last. If chunks of an earlier attempt were shown, a further attempt begins with a `ToolRetry`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from agentscope_rx.errors import HookError
from agentscope_rx.hooks.wrapping.around_hook import Step
from agentscope_rx.hooks.wrapping.checked import Checked
from agentscope_rx.hooks.wrapping.requests import ToolRequest
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.scope import Scope
from agentscope_rx.tools.calls.signals import ToolBegun, ToolChunk, ToolEvent, ToolNested, ToolNotice, ToolRetry

_KINDS = cast("tuple[type, ...]", get_args(ToolEvent))


class ToolCheck(Checked[ToolEvent, ToolRequest]):
    """See above."""

    __slots__ = ("_begun", "_entered", "_noticed", "_result", "_shown")

    def __init__(self, step: Step, request: ToolRequest, sink: Sink[ToolEvent], scope: Scope) -> None:
        super().__init__(step, request, sink, scope)
        self._begun = False
        # a result of the latest attempt has gone in
        self._entered = False
        self._result: ToolResultBlock | None = None
        # chunks have come out since the latest notice
        self._shown = False
        # the operator itself has announced that the latest attempt has ended
        self._noticed = False

    def begins(self) -> HookError | Iterable[ToolEvent]:
        if self._result is not None:
            return self.problem(f"began call {self.request.call.id!r} again after its result")
        self._entered = False
        noticed, self._noticed = self._noticed, False
        if self.attempts == 1 or self.active or noticed:
            return ()
        error = self.error or self.problem("has ended the attempt")
        return (ToolRetry(self.request.call, self.attempts - 1, 0.0, error, self._shown),)

    def entered(self, item: ToolEvent, sink: Sink[ToolEvent]) -> None:
        kind = type(item)
        if kind is ToolBegun:
            # a run must know which calls have begun; a further attempt is the same call
            if not self._begun:
                self._begun = True
                self.announce(item, sink)
        elif kind is ToolRetry:
            self.announce(item, sink)
        else:
            self._entered = self._entered or kind is ToolResultBlock
            sink.on_next(item)

    def announced(self, item: ToolEvent) -> None:
        if type(item) is ToolRetry:
            self._shown = False

    def on_next(self, item: ToolEvent) -> None:
        if self.disposed:
            return
        kind = type(item)
        if kind not in _KINDS:
            self.fail(self.problem(f"must emit ToolEvents, not {kind.__name__}: {item!r:.60}"))
            return
        announced = kind is ToolBegun or kind is ToolRetry
        # (a notice that was held back with chunks of its attempt discards these, too)
        if announced and self.is_repeated(item) and not (kind is ToolRetry and self._shown):
            return
        if self._result is not None:
            what = "a second result" if kind is ToolResultBlock else f"a {kind.__name__} after the result"
            self.fail(self.problem(f"emitted {what} of call {self.request.call.id!r}; the one result comes last"))
            return
        if kind is ToolResultBlock:
            self._result = cast("ToolResultBlock", item)
            if self._result.id != self.request.call.id:
                self.fail(self._wrong_id(self._result.id))
                return
        elif kind is ToolRetry:
            self.announced(item)
            self._noticed = not self.active
        elif kind is ToolChunk or kind is ToolNested or kind is ToolNotice:
            self._shown = True
        self._sink.on_next(item)

    def _wrong_id(self, id: str) -> HookError:
        return self.problem(
            f"emitted a result with the id {id!r} for call {self.request.call.id!r}; build it for the call of the "
            "request: ToolResultBlock(request.call.id, request.call.name, ...)"
        )

    def ends(self) -> HookError | None:
        if self._result is not None or (self.completed and not self._entered):
            # a call that is stopped before it has begun has no result
            return None
        return self.problem(f"lost the result of call {self.request.call.id!r}: exactly one must come out")

    def fails(self, error: Exception) -> Exception:
        if self._result is None or isinstance(error, HookError):
            return error
        problem = self.problem(f"failed after the result of call {self.request.call.id!r}")
        problem.__cause__ = error
        return problem
