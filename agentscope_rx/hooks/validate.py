"""Validates the result of a hook: the same kind of event, about the same call, and complete; else a `HookError`.

| of                   | must hold                                                                              |
|----------------------|----------------------------------------------------------------------------------------|
| every event          | it keeps its class; messages are `Msg`s, options `GenerateOptions`                     |
| every event          | no added message is a SYSTEM message: the only one is in `system_message`              |
| remembered messages  | they keep their role; only the model makes calls, only tools make results              |
| PreActing, PostActing| the call keeps its id; one result of that id, which is no placeholder                  |
| PostReasoning        | ids of calls differ; a message with calls keeps name and role; goto has one result for |
|                      | each call, and no calls                                                                |
| OutputChunk          | it keeps its delta, which hooks on ReasoningChunk have seen                            |
| PostReasoning, PostActing | a stop requested by an earlier hook stays requested (restored, not an error)      |

Only changed fields are checked: a result that is the event itself costs a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from functools import cache
from typing import TypeVar, cast

from agentscope_rx.errors import HookError
from agentscope_rx.events import (
    Event,
    OutputChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
)
from agentscope_rx.hooks.base import Hook
from agentscope_rx.messages import Approve, Msg, MsgRole, Reject, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import GenerateOptions

E = TypeVar("E", bound=Event)

_Remembered = PostReasoningEvent | PostActingEvent | PostSummaryEvent | PostCallEvent
_REMEMBERED = (PostReasoningEvent, PostActingEvent, PostSummaryEvent, PostCallEvent)


def checked(hook: Hook, before: E, after: object) -> E:
    """The event as the hook has left it; None is unchanged. The `HookError` names the hook and the event."""
    if after is None or after is before:
        return before
    if type(after) is not type(before):
        raise HookError(
            f"must return a {type(before).__name__} (or None for unchanged), not {_described(after)}",
            hook=hook.name,
            event=before.type,
        )
    answer = _check_fields(hook, before, cast("E", after))
    if isinstance(before, (PreActingEvent, PostActingEvent)):
        _check_call(hook, before, cast("PreActingEvent | PostActingEvent", answer))
    elif isinstance(before, PostReasoningEvent):
        _check_answer(hook, before, cast("PostReasoningEvent", answer))
    if isinstance(before, _REMEMBERED):
        _check_message(hook, before, cast("_Remembered", answer))
    if isinstance(before, (PostReasoningEvent, PostActingEvent)) and before.stop_requested:
        stopped = cast("PostReasoningEvent | PostActingEvent", answer)
        return answer if stopped.stop_requested else answer.replace(stop_requested=True)
    return answer


def check_chunk(hook: Hook, before: Event, after: Event) -> Event:
    """The chunk. A hook may delay or drop an OutputChunk, but not change its delta, which others have seen."""
    if isinstance(before, OutputChunkEvent) and cast("OutputChunkEvent", after).delta != before.delta:
        raise HookError(
            "must keep `delta`: this event repeats the delta of a ReasoningChunkEvent. Change it there, "
            "with @hook(ReasoningChunkEvent)",
            hook=hook.name,
            event=before.type,
        )
    return after


def _is_messages(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(item, Msg) for item in cast("Sequence[object]", value))


def _is_answers(value: object) -> bool:
    answers = cast("Sequence[object]", value)
    return isinstance(value, Sequence) and all(isinstance(item, (Approve, Reject)) for item in answers)


def _is_system(value: object) -> bool:
    return isinstance(value, Msg) and value.role is MsgRole.SYSTEM


_FIELD_TYPES: dict[str, tuple[Callable[[object], bool], str]] = {
    "message": (lambda value: isinstance(value, Msg), "a Msg"),
    "system_message": (lambda value: value is None or _is_system(value), "a SYSTEM Msg (`Msg.system(text)`) or None"),
    "answers": (_is_answers, "a tuple of Approve and Reject"),
    "tool_use": (lambda value: isinstance(value, ToolUseBlock), "a ToolUseBlock"),
    "options": (lambda value: value is None or isinstance(value, GenerateOptions), "GenerateOptions or None"),
    "input": (_is_messages, "a tuple of Msg"),
    "hints": (_is_messages, "a tuple of Msg"),
    "messages": (_is_messages, "a sequence of Msg"),
    "goto_messages": (lambda value: value is None or _is_messages(value), "a tuple of Msg or None"),
}
_TUPLES = ("input", "answers", "hints", "goto_messages")
_MESSAGES = ("message", "input", "hints", "messages", "goto_messages")


@cache
def _checked_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name in _FIELD_TYPES)


def _check_fields(hook: Hook, before: Event, after: E) -> E:
    """The event with fields of the right types; lists become tuples where tuples belong."""
    lists: dict[str, object] = {}
    for name in _checked_fields(type(after)):
        value: object = getattr(after, name)
        if value is getattr(before, name):
            continue
        fits, wanted = _FIELD_TYPES[name]
        if not fits(value):
            raise HookError(f"`{name}` must be {wanted}, not {_described(value)}", hook=hook.name, event=before.type)
        if name in _MESSAGES:
            _check_roles(hook, before, name, value)
        if name in _TUPLES and isinstance(value, list):
            lists[name] = tuple(cast("list[object]", value))
    return after.replace(**lists) if lists else after


def _check_roles(hook: Hook, before: Event, name: str, value: object) -> None:
    """Refuse added SYSTEM messages; a memory may hold some already."""
    added = [message for message in _listed(value) if message.role is MsgRole.SYSTEM]
    if not added:
        return
    there = (*_listed(getattr(before, name)), *_listed(getattr(before, "history", ())))
    known = {message.id for message in there if message.role is MsgRole.SYSTEM}
    if any(message.id not in known for message in added):
        raise HookError(
            f"`{name}` must not hold a SYSTEM message: the model gets one, first. Change `system_message` of "
            "PreCallEvent (for the call) or of PreReasoningEvent and PreSummaryEvent (for the round; "
            "`append_system_content`), or use Msg.user(...)",
            hook=hook.name,
            event=before.type,
        )


def _listed(value: object) -> Sequence[Msg]:
    return (value,) if isinstance(value, Msg) else cast("Sequence[Msg] | None", value) or ()


def _check_message(hook: Hook, before: _Remembered, after: _Remembered) -> None:
    """The message to remember keeps its role; the hook adds no call or result, and removes no result."""
    old, new = before.message, after.message
    if new is old:
        return
    problem: str | None = None
    if new.role is not old.role:
        problem = f"the message must keep its role {old.role.value!r}; use event.message.replace(content=...)"
    elif not isinstance(before, PostReasoningEvent) and (calls := _besides(new.tool_calls, old.tool_calls)):
        problem = f"no result would follow for the calls {calls}; add calls in PostReasoning"
    elif not isinstance(before, PostActingEvent):
        kept = [result for result in old.tool_results if result.kind is None or not result.kind.waits]
        if added := _besides(new.tool_results, old.tool_results):
            problem = f"there are no calls for the results {added}"
        elif gone := _besides(kept, new.tool_results):
            problem = f"the calls {gone} would be left without a result"
    elif new.tool_results and (kind := new.tool_results[0].kind) is not None and kind.waits:
        problem = f"a result of kind {kind.value!r} marks the call as waiting, but it has run"
    if problem:
        raise HookError(problem, hook=hook.name, event=before.type)


def _besides(
    blocks: Iterable[ToolUseBlock | ToolResultBlock], known: Iterable[ToolUseBlock | ToolResultBlock]
) -> list[str]:
    """The ids of blocks that are not known."""
    ids = {block.id for block in known}
    return [block.id for block in blocks if block.id not in ids]


def _check_call(hook: Hook, before: PreActingEvent | PostActingEvent, after: PreActingEvent | PostActingEvent) -> None:
    expected = before.tool_use.id
    if after.tool_use.id != expected:
        raise HookError(
            f"must keep the call's id {expected!r}, not {after.tool_use.id!r}", hook=hook.name, event=before.type
        )
    if isinstance(after, PostActingEvent):
        found = [result.id for result in after.message.tool_results]
        if found != [expected]:
            raise HookError(
                f"the message must hold exactly one result, with the call's id {expected!r}; it holds {found}",
                hook=hook.name,
                event=before.type,
            )


def _check_answer(hook: Hook, before: PostReasoningEvent, after: PostReasoningEvent) -> None:
    message = after.message
    ids = [call.id for call in message.tool_calls]
    problem: str | None = None
    if len(set(ids)) < len(ids):
        problem = f"the calls of one message must have different ids, found {ids}"
    elif ids and (message.role, message.name) != (before.message.role, before.message.name):
        # an agent finds its pending calls by name and role
        problem = "a message with tool calls must keep its name and role; use event.message.replace(content=...)"
    elif after.goto_messages is not None:
        problem = _goto_problem(ids, after.goto_messages)
    if problem:
        raise HookError(problem, hook=hook.name, event=before.type)


def _goto_problem(ids: Sequence[str], messages: Sequence[Msg]) -> str | None:
    """The problem with the messages of a goto after an answer with calls of these ids; None if there is none."""
    answered = [result.id for message in messages for result in message.tool_results]
    if open_ids := [id for id in ids if id not in answered]:
        return f"goto_reasoning: no tool result for the open calls {open_ids}"
    if len(answered) > len(ids):
        twice_or_unknown = sorted({id for id in answered if id not in ids or answered.count(id) > 1})
        return f"goto_reasoning: one result for each open call, and no others; too many for {twice_or_unknown}"
    if calls := [call.id for message in messages for call in message.tool_calls]:
        return f"goto_reasoning: no result would follow for the calls {calls}"
    return None


def _described(value: object) -> str:
    return f"{type(value).__name__}: {value!r:.60}"
