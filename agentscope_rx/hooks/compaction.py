"""`CompactionRequest` and `Compaction`: what a hook that keeps the context small gets, and gives (see `Hook.compact`).

round       before each model request: of a round, and of the summary at the end
overflow    the provider has refused the request as too long; it is made once more with what the hooks have left
manual      `agent.compact()`, between runs

A compaction changes the memory, so it is there for all later requests. A `memory_window` and a `TruncatingModel` change
one request: they get what the compaction has left, and leave out what is still too much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from inspect import isawaitable
from typing import Literal, cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import HookError, ModelError
from agentscope_rx.events import ContextEvent
from agentscope_rx.events.base import EventSource
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.error_notes import add_note
from agentscope_rx.messages import TRANSIENT, Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.reactive import Flow, catch, concat_map, defer, empty, flow, from_awaitable, just, throw

CompactionWhy = Literal["round", "overflow", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A model request that is about to be made, or that was refused. Everything is read-only.

    `history` is what the memory gives (`memory.get()`), and `messages` the part of it that is sent, in the form in
    which it is sent (see `memory.views`), before a `memory_window` leaves any out. `question` are the ids of the
    messages that this run has got as its input, enqueued input included; it is empty for `agent.compact()`. `pending`
    are the ids of calls without a result. `system_message`, `tools` and `options` are the rest of the request, before
    the hooks on PreReasoningEvent change it: these run afterwards, and see the smaller conversation.

    `last` is a pair: the number of messages, from the first of `messages` on, that were in the latest request of this
    run, and the tokens which its provider has counted for that whole request, system message and tools included. It is
    None before the first answer, if the provider has counted none, and after the messages were compacted.
    """

    why: CompactionWhy
    source: EventSource
    model: ChatModel
    history: Sequence[Msg]
    messages: Sequence[Msg]
    iteration: int = 0
    question: Collection[str] = ()
    pending: Collection[str] = ()
    system_message: Msg | None = None
    tools: Sequence[ToolSchema] = ()
    options: GenerateOptions | None = None
    last: tuple[int, int] | None = None
    error: ModelError | None = None
    """The refusal of the provider, if `why` is "overflow"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The changes of a compaction. `replaced` are messages of the memory with other marks, short forms or a summary.

    They replace those of the same ids, all or none. No message is added or removed, and nothing but metadata changes:
    the originals stay in memory, behind their marks and short forms. So a message that memory does not have, one with
    another content, and one that becomes transient are a `HookError`. `events` are the steps, in order, those that
    have failed included; the agent sets their `source`.
    """

    replaced: Sequence[Msg] = ()
    events: Sequence[ContextEvent] = ()


CompactionAnswer = Observable[Compaction] | Awaitable[Compaction | None] | Compaction | None
"""What `Hook.compact` may return."""


def compaction_of(hook: Hook, request: CompactionRequest) -> Flow[Compaction]:
    """The answer of the hook, as a Flow. A context variable that the hook sets stays within it.

    Signals: at most one compaction; the error of the hook, with a note that names it; `HookError` for other answers.
    Cancels: the work of the hook.
    """

    def ask() -> Flow[object]:
        answer: object = copy_context().run(hook.compact, request)
        if isinstance(answer, abc.ObservableBase):
            return flow(cast("Observable[object]", answer))
        if isawaitable(answer):
            return from_awaitable(cast("Awaitable[object]", answer))
        return just(answer)

    def only(found: list[object]) -> Flow[Compaction]:
        given = [each for each in found if each is not None]
        if not given:
            return empty()
        if len(given) > 1 or not isinstance(given[0], Compaction):
            what = "several values" if len(given) > 1 else f"{given[0]!r:.60}"
            raise _problem(hook, f"returned {what}, not one Compaction, or None for nothing to do")
        return just(given[0])

    answered = defer(ask).pipe(ops.take(2), ops.to_list(), concat_map(only))
    return answered.pipe(catch(lambda error: throw(add_note(error, hook, "compact", request.source.agent))))


def changes_of(hook: Hook, compaction: Compaction, history: Iterable[Msg]) -> tuple[Msg, ...]:
    """The messages that the compaction changes; `HookError` for one that it must not change in this way."""
    new_of: dict[str, Msg] = {}
    for message in compaction.replaced:
        if not isinstance(message, Msg):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _problem(hook, f"gave {message!r:.60} as a replaced message, not a Msg")
        new_of[message.id] = message
    changed: dict[str, Msg] = {}
    missing = set(new_of)
    for old in history:
        new = new_of.get(old.id)
        if new is None:
            continue
        missing.discard(old.id)
        if new.replace(metadata=old.metadata) != old:
            raise _problem(
                hook,
                f"changed more than the metadata of message {old.id}. The original must stay in memory: mark the "
                "message, or give it a short form (memory.short_forms.shortened)",
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


def _problem(hook: Hook, text: str) -> HookError:
    return HookError(text, hook=hook.name, event="compact")
