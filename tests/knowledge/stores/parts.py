"""Shared by the tests of `SqliteChunkStore`: documents with these vectors, stores, rows of a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agentscope_rx.knowledge import (
    Chunk,
    Document,
    EmbeddedChunk,
    IndexInfo,
    InMemoryChunkStore,
    SqliteChunkStore,
)
from agentscope_rx.reactive import from_iterable

INFO = IndexInfo(embedding="test", dimensions=4)


def chunks_of(document: Document, vectors: Sequence[Sequence[float]], word: str = "alpha") -> list[EmbeddedChunk]:
    return [
        EmbeddedChunk(Chunk(document=document, number=n, text=f"{word} part{n}", start=n, end=n + 1), tuple(each))
        for n, each in enumerate(vectors)
    ]


def put(store: SqliteChunkStore | InMemoryChunkStore, id: str, vectors: Sequence[Sequence[float]], **more: object):
    document = Document(id=id, **more)  # type: ignore[arg-type]
    return store.put(document, from_iterable([chunks_of(document, vectors)])).run()


def opened(path: Path, **options: float) -> SqliteChunkStore:
    store = SqliteChunkStore(path, **options)
    store.open(INFO).run()
    return store


def rows(path: Path, query: str) -> list[object]:
    with closing(sqlite3.connect(path)) as file:
        return [row[0] for row in file.execute(query)]
