"""What a search of `SqliteChunkStore` costs beside NumPy's product of the same matrix and vector.

    python -m benchmarks.knowledge.search                  10,000 and 100,000 chunks of 256 dimensions
    python -m benchmarks.knowledge.search 20000            another number

Product and search take turns in one process, and the ratio is that of their medians: the machine may be busy with other
things. A search is `await store.nearest(...)`: a worker thread and back, the product, the choice of the best, their
texts from the file. Vectors and words are random; words have the frequencies of a language (Zipf).

| column   | is                                                                                               |
|----------|--------------------------------------------------------------------------------------------------|
| put/s    | chunks stored a second, in documents of 20                                                       |
| cold     | the first search, which loads the vectors                                                        |
| numpy    | `matrix @ vector`                                                                                |
| nearest  | the five nearest chunks                                                                          |
| where    | those of a tenth of the documents, by their metadata                                             |
| after    | a search after one document was put by another store: it loads 20 vectors                        |
| words    | the five most relevant chunks for words of middle frequency                                      |
| common   | the same for the six most frequent words                                                         |
| MB       | the file, and what the vectors take in memory                                                    |
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from agentscope_rx.knowledge import Chunk, Document, EmbeddedChunk, IndexInfo, SqliteChunkStore
from agentscope_rx.reactive import from_iterable

SIZES = (10_000, 100_000)
DIMENSIONS = 256
A_DOCUMENT = 20
WORDS = 80
ROUNDS = 60
LIMIT = 5


def documents(count: int) -> Iterator[tuple[Document, list[EmbeddedChunk]]]:
    """Documents of 20 chunks, with random vectors and words."""
    random = np.random.default_rng(1)
    text = [f"word{number}" for number in random.zipf(1.3, 300_000) % 30_000]
    for number in range(count // A_DOCUMENT):
        metadata = {"language": "en" if number % 10 else "zh"}
        document = Document(id=f"docs/{number:06}.md", title=f"Document {number}", metadata=metadata)
        vectors = random.standard_normal((A_DOCUMENT, DIMENSIONS)).tolist()
        starts = random.integers(0, len(text) - WORDS, A_DOCUMENT).tolist()
        yield (
            document,
            [
                EmbeddedChunk(
                    Chunk(document=document, number=n, text=" ".join(text[at : at + WORDS]), start=n, end=n + 1),
                    tuple(vector),
                )
                for n, (at, vector) in enumerate(zip(starts, vectors, strict=True))
            ],
        )


async def milliseconds(work: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """The median time of a search."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return median(times) * 1000


async def fill(store: SqliteChunkStore, count: int) -> float:
    """Put that many chunks; returns how many a second."""
    await store.open(IndexInfo(embedding="random", dimensions=DIMENSIONS))
    taken = 0.0
    for document, chunks in documents(count):
        began = time.perf_counter()
        await store.put(document, from_iterable([chunks]))
        taken += time.perf_counter() - began
    return count / taken


async def beside_numpy(store: SqliteChunkStore) -> tuple[float, float]:
    """The medians of the product and of the search, turn about, in milliseconds."""
    # the very matrix that the store searches: another copy of it would compete for the caches
    matrix = store._matrix._view.vectors
    random = np.random.default_rng(2)
    products: list[float] = []
    searches: list[float] = []
    for _ in range(ROUNDS):
        vector = random.standard_normal(DIMENSIONS).astype(np.float32)
        asked = vector.tolist()
        began = time.perf_counter()
        matrix @ vector
        between = time.perf_counter()
        await store.nearest(asked, LIMIT)
        products.append(between - began)
        searches.append(time.perf_counter() - between)
    return median(products) * 1000, median(searches) * 1000


async def measure(count: int, folder: Path) -> None:
    """Print a row."""
    path = folder / f"{count}.db"
    writer, store = SqliteChunkStore(path), SqliteChunkStore(path)
    rate = await fill(writer, count)
    asked = [1.0] * DIMENSIONS
    began = time.perf_counter()
    await store.nearest(asked, LIMIT)
    cold = (time.perf_counter() - began) * 1000
    product, search = await beside_numpy(store)
    filtered = await milliseconds(lambda: store.nearest(asked, LIMIT, {"language": "zh"}))
    words = await milliseconds(lambda: store.matching("word300 word77 word512 why", LIMIT), 20)
    common = await milliseconds(lambda: store.matching(" ".join(f"word{n}" for n in range(1, 7)), LIMIT), 5)
    changed: list[float] = []
    for document, chunks in documents(10 * A_DOCUMENT):
        await writer.put(document, from_iterable([chunks]))
        changed.append(await milliseconds(lambda: store.nearest(asked, LIMIT), 1))
    memory = store._matrix._vectors.nbytes / 1e6
    await writer.close()
    await store.close()
    print(
        f"{count:>8,}{rate:8.0f}{cold:8.0f}{product:9.2f}{search:9.2f}{search / product:7.2f}x{filtered:8.2f}"
        f"{median(changed):8.2f}{words:8.1f}{common:8.1f}{path.stat().st_size / 1e6:8.0f}{memory:6.0f}",
        flush=True,
    )


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print."""
    sizes = tuple(map(int, arguments)) or SIZES
    print(
        f"{'chunks':>8}{'put/s':>8}{'cold':>8}{'numpy':>9}{'nearest':>9}{'ratio':>8}{'where':>8}{'after':>8}"
        f"{'words':>8}{'common':>8}{'file MB':>8}{'MB':>6}   (times in ms)"
    )
    with tempfile.TemporaryDirectory() as folder:
        for count in sizes:
            asyncio.run(measure(count, Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
