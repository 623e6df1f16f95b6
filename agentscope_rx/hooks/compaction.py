"""`CompactionRequest` and `Compaction`: what a hook that keeps the context small gets, and gives (see `Hook.compact`).

round       before each model request
overflow    the provider has refused the request as too long; it is made once more with what the hooks have left
manual      `agent.compact()`
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from agentscope_rx.errors import ModelError
from agentscope_rx.events import ContextEvent
from agentscope_rx.events.base import EventSource
from agentscope_rx.messages import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema

CompactionWhy = Literal["round", "overflow", "manual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest:
    """A model request that is about to be made. Everything is read-only.

    `history` is the whole memory, and `messages` the part of it that is sent, in the form in which it is sent (see
    `memory.short_forms`). `question` are the ids of the messages that this run has got as its input; `pending` those
    of calls without a result. `system_message`, `tools` and `options` are the rest of the request. `last` is the number
    of messages of the latest request of this run that its provider has counted, and their tokens.
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

    They replace those of the same ids, all or none. No message is added or removed, and no content changed: the
    originals stay in memory, behind their marks and short forms. `events` are the steps, in order.
    """

    replaced: Sequence[Msg] = ()
    events: Sequence[ContextEvent] = ()
