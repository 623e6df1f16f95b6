"""`python -m tests.knowledge.stores.kills FOLDER`: kills processes that write to a `SqliteChunkStore`, so many times.

Each process is a fork of this one, which has no loop and no thread of its own. It goes on with the file that the one
before has left: checks that it is whole, then puts and removes documents. It ends by SIGKILL: of its own before the
n-th statement, or of this process when it has read the n-th statement from a pipe and the other one has gone on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from agentscope_rx.knowledge import Chunk, Document, EmbeddedChunk, IndexInfo, SqliteChunkStore
from agentscope_rx.knowledge.stores.sqlite.database import Database
from agentscope_rx.knowledge.stores.sqlite.matrix import unit
from agentscope_rx.reactive import from_iterable

INFO = IndexInfo(embedding="letters", dimensions=8)
DOCUMENTS = 5
MOST_CHUNKS = 12
OPERATIONS = 40
LIMIT = 60
"""The seconds after which a process is ended from outside, which is a failure."""


def version_of(document: Document, version: int) -> list[EmbeddedChunk]:
    """The chunks of a version: each text says which one it is, and of how many."""
    chance = random.Random(f"{document.id} {version}")
    count = chance.randrange(MOST_CHUNKS)
    return [
        EmbeddedChunk(
            Chunk(document=document, number=n, text=f"version{version} part {n} of {count}", start=n, end=n + 1),
            tuple(chance.gauss(0, 1) for _ in range(8)),
        )
        for n in range(count)
    ]


def batches(chunks: list[EmbeddedChunk]) -> Iterator[list[EmbeddedChunk]]:
    for start in range(0, len(chunks), 3):
        yield chunks[start : start + 3]


async def write(store: SqliteChunkStore, folder: Path, chance: random.Random) -> None:
    """Put and remove documents; each operation is noted before it begins and when it is done."""
    log = (folder / "log").open("a")
    begun = (folder / "log").read_text().count("begun")

    def note(*words: object) -> None:
        log.write(" ".join(map(str, words)) + "\n")
        log.flush()

    for version in range(begun, begun + OPERATIONS):
        document = Document(id=f"{chance.randrange(DOCUMENTS)}.md", metadata={"version": version})
        removes = chance.random() < 0.2
        note("begun", document.id, -1 if removes else version)
        if removes:
            await store.remove([document.id])
        else:
            await store.put(document, from_iterable(list(batches(version_of(document, version)))))
        note("done", document.id, -1 if removes else version)
    log.close()


def allowed(folder: Path) -> dict[str, set[int]]:
    """The versions that each document may have: the last one that was done, and one that was begun after it."""
    found: dict[str, set[int]] = {f"{n}.md": {-1} for n in range(DOCUMENTS)}
    log = folder / "log"
    for line in log.read_text().splitlines() if log.exists() else []:
        what, id, version = line.split()
        found[id] = {int(version)} if what == "done" else found[id] | {int(version)}
    return found


async def check(store: SqliteChunkStore, folder: Path) -> None:
    """Every document is one whole version, in each way of finding it, and nothing else is in the file."""
    versions = allowed(folder)
    listed = {each.document.id: each async for each in store.documents()}
    for id, possible in versions.items():
        version = listed[id].document.metadata["version"] if id in listed else -1
        assert version in possible, f"{id} is at version {version}, and may be at {possible}"
        expected = version_of(Document(id=id), int(version)) if id in listed else []
        texts = [each.chunk.text for each in expected]
        assert [each.text for each in await store.between(id, 0, 99)] == texts
        found = await store.nearest([1.0] * 8, 50, {"document_id": id})
        assert sorted(each.chunk.text for each in found) == sorted(texts)
        cosines = {each.chunk.text: float(unit([each.vector], 8)[0].sum()) / 8**0.5 for each in expected}
        assert all(abs(cosines[each.chunk.text] - (each.similarity or 0)) < 1e-5 for each in found)
        matched = await store.matching(f"version{version}", 50, {"document_id": id})
        assert {each.chunk.text for each in matched} == set(texts)


def check_file(path: Path) -> None:
    """After a sweep the file has rows of visible documents only, and the database is sound."""
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        file.execute("INSERT INTO kb_words (kb_words) VALUES ('integrity-check')")
        assert file.execute("SELECT count(*) FROM kb_documents WHERE state <> 1").fetchone() == (0,)
        keys = file.execute("SELECT key FROM kb_chunks ORDER BY key").fetchall()
        for table, column in (("kb_texts", "key"), ("kb_words", "rowid")):
            assert file.execute(f"SELECT {column} FROM {table} ORDER BY {column}").fetchall() == keys  # noqa: S608
        live = "SELECT key FROM kb_documents"
        for table in ("kb_chunks", "kb_vectors", "kb_metadata"):
            assert file.execute(f"SELECT count(*) FROM {table} WHERE document NOT IN ({live})").fetchone() == (0,)  # noqa: S608
        rows = file.execute("SELECT sum(length(vectors) / 4 / 8) FROM kb_vectors").fetchone()
        assert (rows[0] or 0) == len(keys)


class Traced(Database):
    """Calls `moment` before each statement."""

    def __init__(self, path: str, moment: Callable[[], None]) -> None:
        super().__init__(path)
        self._moment = moment

    def _open(self, key: str | None, *, make: bool):
        opened = super()._open(key, make=make)
        if opened is not None:
            opened.db.set_trace_callback(lambda statement: self._moment())
        return opened


def play(folder: Path, seed: int, kill_at: int | None, tell: int | None) -> None:
    """The work of one process."""
    signal.alarm(LIMIT)
    path = folder / "knowledge.db"
    moments = 0

    def moment() -> None:
        nonlocal moments
        moments += 1
        if tell is not None:
            os.write(tell, b".")
        elif moments == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main() -> None:
        store = SqliteChunkStore(path)
        await store.open(INFO)
        await check(store, folder)
        await store.close()
        check_file(path)
        if kill_at is None:
            return
        store._database = Traced(store.path, moment)
        await write(store, folder, random.Random(seed))
        await store.close()

    asyncio.run(main())


def run_one(folder: Path, seed: int, kill_at: int | None, *, outside: bool = False) -> bool:
    """Fork a process; True if it was killed before its end."""
    reading, writing = os.pipe() if outside else (None, None)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            play(folder, seed, kill_at, writing)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if reading is not None and writing is not None:
        os.close(writing)
        seen = 0
        while kill_at is not None and seen < kill_at and (read := os.read(reading, 1)):
            seen += len(read)
        os.kill(pid, signal.SIGKILL)
        os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a process has ended by signal {os.WTERMSIG(status)}"
        return True
    assert os.WEXITSTATUS(status) == 0, f"a process has failed with seed {seed} (see above); its file is in {folder}"
    return False


def kills(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Kill `count` processes that write to one file; returns what happened."""
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    killed = 0
    while killed < count:
        kill_at = chance.randrange(1, chance.choice((20, 100, 600)))
        killed += run_one(folder, chance.randrange(10**6), kill_at, outside=chance.random() < 0.5)
    run_one(folder, 0, None)
    log = (folder / "log").read_text()
    return {"kills": killed, "begun": log.count("begun"), "done": log.count("done")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.knowledge.stores.kills")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.stdout.write(json.dumps(kills(given.folder, given.kills, given.seed)))


if __name__ == "__main__":
    main()
