"""`LongTermMemory`: the port to what outlasts a conversation. Every method is a cold Flow: subscribe or await it.

    await memory.record([Msg.user("I moved to Berlin.")], scope=MemoryScope(user="ann"))
    notes = await memory.retrieve("Where do I live?", 5, scope=MemoryScope(user="ann"))

An implementation decides what it keeps of the messages (their texts, or facts that a model makes of them) and how it
finds them. `testing.check_long_term_memory` checks the laws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource
from agentscope_rx.messages import Msg
from agentscope_rx.messages.queries import Query
from agentscope_rx.reactive import Flow

LIMIT = 5
"""The number of notes that are asked for by default."""


class LongTermMemory(ABC):
    """Remembers across conversations: `record` keeps the content of messages, `retrieve` finds it again.

        await memory.record([Msg.user("I moved to Berlin.")], scope=MemoryScope(user="ann"))
        notes = await memory.retrieve("Where do I live?", 5, scope=MemoryScope(user="ann"))

    Each method is a cold Flow, and may be called from several threads and loops. An implementation keeps texts, or
    facts that a model makes of them. `testing.check_long_term_memory` checks the laws.
    """

    @abstractmethod
    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        """Keep the content of the messages, for this scope. Messages without text have no effect.

        Signals: one None when it is stored, so that `retrieve` may find it (a service may take longer); a
        `LongTermMemoryError`, or the error of a model that the memory uses.
        Cancels: the record; notes stored by then stay.
        """

    @abstractmethod
    def retrieve(self, query: Query, limit: int = LIMIT, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        """At most `limit` notes of this scope that fit the query, best first. A query without text finds none.

        Signals: one tuple of notes; `InvalidInputError`; a `LongTermMemoryError`, or the error of a model that the
        memory uses.
        Cancels: the search.
        """


def check_limit(limit: int) -> None:
    """`InvalidInputError` unless it is a number of notes."""
    if type(limit) is not int or limit < 1:
        raise InvalidInputError(f"limit must be a whole number of notes, at least 1, not {limit!r:.60}.")


def check_messages(messages: Sequence[Msg]) -> tuple[Msg, ...]:
    """The messages; `InvalidInputError` for anything else."""
    given = cast("object", messages)
    items = cast("Sequence[object]", messages)
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(isinstance(m, Msg) for m in items):
        raise InvalidInputError(f"record takes a list of Msg, not {given!r:.60}. Did you mean [Msg.user(...)]?")
    return tuple(messages)
