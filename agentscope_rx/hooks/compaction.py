"""`CompactionRequest` and `Compaction`: what a hook that keeps the context small gets, and gives (see `Hook.compact`).

round       before each model request: of a round, and of the summary at the end
overflow    the provider has refused the request as too long; it is made once more with what the hooks have left
manual      `agent.compact()`, between runs

A compaction changes the memory, so it is there for all later requests. A `memory_window` and a `TruncatingModel` change
one request: they get what the compaction has left, and leave out what is still too much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from reactivex import Observable

from agentscope_rx.errors import ModelError
from agentscope_rx.events import ContextEvent
from agentscope_rx.events.base import EventSource
from agentscope_rx.messages import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema

CompactionWhy = Literal["round", "overflow", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A model request that is about to be made, or that was refused. Everything is read-only.

    `history` is what the memory gives (`memory.get()`), and `messages` the part of it that is sent, in the form in
    which it is sent (see `memory.views`), before a `memory_window` leaves any out. `question` are the ids of the
    messages that this run has got as its input, enqueued input included; it is empty for `agent.compact()`. `pending`
    are the ids of calls without a result, and `held` those of messages that other hooks want to stay as they are for
    now (see `Hook.held`): a compaction must touch neither. `system_message`, `tools` and `options` are the rest of the
    request. The hooks on PreReasoningEvent run afterwards, and see the smaller conversation. What they have added to
    the latest request of this run, such as hints, notes and a state, is in `added`, and `system_message` is as they
    have left it.

    `last` is a pair: the number of messages, from the first of `messages` on, that were in the latest request of this
    run, and the tokens which its provider has counted for that whole request: system message, tools and `added`
    included. It is None before the first answer, if the provider has counted none, if a hook has taken messages away,
    and after the messages were compacted.
    """

    why: CompactionWhy
    source: EventSource
    model: ChatModel
    history: Sequence[Msg]
    messages: Sequence[Msg]
    iteration: int = 0
    question: Collection[str] = ()
    pending: Collection[str] = ()
    held: Collection[str] = ()
    system_message: Msg | None = None
    tools: Sequence[ToolSchema] = ()
    options: GenerateOptions | None = None
    added: Sequence[Msg] = ()
    last: tuple[int, int] | None = None
    error: ModelError | None = None
    """The refusal of the provider, if `why` is "overflow"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The changes of a compaction. `replaced` are messages of `history` with other marks, short forms or a summary.

    They replace those of the same ids, all or none. No message is added or removed, and nothing but metadata changes:
    the originals stay in memory, behind their marks and short forms. So a message that memory does not have, one with
    another content, and one that becomes transient are a `HookError`. `events` are the steps, in order, those that
    have failed included; the agent sets their `source`.
    """

    replaced: Sequence[Msg] = ()
    events: Sequence[ContextEvent] = ()


CompactionAnswer = Observable[Compaction] | Awaitable[Compaction | None] | Compaction | None
"""What `Hook.compact` may return."""
