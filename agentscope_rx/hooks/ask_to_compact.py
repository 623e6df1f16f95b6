"""How a hook is asked for a compaction, one `Compaction` that changes metadata only, or none."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from contextvars import copy_context
from inspect import isawaitable
from typing import cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import HookError
from agentscope_rx.events import ContextEvent
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.hooks.error_notes import add_note
from agentscope_rx.memory.views import summary_carrier
from agentscope_rx.messages import TRANSIENT, Msg
from agentscope_rx.messages.history import numbers_of, same_beginning
from agentscope_rx.reactive import Flow, catch, concat_map, empty, flow, from_awaitable, just, throw


def ask(hook: Hook, request: CompactionRequest) -> object:
    """What the hook answers; its error gets a note that names it. A context variable that it sets stays within it."""
    try:
        return copy_context().run(hook.compact, request)
    except Exception as error:
        add_note(error, hook, "compact", request.source.agent)
        raise


def compaction_in(hook: Hook, agent: str, answer: object) -> Flow[Compaction]:
    """The compaction in the answer of a hook of this agent.

    Signals: at most one; the error of the hook, with a note that names it; `HookError` for other answers.
    Cancels: the work of the hook.
    """
    if isinstance(answer, abc.ObservableBase):
        found = flow(cast("Observable[object]", answer))
    elif isawaitable(answer):
        found = from_awaitable(cast("Awaitable[object]", answer))
    else:
        found = just(answer)

    def only(found: list[object]) -> Flow[Compaction]:
        given = [each for each in found if each is not None]
        if not given:
            return empty()
        if len(given) > 1 or not isinstance(given[0], Compaction):
            what = "several values" if len(given) > 1 else f"{given[0]!r:.60}"
            raise _problem(hook, f"returned {what}, not one Compaction, or None for nothing to do")
        return just(given[0])

    answered = found.pipe(ops.take(2), ops.to_list(), concat_map(only))
    return answered.pipe(catch(lambda error: throw(add_note(error, hook, "compact", agent))))


def changes_of(hook: Hook, compaction: Compaction, history: Sequence[Msg]) -> tuple[Msg, ...]:
    """The messages that the compaction changes; `HookError` for one that it must not change in this way."""
    new_of: dict[str, Msg] = {}
    for message in compaction.replaced:
        if not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _problem(hook, f"gave {message!r:.60} as a replaced message, not a Msg")
        new_of[message.id] = message
    changed: dict[str, Msg] = {}
    missing = set(new_of)
    for old in [history[number] for number in numbers_of(history, new_of)]:
        new = new_of[old.id]
        missing.discard(old.id)
        if new.replace(metadata=old.metadata) != old:
            raise _problem(
                hook,
                f"changed more than the metadata of message {old.id}. The original must stay in memory: mark the "
                "message, or give it a short form (agentscope_rx.memory.shortened)",
            )
        if TRANSIENT in new.marks and TRANSIENT not in old.marks:
            raise _problem(hook, f"made message {old.id} transient, so it would be lost at the end of the run")
        if new.metadata != old.metadata:
            changed[new.id] = new
    if missing:
        raise _problem(hook, f"replaced message {min(missing)}, which memory does not have")
    for event in compaction.events:
        if not isinstance(event, ContextEvent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _problem(hook, f"gave {event!r:.60} as an event, not a ContextEvent")
    return tuple(changed.values())


def is_outdated(replaced: Iterable[Msg], asked: Sequence[Msg], history: Sequence[Msg]) -> bool:
    """True if others have changed or removed these messages, or changed the summary, since the hook was asked.

    What they did would be lost, and a summary may have what they have taken out.
    """
    if asked is history or same_beginning(asked, history) == len(asked):
        return False
    ids = {message.id for message in replaced}
    before, now = ({each.id: each for each in messages if each.id in ids} for messages in (asked, history))
    one, other = summary_carrier(asked), summary_carrier(history)
    return before != now or (one and one.id) != (other and other.id)


def _problem(hook: Hook, text: str) -> HookError:
    return HookError(text, hook=hook.name, event="compact")
