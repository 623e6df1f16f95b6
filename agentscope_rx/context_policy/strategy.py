"""`Strategy`: one way to make a conversation smaller. `StrategyContext`: what it gets.

A strategy is a function of values: it gets messages, and gives the same messages with short forms, or with the mark
COMPRESSED and a summary. It changes no memory. The policy writes what it gives, all or none, and asks the next strategy
only if this one was not enough.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Protocol, runtime_checkable

from reactivex import Observable

from agentscope_rx.context_policy.rounds import Round
from agentscope_rx.events import EventSource
from agentscope_rx.events.kinds import CompactionCause
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.models.chat_model import ChatModel

Measure = Callable[[Msg], int]
"""The tokens of a message as a request sends it: of its short form, if it has one."""


Spend = Callable[[str, ChatUsage], None]
"""Adds a call of the model of this name, with its tokens, to the usage of the run."""


def _not_counted(model: str, usage: ChatUsage) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyContext:
    """A conversation that is too long. Everything is read-only.

    `history` is the memory as the strategies before have left it, without messages that no request sends any more, and
    `rounds` the part of it that a request sends. `tokens` and `messages` are the size of that part, `target` and
    `target_messages` the sizes at which the compaction ends, and `limit` the tokens beyond which the request may be
    refused. `protected` are the ids of messages that no strategy may change. `summary` is the text that stands for the
    rounds that are compressed already.
    """

    history: Sequence[Msg]
    rounds: Sequence[Round]
    protected: Collection[str]
    measure: Measure
    tokens: int
    target: int
    model: ChatModel
    limit: int = sys.maxsize
    messages: int = 0
    target_messages: int | None = None
    summary: str = ""
    cause: CompactionCause = "tokens"
    source: EventSource = field(default_factory=EventSource)
    spend: Spend = _not_counted

    @property
    def enough(self) -> bool:
        """True if there is nothing to do for a strategy."""
        fits = self.target_messages is None or self.messages <= self.target_messages
        return fits and self.tokens <= self.target

    def free(self) -> list[Round]:
        """The rounds that may be changed, oldest first: those without a protected message."""
        return [each for each in self.rounds if not any(message.id in self.protected for message in each.messages)]


@runtime_checkable
class Strategy(Protocol):
    """One way to make a conversation smaller. `name` is the `step` of its events.

    A strategy changes no memory: it gives the same messages with short forms (`agentscope_rx.memory.shortened`), or
    with the mark `COMPRESSED` and a summary. The policy checks them and writes all or none. It asks the next strategy
    only if this one was not enough. `oldest_first` goes through the rounds that may be changed.
    """

    @property
    def name(self) -> str: ...

    def apply(self, context: StrategyContext) -> Observable[Sequence[Msg]] | Sequence[Msg]:
        """The messages that change, under their ids; an empty sequence if there is nothing to do.

        A `CompactionError` says that the strategy has failed: nothing is changed, its event has the error, and the next
        strategy is asked. Any other error fails the run.

        Signals: at most one sequence of messages, or an error.
        Cancels: the work on it.
        """
        ...


def oldest_first(context: StrategyContext, change: Callable[[Msg], Msg | None]) -> list[Msg]:
    """The messages that `change` makes smaller, from the oldest round that may be changed on, until it is enough.

    `change` gives the smaller message, or None for one that stays. A message that does not get smaller stays.
    """
    tokens = context.tokens
    changed: list[Msg] = []
    for each in context.free():
        if tokens <= context.target:
            break
        for message in each.messages:
            new = change(message)
            if new is None or new is message:
                continue
            saved = context.measure(message) - context.measure(new)
            if saved > 0:
                tokens -= saved
                changed.append(new)
    return changed
