"""What the rules of `check_chunk_store` are made of: stores that are closed, documents, chunks with vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from zlib import crc32

from agentscope_rx.knowledge import Chunk, ChunkStore, Document, EmbeddedChunk, Indexed, IndexInfo
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.reactive import Flow, from_iterable
from agentscope_rx.testing.kits.rules import SkippedRule, equal

INFO = IndexInfo(embedding="kit:test", dimensions=4)


class Stores:
    """Makes the stores of a rule, and closes them after it."""

    def __init__(self, make: Callable[[], ChunkStore], again: Callable[[ChunkStore], ChunkStore] | None) -> None:
        self.again = again
        self.make = make
        self._made: list[ChunkStore] = []

    def new(self) -> ChunkStore:
        """A new and empty store."""
        self._made.append(self.make())
        return self._made[-1]

    async def opened(self) -> ChunkStore:
        """A new and empty store for vectors of four dimensions."""
        store = self.new()
        await store.open(INFO)
        return store

    def another(self, store: ChunkStore) -> ChunkStore:
        """Another store on the same place."""
        if self.again is None:
            raise SkippedRule("no `again` was given, which makes another store on the same place")
        self._made.append(self.again(store))
        return self._made[-1]

    async def close(self) -> None:
        """Close what was made. (One rule of publishers goes on with the last one in the next rule.)"""
        made, self._made = self._made, self._made[-1:]
        for each in made:
            await each.close()


def document(
    id: str,
    *,
    title: str = "",
    digest: str = "",
    media_type: str = "",
    size: int = 0,
    metadata: Mapping[str, str | int | float | bool] = EMPTY,  # pyright: ignore[reportArgumentType]
) -> Document:
    """A document."""
    return Document(id=id, title=title, digest=digest, media_type=media_type, size=size, metadata=metadata)


def chunks_of(one: Document, texts: Iterable[str]) -> list[Chunk]:
    """A chunk for each text."""
    chunks: list[Chunk] = []
    start = 0
    for number, text in enumerate(texts):
        chunks.append(Chunk(document=one, number=number, text=text, start=start, end=start + len(text)))
        start += len(text)
    return chunks


def vector_of(text: str) -> tuple[float, ...]:
    """A vector that belongs to the text: four numbers from 1 to 256."""
    return tuple(float(each + 1) for each in crc32(text.encode(errors="replace")).to_bytes(4, "big"))


def embedded(one: Document, texts: Iterable[str]) -> list[EmbeddedChunk]:
    """A chunk for each text, with its vector."""
    return [EmbeddedChunk(chunk, vector_of(chunk.text)) for chunk in chunks_of(one, texts)]


def batches(one: Document, texts: Iterable[str], size: int = 1) -> Flow[Sequence[EmbeddedChunk]]:
    """The chunks of these texts, in batches."""
    chunks = embedded(one, texts)
    return from_iterable([chunks[start : start + size] for start in range(0, len(chunks), size)])


async def put(store: ChunkStore, one: Document, texts: Iterable[str]) -> Indexed:
    """Put a document with these texts."""
    return await store.put(one, batches(one, texts, 2))


async def has(store: ChunkStore, id: str) -> list[str]:
    """The texts of a document."""
    return [each.text for each in await store.between(id, 0, 10_000)]


async def whole(store: ChunkStore, id: str, texts: Sequence[str]) -> None:
    """Fail the rule unless exactly these texts of the document are found in every way."""
    expected = list(texts)
    equal(await has(store, id), expected, f"the chunks of {id!r:.40}")
    where = {"document_id": id}
    found = await store.nearest([1, 1, 1, 1], max(1, len(expected) + 5), where)
    equal(sorted(each.chunk.text for each in found), sorted(expected), f"the chunks of {id!r:.40} that nearest finds")
    for text in expected:
        words = await store.matching(text, len(expected) + 5, where)
        seen = [each.chunk.text for each in words]
        equal(text in seen, True, f"that {text!r:.60} of {id!r:.40} is found by its words")
        equal(set(seen) <= set(expected), True, f"that only chunks of {id!r:.40} are found by words")
    listed = [each.chunks async for each in store.documents(id) if each.document.id == id]
    equal(sum(listed), len(expected), f"the number of chunks of {id!r:.40} in the list of documents")
