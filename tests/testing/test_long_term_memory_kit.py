"""`check_long_term_memory`: the shipped memory keeps the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import Msg
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.long_term_memory import LongTermMemory, MemoryScope, Note, NoteSource, SqliteLongTermMemory
from agentscope_rx.models.embedding import EmbeddingModel, Embeddings
from agentscope_rx.reactive import Flow, concat, defer, from_callable, just
from agentscope_rx.testing import check_long_term_memory
from tests.testing.faults import broken


class Letters(EmbeddingModel):
    """Counts letters."""

    def __init__(self) -> None:
        super().__init__("letters")

    def do_embed(self, batch: Sequence[Any]) -> Flow[Embeddings]:
        texts = [str(each).lower() for each in batch]
        return defer(
            lambda: just(Embeddings(tuple(tuple(float(t.count(chr(97 + i))) for i in range(26)) for t in texts)))
        )


@pytest.mark.parametrize("embedding", [None, Letters()], ids=["words", "vectors"])
def test_the_sqlite_memory_keeps_the_laws(tmp_path: Path, embedding: EmbeddingModel | None):
    numbers = count()

    def new() -> SqliteLongTermMemory:
        # a similarity that no pair of texts has: the rules search for words
        return SqliteLongTermMemory(tmp_path / f"{next(numbers)}.db", embedding_model=embedding, min_similarity=1)

    report = check_long_term_memory(new)
    assert {"found", "users", "narrow", "hostile", "disposal", "retrieve 1.08", "record loops, second"} <= set(
        report.checked
    )


class InProcess(LongTermMemory):
    """A plain memory that keeps the laws: each word of the query counts."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, MemoryScope]] = []

    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        def record() -> Flow[None]:
            if isinstance(messages, str) or not isinstance(messages, Sequence):
                raise InvalidInputError("no messages")
            if not all(isinstance(each, Msg) for each in messages):
                raise InvalidInputError("no messages")
            self.keep([each.text for each in messages if each.text.strip()], scope or MemoryScope())
            return just(None)

        return defer(record)

    def keep(self, texts: Sequence[str], scope: MemoryScope) -> None:
        self.kept += [(text, scope) for text in texts]

    def visible(self, scope: MemoryScope) -> list[tuple[int, str]]:
        return [(number, text) for number, (text, own) in enumerate(self.kept) if scope.sees(own)]

    def retrieve(self, query: Any, limit: int = 5, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        def retrieve() -> Flow[tuple[Note, ...]]:
            return just(self.found(self.words(query, limit), limit, scope or MemoryScope()))

        return defer(retrieve)

    def words(self, query: Any, limit: int) -> list[str]:
        if type(limit) is not int or limit < 1:
            raise InvalidInputError("limit")
        messages = [query] if isinstance(query, (str, Msg)) else query
        if messages is None or isinstance(messages, int) or not all(isinstance(m, Msg) for m in messages if m != query):
            raise InvalidInputError("query")
        return [w.strip("?. ").lower() for m in messages for w in (m if isinstance(m, str) else m.text).split()]

    def found(self, words: list[str], limit: int, scope: MemoryScope) -> tuple[Note, ...]:
        hits = [
            Note(text=text, id=str(number), score=float(score))
            for number, text in self.visible(scope)
            if (score := sum(word in text.lower() for word in words))
        ]
        return tuple(sorted(hits, key=lambda note: -note.score)[:limit])


def test_a_plain_memory_keeps_the_laws():
    assert check_long_term_memory(InProcess).subject == "InProcess"


class Deaf(InProcess):
    def words(self, query: Any, limit: int) -> list[str]:
        found = super().words(query, limit)
        return found if isinstance(query, str) else []


class FindsAll(InProcess):
    def found(self, words: list[str], limit: int, scope: MemoryScope) -> tuple[Note, ...]:
        return super().found(words or [""], limit, scope)


class SignalsTwice(InProcess):
    def record(self, messages: Sequence[Msg], **options: Any) -> Flow[None]:
        return concat(super().record(messages, **options), just(None))


class Hot(InProcess):
    def retrieve(self, query: Any, limit: int = 5, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        try:
            found = self.found(self.words(query, limit), limit, scope or MemoryScope())
        except InvalidInputError:
            return super().retrieve(query, limit, scope=scope)
        return just(found)


class WorstFirst(InProcess):
    def found(self, words: list[str], limit: int, scope: MemoryScope) -> tuple[Note, ...]:
        notes = super().found(words, limit, scope)
        return tuple(Note(text=note.text, id=note.id, score=float(place)) for place, note in enumerate(notes))


class NoLimit(InProcess):
    def found(self, words: list[str], limit: int, scope: MemoryScope) -> tuple[Note, ...]:
        return super().found(words, 1000, scope)


class TakesAnything(InProcess):
    def words(self, query: Any, limit: int) -> list[str]:
        return super().words(query, limit if limit else 1)


class OneUser(InProcess):
    def visible(self, scope: MemoryScope) -> list[tuple[int, str]]:
        return [(number, text) for number, (text, _) in enumerate(self.kept)]


class UserOnly(InProcess):
    def visible(self, scope: MemoryScope) -> list[tuple[int, str]]:
        return [(number, text) for number, (text, own) in enumerate(self.kept) if own.user == scope.user]


class Touchy(InProcess):
    def words(self, query: Any, limit: int) -> list[str]:
        if '"' in str(query):
            raise RuntimeError("unterminated string")
        return super().words(query, limit)


class LosesSome(InProcess):
    def record(self, messages: Sequence[Msg], **options: Any) -> Flow[None]:
        async def record() -> None:
            own = InProcess()
            await own.record(messages, **options)
            before = list(self.kept)
            await asyncio.sleep(0)
            self.kept = [*before, *own.kept]

        return from_callable(record)


class OneThread(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()

    def keep(self, texts: Sequence[str], scope: MemoryScope) -> None:
        if threading.get_ident() != self.thread:
            raise RuntimeError("used on another thread than that it was made on")
        super().keep(texts, scope)


class StaysLocked(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self.locked = False

    def record(self, messages: Sequence[Msg], **options: Any) -> Flow[None]:
        async def record() -> None:
            own = InProcess()
            await own.record(messages, **options)
            while self.locked:  # noqa: ASYNC110 (its fault)
                await asyncio.sleep(0.01)
            self.locked = True
            await asyncio.sleep(0)
            self.kept += own.kept
            self.locked = False

        return from_callable(record)


FAULTS: list[tuple[Callable[[], LongTermMemory], str]] = [
    (Deaf, "found"),
    (FindsAll, "nothing"),
    (SignalsTwice, "one signal"),
    (Hot, "cold"),
    (WorstFirst, "notes"),
    (NoLimit, "limit"),
    (TakesAnything, "invalid"),
    (OneUser, "users"),
    (UserOnly, "narrow"),
    (Touchy, "hostile"),
    (LosesSome, "concurrent"),
    (OneThread, "threads"),
    (StaysLocked, "disposal"),
]


@pytest.mark.parametrize(("make", "rule"), FAULTS, ids=lambda each: getattr(each, "__name__", each))
def test_a_fault_of_a_long_term_memory_is_found(make: Callable[[], LongTermMemory], rule: str):
    broken(lambda: check_long_term_memory(make), rule)


def test_each_rule_has_a_fault():
    own = [rule for rule in check_long_term_memory(InProcess).checked if not rule.startswith(("retrieve ", "record "))]
    assert set(own) == {rule for _, rule in FAULTS}
