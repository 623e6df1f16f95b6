"""`python -m tests.knowledge.stores.processes FILE`: several processes put documents into one file and search it."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import traceback
from collections import defaultdict

from agentscope_rx.knowledge import Chunk, Document, EmbeddedChunk, Found, IndexInfo, SqliteChunkStore
from agentscope_rx.reactive import from_iterable

INFO = IndexInfo(embedding="test", dimensions=8)
DOCUMENTS = 6
LIMIT = 60
"""The seconds after which a process is ended from outside, which is a failure."""


def check(found: tuple[Found, ...]) -> None:
    """Each document is there as one version, with all of its chunks."""
    documents: dict[str, list[str]] = defaultdict(list)
    for each in found:
        documents[each.chunk.document.id].append(each.chunk.text)
    for id, texts in documents.items():
        assert len(set(texts)) == 1, f"{id} is of several versions: {set(texts)}"
        assert len(texts) == int(texts[0].split()[-1]), f"{id} has {len(texts)} chunks: {texts[0]}"


async def write(path: str, number: int, count: int) -> None:
    """Put documents and look at all of them after each."""
    chance = random.Random(number)
    store = SqliteChunkStore(path)
    await store.open(INFO)
    for step in range(count):
        document = Document(id=f"{chance.randrange(DOCUMENTS)}")
        size = chance.randrange(1, 40)
        chunks = [
            EmbeddedChunk(
                Chunk(document=document, number=n, text=f"word of {number} {step}: {size}", start=n, end=n + 1),
                tuple(chance.gauss(0, 1) for _ in range(8)),
            )
            for n in range(size)
        ]
        await store.put(document, from_iterable([chunks[start : start + 10] for start in range(0, size, 10)]))
        check(await store.nearest([1.0] * 8, 1000))
        check(await store.matching("word", 1000, None, [1.0] * 8))
        if step % 5 == 4:
            await store.close()
    await store.close()


def run(path: str, number: int, count: int) -> int:
    """Fork a process; returns its id."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(LIMIT)
    code = 1
    try:
        asyncio.run(write(path, number, count))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.knowledge.stores.processes")
    parser.add_argument("path")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    given = parser.parse_args()
    children = [run(given.path, number, given.steps) for number in range(given.processes)]
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
