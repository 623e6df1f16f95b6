"""What is asked of a store and put into it may be of any size and form: it is an answer, or a typed error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.knowledge import Chunk, ChunkStore, Document, EmbeddedChunk, InMemoryChunkStore, SqliteChunkStore
from agentscope_rx.knowledge.store import IndexInfo
from agentscope_rx.knowledge.where import MOST_CONDITIONS
from agentscope_rx.reactive import from_iterable


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ChunkStore]:
    made = InMemoryChunkStore() if request.param == "memory" else SqliteChunkStore(tmp_path / "k.db")
    made.open(IndexInfo(embedding="m", dimensions=2)).run()
    put(made, (1.0, 0.0))
    yield made
    made.close().run()


def put(store: ChunkStore, *vectors: Any) -> None:
    """One document, whose chunks have these vectors, in batches of one."""
    document = Document(id="a")
    chunks = [Chunk(document=document, number=n, text="cat", start=0, end=3) for n in range(len(vectors))]
    batches = [[EmbeddedChunk(chunk, vector)] for chunk, vector in zip(chunks, vectors, strict=True)]
    store.put(document, from_iterable(batches)).run()


def test_conditions_of_one_search(store: ChunkStore):
    most: dict[str, Any] = {f"n{each}": 1 for each in range(MOST_CONDITIONS)}
    assert store.nearest((1.0, 0.0), 9, most).run() == store.matching("cat", 9, most).run() == ()
    with pytest.raises(InvalidInputError, match="at most 256 conditions, not 257"):
        store.nearest((1.0, 0.0), 9, {**most, "more": 1}).run()


@pytest.mark.parametrize("vector", [None, 5, "ab", ("a", "b"), (1e308, 10**400), (1.0, float("nan")), (1.0,)])
def test_a_vector_that_is_none_leaves_the_document_as_it_was(store: ChunkStore, vector: Any):
    with pytest.raises(InvalidInputError):
        put(store, (0.0, 1.0), (1.0, 1.0), vector)
    assert [each.chunks for each in store.documents().pipe(ops.to_list()).run()] == [1]
    with pytest.raises(InvalidInputError):
        store.nearest(vector, 1).run()
