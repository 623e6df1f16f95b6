"""`python -m tests.knowledge.indexing.kills`: kills processes that index a folder, at random moments, by SIGKILL.

Each process is a fork of this one, which has no loop and no thread of its own. After each kill another process looks at
the store: every document that is visible is whole, and of one version. At times a few documents are changed. A last run
ends the work, and finds what a store finds that was filled in one go.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory

from agentscope_rx.knowledge import Document, SqliteChunkStore
from tests.knowledge.indexing.parts import indexer, vector_of

DOCUMENTS = 12
LINES = 40
LIMIT = 60
"""The seconds after which a process ends itself, which is a failure."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.knowledge.indexing.kills")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    print(f"seed {given.seed}:", dict(kill_indexing(given.kills, given.seed)), flush=True)  # noqa: T201


def kill_indexing(kills: int, seed: int) -> Counter[str]:
    """Do it so often; how the processes ended."""
    chance = random.Random(seed)
    ended: Counter[str] = Counter()
    with TemporaryDirectory() as name:
        folder, whole = Path(name, "docs"), Path(name, "whole.db")
        store = Path(name, "killed.db")
        folder.mkdir()
        for number in range(DOCUMENTS):
            change(folder, number, 1)
        begun = time.monotonic()
        assert forked(lambda: index(folder, whole)) == "ended"
        # (a run that has nothing to do is over sooner)
        took = time.monotonic() - begun
        version = 1
        for _ in range(kills):
            ended[forked(lambda: index(folder, store), kill_after=chance.uniform(0, took))] += 1
            assert forked(lambda: check(store)) == "ended"
            if chance.random() < 0.5:
                version += 1
                for number in chance.sample(range(DOCUMENTS), 4):
                    change(folder, number, version)
        for path in (store, whole):
            assert forked(lambda path=path: index(folder, path)) == "ended"
        assert forked(lambda: compare(store, whole)) == "ended"
    return ended


def change(folder: Path, number: int, version: int) -> None:
    """Write a version of a document."""
    lines = [
        f"document {number} version {version} line {line} of {'xyz'[number % 3] * line}\n" for line in range(LINES)
    ]
    (folder / f"d{number:02}.txt").write_text("".join(lines))


async def index(folder: Path, path: Path) -> None:
    """The work of a process."""
    store = SqliteChunkStore(path)
    report = await indexer(store, batch_size=7, max_concurrency=3).folder(folder)
    assert report.done + report.unchanged == DOCUMENTS, report
    await store.close()


async def check(path: Path) -> None:
    """Every visible document is whole, and of one version."""
    # (a file that is not there is made by its first use, and is empty)
    store = SqliteChunkStore(path)
    async for indexed in store.documents():
        chunks = await store.between(indexed.document.id, 0, 10_000)
        versions = {each.text.split(" line ")[0] for each in chunks}
        assert len(chunks) == indexed.chunks == LINES and len(versions) == 1, (indexed, len(chunks), versions)
    await store.close()


async def compare(one: Path, other: Path) -> None:
    """Both stores find the same."""
    found: list[list[object]] = []
    for path in (one, other):
        store = SqliteChunkStore(path)
        documents: list[Document] = [each.document async for each in store.documents()]
        passages: list[object] = [documents]
        for number in range(DOCUMENTS):
            question = f"document {number} line 5 of yyyyy"
            nearest = await store.nearest(vector_of(question), 20)
            matching = await store.matching(question, 20)
            passages.append([(each.chunk.document.id, each.chunk.number) for each in (*nearest, *matching)])
        found.append(passages)
        await store.close()
    assert found[0] == found[1] and len(found[0]) == DOCUMENTS + 1


def forked(work: Callable[[], Coroutine[object, object, None]], kill_after: float | None = None) -> str:
    """Do this in a process: "killed" or "ended"."""
    pid = os.fork()
    if not pid:
        signal.alarm(LIMIT)
        code = 1
        try:
            asyncio.run(work())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a process has ended by signal {os.WTERMSIG(status)}"
        return "killed"
    assert os.WEXITSTATUS(status) == 0, "a process has failed: see above"
    return "ended"


if __name__ == "__main__":
    main()
