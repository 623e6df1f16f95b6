"""`Interruption`: a request that a run ends normally, and the reply that an interrupted run ends with.

    requested by        the run ends with
    interrupt()         the given message, else the answer of `handle_interrupt`
    the deadline        a summary, or `RunDeadlineError`
    a shutdown          `AgentShuttingDownError`; calls that have not begun stay pending

The reply is remembered. So it can hold no tool blocks: a call in it would stay open, a result would answer no call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from inspect import isawaitable
from typing import cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Scope,
    append_if_missing,
    concat_map,
    defer,
    flow,
    from_awaitable,
    just,
)

LastWords = Msg | Awaitable[Msg] | abc.ObservableBase[Msg]
"""The return type of `handle_interrupt`: the reply, as a message, an awaitable or an Observable."""


class InterruptSource(StrEnum):
    """The origin of an interruption: `USER`, `TOOL`, or `SYSTEM` (a shutdown, another call)."""

    USER = "user"
    TOOL = "tool"
    SYSTEM = "system"


class Cut(StrEnum):
    """How an interrupted run ends: with a reply, at its deadline, or to be resumed after a shutdown."""

    REPLY = "reply"
    DEADLINE = "deadline"
    SHUTDOWN = "shutdown"


class Interruption:
    """The interruption of one run: at first not requested. The first request counts, until `renew`.

    `event` fires at the request, and wakes stages that wait. `ended_by` is the source, once the run ends by it.
    """

    __slots__ = ("_scope", "cut", "ended_by", "event", "message", "source")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.ended_by: InterruptSource | None = None
        self.renew()

    def enter(self, scope: Scope) -> None:
        """Tell the listeners in the context of this scope from now on."""
        self._scope = scope

    def renew(self) -> None:
        """Forget a request that has been handled: the run continues, and can be interrupted again."""
        self.event: OneShotEvent = OneShotEvent()
        self.message: Msg | None = None
        self.source: InterruptSource = InterruptSource.USER
        self.cut: Cut = Cut.REPLY
        scope = self._scope
        if (demand := scope.demand) is not None:
            # a stalled consumer must not keep the run from ending; waived after the other listeners have stopped
            self.event.listen(lambda: scope.call_soon(demand.waive))

    @property
    def requested(self) -> bool:
        """True once the run was asked to end."""
        return self.event.fired

    @property
    def is_shutdown(self) -> bool:
        """True if the run is cut off to be resumed later: nothing more is begun."""
        return self.event.fired and self.cut is Cut.SHUTDOWN

    def decides(self, *, ending: bool) -> bool:
        """True if the interruption decides the next step. A deadline does not if the run is `ending` by itself."""
        return self.event.fired and not (ending and self.cut is Cut.DEADLINE)

    def request(self, message: Msg | None, source: InterruptSource, cut: Cut = Cut.REPLY) -> None:
        """Ask the run to end; from any thread."""

        def fire() -> None:
            if not self.event.fired:
                self.message = message
                self.source = source
                self.cut = cut
                self.event.fire(later=self._scope.call_soon)

        if self._scope.is_here():
            fire()
        else:
            self._scope.call_from_thread(fire)


def check_interrupt(msg: object, source: InterruptSource) -> Msg | None:
    """The message given to `interrupt`; `InvalidInputError` for a wrong message or source."""
    if source not in tuple(InterruptSource):
        raise InvalidInputError(
            f"source must be one of {', '.join(each.value for each in InterruptSource)}, not {source!r:.60}."
        )
    message = Msg.user(msg) if isinstance(msg, str) else msg
    if message is None:
        return None
    if not isinstance(message, Msg):
        raise InvalidInputError(f"interrupt() takes a Msg or a str, not {message!r:.60}.")
    return check_interrupt_reply(message, "interrupt() was given")


def interrupt_reply(make: Callable[[], LastWords]) -> Flow[Msg]:
    """The message that `make` returns, as a value, an awaitable or an Observable.

    Signals: the message; the error of `make`; `InvalidInputError` for a message that a run cannot end with.
    Cancels: the awaitable or the Observable.
    """

    def lift() -> Flow[object]:
        answer: object = make()
        if isinstance(answer, abc.ObservableBase):
            first = flow(cast("Observable[object]", answer)).pipe(ops.take(1))
            # an empty Observable is refused like None
            return first.pipe(append_if_missing(object, lambda: None))
        if isawaitable(answer):
            return from_awaitable(cast("Awaitable[object]", answer))
        return just(answer)

    return defer(lift).pipe(concat_map(lambda answer: check_interrupt_reply(answer, "handle_interrupt() gave")))


def check_interrupt_reply(message: object, who: str) -> Msg:
    """The message, if a run can end with it; else `InvalidInputError`."""
    if not isinstance(message, Msg):
        raise InvalidInputError(f"A run ends with a Msg; {who} {message!r:.60}.")
    if message.role is MsgRole.SYSTEM:
        raise InvalidInputError(f"A run cannot end with a SYSTEM message; {who} {message.text!r:.60}.")
    blocks = [block.type for block in message.content if isinstance(block, (ToolUseBlock, ToolResultBlock))]
    if blocks:
        raise InvalidInputError(f"A run cannot end with tool calls or results; {who} a message with {blocks}.")
    return message
