"""What an interrupted run ends with: the message given to `interrupt`, or what `handle_interrupt` says instead.

It is remembered, and it is the reply. So it can hold no tool blocks: a call would be open for ever, a result would
answer nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, append_if_missing, concat_map, defer, flow, from_awaitable, just

LastWords = Msg | Awaitable[Msg] | abc.ObservableBase[Msg]
"""What `handle_interrupt` may answer with."""


def last_words(make: Callable[[], LastWords]) -> Flow[Msg]:
    """The message that `make` gives, in whatever form it does.

    Signals: the message; what `make` fails with; `InvalidInputError` if it is none that a run can end with.
    Cancels: what it waits for.
    """

    def lift() -> Flow[object]:
        answer: object = make()
        if isinstance(answer, abc.ObservableBase):
            return flow(cast("Observable[object]", answer)).pipe(ops.take(1), append_if_missing(object, nothing))
        if isawaitable(answer):
            return from_awaitable(cast("Awaitable[object]", answer))
        return just(answer)

    return defer(lift).pipe(concat_map(lambda answer: check_last_words(answer, "handle_interrupt() gave")))


def nothing() -> object:
    """No answer is one that a run cannot end with."""
    return None


def check_last_words(message: object, who: str) -> Msg:
    """The message, if a run can end with it."""
    if not isinstance(message, Msg):
        raise InvalidInputError(f"A run ends with a Msg; {who} {message!r:.60}.")
    if message.role is MsgRole.SYSTEM:
        raise InvalidInputError(f"A run cannot end with a SYSTEM message; {who} {message.text!r:.60}.")
    blocks = [block.type for block in message.content if isinstance(block, (ToolUseBlock, ToolResultBlock))]
    if blocks:
        raise InvalidInputError(f"A run cannot end with tool calls or results; {who} a message with {blocks}.")
    return message
