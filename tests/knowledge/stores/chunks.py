"""Chunks for tests of stores; and a program of its own that puts one document again and again, until it is killed.

`python -m tests.knowledge.stores.chunks KIND PLACE` puts the document "a.md" in versions of `LENGTH` chunks each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentscope_rx.knowledge import Chunk, ChunkStore, Document, EmbeddedChunk, Found, Indexed, IndexInfo
from agentscope_rx.knowledge.document import Scalar
from agentscope_rx.reactive import Flow, from_iterable

INFO = IndexInfo(embedding="test", dimensions=3)
LENGTH = 12
ROOT = Path(__file__).parents[3]


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder, in memory if there is one there: a disk takes its time for each commit."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.path.isdir(memory) else None) as name:
        yield Path(name)


def qdrant(place: str) -> ChunkStore:
    from agentscope_rx.knowledge import QdrantChunkStore

    return QdrantChunkStore(place)


def pgvector(place: str) -> ChunkStore:
    from agentscope_rx.knowledge import PgVectorChunkStore

    url, _, collection = place.rpartition(" ")
    return PgVectorChunkStore(url, collection=collection)


def sqlite_vec(place: str) -> ChunkStore:
    from agentscope_rx.knowledge import SqliteVecChunkStore

    return SqliteVecChunkStore(place)


MAKERS: dict[str, Callable[[str], ChunkStore]] = {"qdrant": qdrant, "pgvector": pgvector, "sqlite_vec": sqlite_vec}


def putting(
    store: ChunkStore,
    id: str,
    texts: Sequence[str],
    vectors: Sequence[Sequence[float]] | None = None,
    metadata: Mapping[str, Scalar] | None = None,
    pages: Sequence[int | None] | None = None,
) -> Flow[Indexed]:
    """Puts a document with these texts, in batches of 4; by default all vectors are the same."""
    document = Document(id=id, metadata=metadata or {})
    chunks = [
        EmbeddedChunk(
            Chunk(document=document, number=n, text=text, start=0, end=len(text), page=pages[n] if pages else None),
            tuple(vectors[n]) if vectors else (1.0, 0.0, 0.0),
        )
        for n, text in enumerate(texts)
    ]
    return store.put(document, from_iterable([chunks[n : n + 4] for n in range(0, len(chunks), 4)]))


def put(store: ChunkStore, id: str, texts: Sequence[str], *args: Any) -> Indexed:
    """Put a document with these texts."""
    return putting(store, id, texts, *args).run()


def places(found: Sequence[Found]) -> list[tuple[str, int]]:
    """The ids and numbers of the chunks."""
    return [(each.chunk.document.id, each.chunk.number) for each in found]


def check_whole(store: ChunkStore) -> str:
    """The version of the document "a.md", all of which is there, and nothing else."""
    texts = {each.text for each in store.between("a.md", 0, 1000).run()}
    assert len(texts) == 1, texts
    for found in (store.nearest([1, 0, 0], 1000).run(), store.matching("version", 1000).run()):
        assert [each.chunk.text for each in found] == [*texts] * LENGTH
    return texts.pop()


def check_killed(kind: str, place: str, seconds: float) -> None:
    """Kill a process that puts documents, and see what it has left."""
    command = [sys.executable, "-m", "tests.knowledge.stores.chunks", kind, place]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == "begun\n"
            time.sleep(seconds)
        finally:
            program.kill()
    store = MAKERS[kind](place)
    try:
        store.open(INFO).run()
        check_whole(store)
        put(store, "a.md", ["version after"] * LENGTH)
        assert check_whole(store) == "version after"
    finally:
        store.close().run()


def main(kind: str, place: str) -> None:
    store = MAKERS[kind](place)
    store.open(INFO).run()
    for number in range(100_000):
        put(store, "a.md", [f"version {number}"] * LENGTH)
        if number == 1:
            sys.stdout.write("begun\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
