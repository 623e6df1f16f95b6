"""The input of `call()` and `stream()`: a str, a Msg, answers to pending calls, or a list of these.

It is checked before a run starts. `RunInput` is the input of one run, as it goes through hooks into memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import NamedTuple, cast

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.memory import Memory
from agentscope_rx.memory.changes import without_summary
from agentscope_rx.memory.short_forms import SHORT_FORMS, restored
from agentscope_rx.messages import (
    COMPRESSED,
    ApprovalAnswer,
    Approve,
    ContentBlock,
    Msg,
    MsgRole,
    Reject,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.messages.frozen import check_encodable
from agentscope_rx.messages.marks import MARKS, SUMMARY
from agentscope_rx.session import Session

CallInput = str | Msg | ApprovalAnswer | Iterable[Msg | ApprovalAnswer] | None

_ALLOWED = "a str, a Msg, Approve, Reject, or a list of Msg, Approve and Reject"


class ParsedInput(NamedTuple):
    """The input of a call, sorted into messages and answers."""

    messages: tuple[Msg, ...] = ()
    answers: tuple[ApprovalAnswer, ...] = ()
    empty: bool = False
    """True for an empty list: unlike no input, it does not ask for the pending calls to be run."""


NO_IDS: frozenset[str] = frozenset()


class RunInput:
    """The input of one run: as the caller gave it, after hooks, and its effect on the pending calls."""

    __slots__ = ("answered", "enqueued", "given", "given_ids", "handed_down", "messages", "passes_by", "unwritten")

    def __init__(self) -> None:
        self.given: tuple[Msg, ...] = ()
        """The messages as the caller gave them."""
        self.given_ids: tuple[str, ...] = ()
        """The ids of the caller's messages; empty if the run resumes one that was cut off."""
        self.messages: tuple[Msg, ...] = ()
        """The messages as they are remembered, after hooks."""
        self.unwritten: tuple[Msg, ...] = ()
        """The messages between their PreCallEvent and the moment that memory has them."""
        self.enqueued: tuple[Msg, ...] = ()
        """The messages that were enqueued and taken, as they are remembered."""
        self.passes_by: bool = False
        """True if the input neither answers nor runs the pending calls: they are closed before it."""
        self.answered: frozenset[str] = NO_IDS
        """The ids of the pending calls that the input decides, and of the calls around them."""
        self.handed_down: frozenset[str] = NO_IDS
        """The ids of the results in the input that belong to calls of sub-agents, which remember them."""

    @property
    def question(self) -> frozenset[str]:
        """The ids of the messages that the run has got; of the run that it goes on with, if it resumes one."""
        return frozenset(message.id for message in (*(self.messages or self.given), *self.enqueued))


def parse_input(given: CallInput) -> ParsedInput:
    """The input, sorted into messages and answers; `InvalidInputError` for anything else."""
    if given is None:
        return ParsedInput()
    if isinstance(given, str):
        return ParsedInput((Msg.user(given),))
    if isinstance(given, Msg):
        return ParsedInput(_whole(check_roles((given,))))
    if isinstance(given, (Approve, Reject)):
        return ParsedInput((), (given,))
    # a dict would be read as the list of its keys
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
    return ParsedInput(_whole(check_roles(tuple(messages))), tuple(answers), not messages and not answers)


