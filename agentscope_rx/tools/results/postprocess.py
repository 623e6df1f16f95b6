"""`postprocess`: changes each result of a tool before it is shown.

    def short(call, result):                                    # sync: answers at once, on the loop; async: may wait
        return replace(result, output=(TextBlock(result.text[:100]),))

It gets the results of failed calls too (`result.is_error`), not the placeholder of a suspended call. None leaves the
result unchanged; an exception, or a value that is no result, becomes a failed result. Progress is not changed. The
call's deadlines hold for it, counted anew; it is never retried, and does not make the call be retried.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from reactivex import Observable

from agentscope_rx.errors import ToolError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, SourceCancelledError, catch, concat_map, from_awaitable, just, throw
from agentscope_rx.tools.calls.failure import failure
from agentscope_rx.tools.calls.signals import ToolEvent

Postprocess = Callable[[ToolUseBlock, ToolResultBlock], ToolResultBlock | Awaitable[ToolResultBlock | None] | None]
"""Returns the changed result; None leaves it unchanged."""

Deadlines = Callable[[Observable[object]], Flow[object]]


def postprocessed(
    events: Flow[ToolEvent], call: ToolUseBlock, function: Postprocess, deadlines: Deadlines | None
) -> Flow[ToolEvent]:
    """The events of one call, with its result changed by `function`.

    Signals: as the call. Cancels: the call, or the function if it waits.
    """

    def done(event: ToolEvent) -> Flow[ToolEvent]:
        if not isinstance(event, ToolResultBlock) or event.kind is ToolResultKind.SUSPENDED:
            return just(event)
        return _processed(call, event, function, deadlines)

    return concat_map(done)(events)


def both(first: Postprocess | None, second: Postprocess) -> Postprocess:
    """One after the other; the second gets the first one's result."""
    if first is None:
        return second

    async def chained(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock | None:
        between = _checked(call, await _answer(first(call, result)), result)
        return _checked(call, await _answer(second(call, between)), between)

    return chained


async def _answer(answer: object) -> object:
    return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


def _processed(
    call: ToolUseBlock, result: ToolResultBlock, function: Postprocess, deadlines: Deadlines | None
) -> Flow[ToolEvent]:
    try:
        answer = function(call, result)
        if not inspect.isawaitable(answer):
            return just(_checked(call, answer, result))
    except Exception as error:
        return just(failure(call, error))
    waiting: Flow[object] = from_awaitable(cast("Awaitable[object]", answer))
    if deadlines is not None:
        waiting = deadlines(waiting)

    def failed(error: Exception) -> Flow[ToolEvent]:
        return throw(error) if isinstance(error, SourceCancelledError) else just(failure(call, error))

    found: Flow[ToolEvent] = concat_map(lambda value: _checked(call, value, result))(waiting)
    return catch(failed)(found)


def _checked(call: ToolUseBlock, value: object, result: ToolResultBlock) -> ToolResultBlock:
    if value is None:
        return result
    if isinstance(value, ToolResultBlock):
        return replace(value, id=call.id, name=call.name)
    raise ToolError(
        f"postprocess of tool {call.name!r} returned {type(value).__name__}: it takes a call and its ToolResultBlock, "
        "and returns one (as by dataclasses.replace), or None to leave it unchanged."
    )
