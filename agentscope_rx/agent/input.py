"""What may be handed to `call()` and `stream()`: a str, a Msg, or several; checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import Msg, MsgRole, ToolUseBlock

CallInput = str | Msg | Iterable[Msg] | None


def messages_of(given: CallInput) -> tuple[Msg, ...]:
    """The input as messages; `InvalidInputError` says what to hand over instead."""
    if given is None:
        return ()
    if isinstance(given, str):
        return (Msg.user(given),)
    if isinstance(given, Msg):
        return check_roles((given,))
    # (a dict would be taken for the list of its keys)
    several = cast("object", given)
    if isinstance(several, Mapping) or not isinstance(several, Iterable):
        kind = type(given).__name__
        raise InvalidInputError(f"call() takes a str, a Msg or a list of Msg, not {kind}.")
    messages = tuple(given)
    for message in messages:
        if not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"call() takes a str, a Msg or a list of Msg; the list holds {message!r:.60}.")
    return check_roles(messages)


def check_roles(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages: the conversation has one system message, and it is not remembered."""
    if any(message.role is MsgRole.SYSTEM for message in messages):
        raise InvalidInputError(
            "A SYSTEM message cannot be part of the input. Give ReActAgent a sys_prompt, or let a hook on "
            "PreCallEvent or PreReasoningEvent change `system_message`."
        )
    return messages


def unanswered(pending: Sequence[ToolUseBlock], messages: Sequence[Msg]) -> tuple[ToolUseBlock, ...]:
    """The pending calls that the input brings no result for.

    `InvalidInputError` for a result that is given twice or belongs to no pending call, and for other content beside
    results that leave calls open: the model must see the results first.
    """
    given = [result.id for message in messages for result in message.tool_results]
    expected = [call.id for call in pending]
    twice = sorted({id for id in given if given.count(id) > 1})
    if twice:
        raise InvalidInputError(f"More than one tool result for {twice}.")
    unknown = [id for id in given if id not in expected]
    if unknown:
        raise InvalidInputError(f"Tool results for {unknown}, which are not pending. Pending calls: {expected}.")
    rest = tuple(call for call in pending if call.id not in given)
    if given and rest and any(len(message.tool_results) < len(message.content) for message in messages):
        raise InvalidInputError(
            f"Results for {given} leave {[call.id for call in rest]} open: give the rest too, or no other content."
        )
    return rest