def _whole(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """The messages without what a compaction left in them: a summary or a short form would be sent in their place.

    What hooks and guardrails see, and what memory shows, of a caller's message is what is sent. A message may come
    from a client; and a summary stands for messages of the conversation that it was made in.
    """
    left = {SHORT_FORMS, MARKS, SUMMARY}
    if not [each for each in messages if each.metadata and not left.isdisjoint(each.metadata)]:
        return messages
    return tuple(without_summary(restored(each)).unmarked(COMPRESSED) for each in messages)


def messages_of(given: CallInput) -> tuple[Msg, ...]:
    """The input of `observe()`: messages only."""
    messages, answers, _ = parse_input(given)
    if answers:
        raise InvalidInputError("observe() takes messages only; give Approve and Reject to call() or stream().")
    return messages


def enqueued_messages(given: CallInput) -> tuple[Msg, ...]:
    """The input of `enqueue()`: messages only, and at least one."""
    messages, answers, _ = parse_input(given)
    if answers:
        raise InvalidInputError("enqueue() takes messages only; give Approve and Reject to call() after the run.")
    if not messages:
        raise InvalidInputError("enqueue() needs at least one message.")
    return check_enqueued(messages)


def check_enqueued(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages, tool calls and tool results: the run settles its calls itself."""
    for message in check_input_messages(messages):
        if message.tool_results:
            raise InvalidInputError(
                f"Message {message.id} has tool results {[result.id for result in message.tool_results]}. A run in "
                "progress settles its calls itself: give results to call() when it has ended."
            )
    return messages


def check_roles(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages: a conversation has one system message, which is not remembered."""
    if any(message.role is MsgRole.SYSTEM for message in messages):
        raise InvalidInputError(
            "A SYSTEM message cannot be part of the input. Give ReActAgent a sys_prompt, or let a hook on "
            "PreCallEvent or PreReasoningEvent change `system_message`."
        )
    return messages


def check_input_messages(messages: tuple[Msg, ...]) -> tuple[Msg, ...]:
    """Refuse SYSTEM messages and tool calls: the calls in memory are the agent's own, each with one result."""
    for message in check_roles(messages):
        if message.tool_calls:
            _check_placeholders(message.tool_results)
            raise InvalidInputError(
                f"Message {message.id} has tool calls {[call.id for call in message.tool_calls]}, which would "
                "never be answered: only the agent's own answers have calls. To continue pending calls use call() "
                "without input, Approve, Reject or tool results; put a history into `memory`."
            )
    return messages


def _check_placeholders(results: Iterable[ToolResultBlock]) -> None:
    empty = [result.id for result in results if result.kind is not None and result.kind.waits]
    if empty:
        raise InvalidInputError(
            f"The tool results for {empty} are placeholders of a suspended run: they only mark the calls as "
            "pending. Give Msg.tool([ToolResultBlock(call.id, call.name, output), ...]) for "
            "reply.pending_calls."
        )


def check_answers(
    pending: Sequence[ToolUseBlock],
    messages: Sequence[Msg],
    answers: Sequence[ApprovalAnswer],
    given_ids: Collection[str],
    *,
    among: Sequence[ToolUseBlock] | None = None,
) -> None:
    """Refuse answers that do not fit the pending calls, before anything is remembered.

    `InvalidInputError` for a call that is answered twice, by its own placeholder, or that is not pending; and for other
    content in the caller's messages (`given_ids`) while calls still have no result, because the model must see the
    results first. Content that hooks add is allowed. If some of `pending` belong to sub-agents, `among` are the calls
    in memory that wait for them.
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
            + ("" if expected else " (A call can be answered once. New input without an answer closes it.)")
        )
    open = expected if among is None else [call.id for call in among]
    rest = [id for id in open if all(id != result.id for result in results)]
    if rest and any(len(each.tool_results) < len(each.content) for each in messages if each.id in given_ids):
        raise InvalidInputError(
            f"The calls {rest} have no results yet. The model must see all results before other content: give results "
            "for all of them, or send the other content with the next call."
        )


def named_as_called(messages: tuple[Msg, ...], calls: Iterable[ToolUseBlock]) -> tuple[Msg, ...]:
    """The messages with results that have the names of their calls.

    What hooks do with a result depends on its tool, so a caller must not choose the name.
    """
    names = {call.id: call.name for call in calls}

    def renamed(block: ContentBlock) -> ContentBlock:
        if not isinstance(block, ToolResultBlock) or names.get(block.id, block.name) == block.name:
            return block
        return replace(block, name=names[block.id])

    return tuple(each.replace(content=tuple(map(renamed, each.content))) for each in messages)


# --- other arguments ----------------------------------------------------------------------------------------------


def check_name(name: object) -> None:
    """`ConfigurationError` for a blank name of an agent; `InvalidInputError` for one with lone surrogates."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"An agent needs a name, not {name!r}.")
    check_encodable(name, "The name of an agent")


def check_kind(name: str, given: object, kind: type, *, needed: bool = False) -> None:
    """`ConfigurationError` for an argument of the wrong class; None is one only if `needed`."""
    if (needed or given is not None) and not isinstance(given, kind):
        raise ConfigurationError(_wrong_class(name, given, kind))


def check_kinds(*arguments: tuple[str, object, type]) -> None:
    """`check_kind` for several arguments, by name, value and class: nearly always none of them is given."""
    for name, given, kind in arguments:
        if given is not None:
            check_kind(name, given, kind)


def check_input(name: str, given: object, kind: type) -> None:
    """`InvalidInputError` for an argument of a call that is of the wrong class."""
    if given is not None and not isinstance(given, kind):
        raise InvalidInputError(_wrong_class(name, given, kind))


_EXAMPLES: dict[type, str] = {
    Memory: "a Memory, such as InMemoryMemory()",
    Tracer: "a Tracer",
    Session: "a Session, such as JsonSession('sessions')",
}


def _wrong_class(name: str, given: object, kind: type) -> str:
    wanted = _EXAMPLES.get(kind, f"{kind.__name__}(...)")
    # the class was given instead of an object of it
    hint = f" Did you mean {given.__name__}(...)?" if isinstance(given, type) and issubclass(given, kind) else ""
    if kind is Session and isinstance(given, str | PathLike):
        return f"{name} must be {wanted}, not a path or a URL. Did you mean open_session(...)?"
    return f"{name} must be {wanted}, not {given!r:.60}.{hint}"
