"""What may be handed to `call()` and `stream()`: a str, a Msg, answers to calls that wait for approval, or several of
these; checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ApprovalAnswer, Approve, Msg, MsgRole, Reject, ToolResultBlock, ToolUseBlock

CallInput = str | Msg | ApprovalAnswer | Iterable[Msg | ApprovalAnswer] | None

_ALLOWED = "a str, a Msg, Approve, Reject, or a list of Msg, Approve and Reject"


class Given(NamedTuple):
    """What a call was given."""

    messages: tuple[Msg, ...] = ()
    answers: tuple[ApprovalAnswer, ...] = ()
    empty: bool = False
    """Whether it was a list with nothing in it: somebody has chosen nothing, and not left the choice to the agent."""


def given_of(given: CallInput) -> Given:
    """The input, sorted into messages and answers; `InvalidInputError` says what to hand over instead."""
    if given is None:
        return Given()
    if isinstance(given, str):
        return Given((Msg.user(given),))
    if isinstance(given, Msg):
        return Given(check_roles((given,)))
    if isinstance(given, (Approve, Reject)):
        return Given((), (given,))
    # (a dict would be taken for the list of its keys)
    several = cast("object", given)
    if isinstance(several, Mapping) or not isinstance(several, Iterable):
        raise InvalidInputError(f"call() takes {_ALLOWED}, not {type(given).__name__}.")
    messages: list[Msg] = []
    answers: list[ApprovalAnswer] = []
    for each in given:
        if isinstance(each, Msg):
            messages.append(each)
        elif isinstance(each, (Approve, Reject)):  # pyright: ignore[reportUnnecessaryIsInstance]
            answers.append(each)
        else:
            raise InvalidInputError(f"call() takes {_ALLOWED}; the list holds {each!r:.60}.")
    return Given(check_roles(tuple(messages)), tuple(answers), not messages and not answers)


def messages_of(given: CallInput) -> tuple[Msg, ...]:
    """The input as messages alone."""
    messages, answers, _ = given_of(given)
    if answers:
        raise InvalidInputError("observe() takes messages; hand Approve and Reject to call() or stream().")
    return messages


def check_roles(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages: the conversation has one system message, and it is not remembered."""
    if any(message.role is MsgRole.SYSTEM for message in messages):
        raise InvalidInputError(
            "A SYSTEM message cannot be part of the input. Give ReActAgent a sys_prompt, or let a hook on "
            "PreCallEvent or PreReasoningEvent change `system_message`."
        )
    return messages


def check_words(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages and tool calls: calls in memory are the agent's own, each with one result."""
    for message in check_roles(messages):
        if message.tool_calls:
            _check_placeholders(message.tool_results)
            raise InvalidInputError(
                f"Message {message.id} has tool calls {[call.id for call in message.tool_calls]}, which nobody would "
                "answer: only the agent's own answers have calls. To go on with calls that are pending use call() "
                "without input, Approve, Reject or tool results; a history belongs into `memory`."
            )
    return messages


def _check_placeholders(results: Iterable[ToolResultBlock]) -> None:
    empty = [result.id for result in results if result.kind is not None and result.kind.waits]
    if empty:
        raise InvalidInputError(
            f"The tool results for {empty} are the placeholders of the suspended run's reply, which say only that the "
            "calls wait. Give Msg.tool([ToolResultBlock(call.id, call.name, output), ...]) for reply.pending_calls."
        )


def check_answers(
    pending: Sequence[ToolUseBlock],
    messages: Sequence[Msg],
    answers: Sequence[ApprovalAnswer],
    said: Collection[str],
    *,
    among: Sequence[ToolUseBlock] | None = None,
) -> None:
    """Refuse answers to pending calls that do not fit, before anything is remembered.

    `among` are the calls in memory, if some of `pending` are those of sub-agents that such calls wait for.

    `InvalidInputError` for a call that is answered twice, by its own placeholder, or is not pending; and for other
    content in the caller's messages (`said`: their ids) while calls are still to be run: the model must see their
    results first. What hooks add is not the caller's to send later: it is let through.
    """
    results = [result for message in messages for result in message.tool_results]
    given = [result.id for result in results] + [answer.call_id for answer in answers]
    if not given:
        return
    _check_placeholders(results)
    expected = [call.id for call in pending]
    twice = sorted({id for id in given if given.count(id) > 1})
    if twice:
        raise InvalidInputError(f"More than one tool result (or answer) for {twice}.")
    unknown = [id for id in given if id not in expected]
    if unknown:
        raise InvalidInputError(
            f"Tool results or answers for {unknown}, which are not pending. Pending calls: {expected}."
            + ("" if expected else " (Each call is answered once; what was passed by is closed.)")
        )
    open = expected if among is None else [call.id for call in among]
    rest = [id for id in open if all(id != result.id for result in results)]
    if rest and any(len(each.tool_results) < len(each.content) for each in messages if each.id in said):
        raise InvalidInputError(
            f"The calls {rest} have no results yet, which the model must see before any other content: give results "
            "for all of them, or send the rest of the message with the next call."
        )
