"""`CompactionRequest` and `Compaction`: what a hook that keeps the context small gets, and gives (see `Hook.compact`).

round       before each model request: of a round, and of the summary at the end
overflow    the provider has refused the request as too long; it is made once more with what the hooks have left
manual      `agent.compact()`, between runs

A compaction changes the memory, so it is there for all later requests. A `memory_window` and a `TruncatingModel` change
one request: they get what the compaction has left, and leave out what is still too much.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Sequence
from typing import Literal

from reactivex import Observable

from agentscope_rx.errors import ModelError
from agentscope_rx.events import ContextEvent
from agentscope_rx.events.base import EventSource
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema

CompactionWhy = Literal["round", "overflow", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A model request that is about to be made, or was refused. Everything is read-only.

    - `why`: "round" before a request, "overflow" after the provider refused it as too long, "manual" for
      `agent.compact()`.
    - `history`: the messages of the memory (`memory.get()`). `messages`: the part of it that is sent, as it is sent,
      before a `memory_window` shortens it.
    - `question`: ids of this run's input, enqueued input included; empty for `agent.compact()`.
    - `pending`: ids of calls without a result. `held`: ids of messages that other hooks hold (`Hook.held`). A
      compaction must touch neither.
    - `system_message`, `tools`, `options`: the rest of the request. `added`: what hooks added to the latest request of
      this run, such as hints.
    - `last`: how many of `messages` were in the latest request of this run, and the tokens that its provider counted
      for all of it. None before the first answer, without a count, and after a change of these messages.

    Hooks on PreReasoningEvent run afterwards, and see the smaller conversation. A compaction changes memory, for all
    later requests; a `memory_window` and a `TruncatingModel` then shorten one request.
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
    """The changes of a compaction: messages of `history` with other marks, short forms or a summary.

    `replaced` replace the messages of the same ids, all or none. No message comes or goes, and only metadata changes:
    the originals stay in memory, behind marks and short forms. A message that memory does not have, that has another
    content, or that becomes transient is a `HookError`. `events` are the steps in order, failed ones included; the
    agent sets their `source`.
    """

    replaced: Sequence[Msg] = ()
    events: Sequence[ContextEvent] = ()


CompactionAnswer = Observable[Compaction] | Awaitable[Compaction | None] | Compaction | None
"""What `Hook.compact` may return."""
