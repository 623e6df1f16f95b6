"""`SqliteChunkStore`: what is left over, several users of one file, files that are damaged or not its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    KnowledgeFormatError,
    KnowledgeStorageError,
)
from agentscope_rx.knowledge import (
    Chunk,
    Document,
    EmbeddedChunk,
    SqliteChunkStore,
)
from agentscope_rx.knowledge.stores.sqlite import writing
from agentscope_rx.messages import Base64Source, FileSource, ImageBlock
from agentscope_rx.reactive import from_iterable, never
from agentscope_rx.session.lease.machine import Process
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.kits.probe import Probe
from tests.knowledge.stores.parts import INFO, chunks_of, opened, put, rows

# --- what is left over ------------------------------------------------------------------------------------------------


def test_replaced_and_left_documents_leave_no_rows(tmp_path: Path):
    path = tmp_path / "k.db"

    async def main() -> None:
        store = SqliteChunkStore(path)
        await store.open(INFO)
        document = Document(id="a", metadata={"n": 1})
        for count in (600, 3, 0, 2):
            await store.put(document, from_iterable([chunks_of(document, [(1, 0, 0, 0)] * count)]))
        left = Probe().start(store.put(document, from_iterable([chunks_of(document, [(1, 0, 0, 0)])] * 1)))
        left.dispose()
        await left.end()
        waiting = Probe().start(store.put(Document(id="b"), never()))
        waiting.dispose()
        await waiting.end()
        assert [each.chunks async for each in store.documents()] in ([1], [2])
        await store.remove(["a"])
        await store.close()

    run_virtual(main())
    for table in ("documents", "chunks", "texts", "vectors", "metadata"):
        assert rows(path, f"SELECT count(*) FROM kb_{table}") == [0], table  # noqa: S608
    assert rows(path, "SELECT count(*) FROM kb_words") == [0]


def test_a_staged_document_of_a_dead_process_is_swept(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path)
    put(store, "a", [(1, 0, 0, 0)])
    own = writing.THIS_MACHINE.process()
    dead = Process(own.host, own.boot, own.space, 2**22 + 1, "1")
    elsewhere = Process("other", "other boot", own.space, 1, "1")
    with closing(sqlite3.connect(path)) as file:
        for id, owner, touched in (("dead", dead, 9e9), ("stale", elsewhere, 1), ("alive", own, 9e9)):
            asdict = json.dumps({name: getattr(owner, name) for name in owner.__slots__})
            file.execute(
                "INSERT INTO kb_documents (id, state, title, media_type, digest, size, metadata, fingerprint, chunks,"
                " owner, touched) VALUES (?, 0, '', '', '', 0, '{}', '', 0, ?, ?)",
                (id, asdict, touched),
            )
        file.commit()
    store.open(INFO).run()
    assert rows(path, "SELECT id FROM kb_documents ORDER BY id") == ["a", "alive"]
    store.close().run()


def test_a_put_that_was_swept_says_so(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path)
    document = Document(id="a")
    batches = [[each] for each in chunks_of(document, [(1, 0, 0, 0)] * 2)]

    def swept():
        yield batches[0]
        with closing(sqlite3.connect(path)) as file:
            file.execute("DELETE FROM kb_documents WHERE state = 0")
            file.commit()
        yield batches[1]

    with pytest.raises(KnowledgeStorageError, match="was swept"):
        store.put(document, from_iterable(swept())).run()
    assert store.nearest([1, 0, 0, 0], 5).run() == ()
    store.close().run()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_processes_killed_while_writing_leave_whole_files(tmp_path: Path):
    command = [sys.executable, "-m", "tests.knowledge.stores.kills", str(tmp_path / "k"), "--kills", "5"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kills"] == 5


# --- several users ----------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a forked child that does this."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        status = 1
        signal.alarm(60)
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_parent_and_child_go_on_with_one_store(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "parent", [(1, 0, 0, 0)])
    store.nearest([1, 0, 0, 0], 1).run()

    def child() -> None:
        for number in range(5):
            put(store, f"child{number}", [(0, 1, 0, number)])
        assert len(store.nearest([0, 1, 0, 0], 50).run()) == 6

    assert in_child(child) == 0
    put(store, "after", [(0, 0, 1, 0)])
    assert len(store.nearest([0, 1, 0, 0], 50).run()) == 7
    store.close().run()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_processes_share_one_file(tmp_path: Path):
    command = [sys.executable, "-m", "tests.knowledge.stores.processes", str(tmp_path / "k.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_searches_are_of_one_moment_while_others_write(tmp_path: Path):
    path = tmp_path / "k.db"
    store, writer = opened(path), opened(path)
    versions = [[(1.0, float(n), 0.0, 0.0)] * (n % 7 + 1) for n in range(40)]
    put(writer, "a", versions[0])
    done = threading.Event()

    def write() -> None:
        for number, vectors in enumerate(versions):
            put(writer, "a", vectors, metadata={"version": number})
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not done.is_set():
            found = store.nearest([1, 1, 0, 0], 50).run()
            seen = {each.chunk.document.metadata.get("version", 0) for each in found}
            assert len(seen) == 1 and len(found) == len(versions[int(seen.pop())])
    finally:
        thread.join()
    store.close().run()
    writer.close().run()


def test_a_writer_waits_for_another_one(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path)
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    document = Document(id="a")

    async def main() -> None:
        waiting = Probe().start(store.put(document, from_iterable([chunks_of(document, [(1, 0, 0, 0)])])))
        await asyncio.sleep(1)
        assert not waiting.over
        # readers do not wait
        assert await store.nearest([1, 0, 0, 0], 5) == ()
        holder.execute("COMMIT")
        await waiting.end()
        assert waiting.completed
        await store.close()

    run_virtual(main())
    holder.close()


def test_a_writer_gives_up_after_its_time(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path, busy_seconds=1.0)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        with pytest.raises(KnowledgeStorageError, match="another process is writing") as caught:
            await store.remove(["a", "b"])
        assert caught.value.retryable
        await store.close()

    run_virtual(main())
    holder.close()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "  ", ":memory:", "file:x.db", None, 7])
def test_it_needs_the_path_of_a_file(path: object):
    with pytest.raises(ConfigurationError, match="needs the path of a file"):
        SqliteChunkStore(path)  # type: ignore[arg-type]


def test_nothing_is_made_before_something_is_put(tmp_path: Path):
    store = SqliteChunkStore(tmp_path / "k.db")
    assert store.nearest([1, 0], 5).run() == () == store.matching("x", 5).run()
    assert (store.between("a", 0, 9).run(), store.remove(["a"]).run()) == ((), 0)
    store.close().run()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KnowledgeFormatError, match=r"open\(IndexInfo"):
        put(store, "a", [(1, 0, 0, 0)])
    store.close().run()


def test_the_file_is_its_owners_only_and_may_hold_other_tables(tmp_path: Path):
    path = tmp_path / "k.db"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE mine (x)")
    os.chmod(path, 0o600)
    store = opened(path)
    put(store, "a", [(1, 0, 0, 0)])
    store.close().run()
    assert rows(path, "SELECT count(*) FROM mine") == [0]
    fresh = opened(tmp_path / "new.db")
    fresh.close().run()
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == 0o600


def test_other_files_are_refused_with_typed_errors(tmp_path: Path):
    (tmp_path / "text.db").write_text("This is no database. " * 200)
    with pytest.raises(KnowledgeFormatError, match="no SQLite database"):
        SqliteChunkStore(tmp_path / "text.db").open(INFO).run()
    with pytest.raises(KnowledgeStorageError, match="there is no folder"):
        SqliteChunkStore(tmp_path / "missing" / "k.db").open(INFO).run()
    with pytest.raises(KnowledgeStorageError):
        SqliteChunkStore(tmp_path).open(INFO).run()
    opened(tmp_path / "new.db").close().run()
    with closing(sqlite3.connect(tmp_path / "new.db")) as file:
        file.execute("UPDATE kb_format SET version = 99")
        file.commit()
    with pytest.raises(KnowledgeFormatError, match="has format 99"):
        SqliteChunkStore(tmp_path / "new.db").nearest([1, 0, 0, 0], 5).run()


def test_a_damaged_file_is_reported(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path)
    for number in range(20):
        put(store, f"{number}", [(1, 0, 0, number)] * 20)
    store.close().run()
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):
        data[start : start + 64] = b"\xff" * 64
    path.write_bytes(data)
    with pytest.raises(KnowledgeFormatError, match="damaged"):
        store.nearest([1, 0, 0, 0], 5).run()
    store.close().run()


def test_a_path_of_an_image_in_the_file_is_not_read(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    document = Document(id="a")
    image = ImageBlock(FileSource(tmp_path / "secret.png"))
    chunk = Chunk(document=document, number=0, text="a", start=0, end=1, kind="image", image=image)
    store.put(document, from_iterable([[EmbeddedChunk(chunk, (1, 0, 0, 0))]])).run()
    found = store.nearest([1, 0, 0, 0], 1).run()[0].chunk.image
    assert found is not None
    assert isinstance(found.source, FileSource)
    assert found.source.locked
    store.close().run()


def test_vectors_are_kept_as_floats_of_length_one(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "a", [(3, 4, 0, 0), (0, 0, 0, 0)])
    (blob,) = rows(tmp_path / "k.db", "SELECT vectors FROM kb_vectors")
    assert np.frombuffer(blob, np.float32).reshape(-1, 4).tolist() == [  # type: ignore[call-overload]
        [pytest.approx(0.6), pytest.approx(0.8), 0, 0],
        [0, 0, 0, 0],
    ]
    store.close().run()


def test_a_full_disk_leaves_the_document_as_it_was(tmp_path: Path):
    path = tmp_path / "k.db"
    store = opened(path)
    put(store, "a", [(1, 0, 0, 0)])
    with store._database.read() as connection:
        assert connection is not None
    (kept,) = store._database._kept
    (pages,) = kept.db.execute("PRAGMA page_count").fetchone()
    kept.db.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(KnowledgeStorageError, match="full") as caught:
        put(store, "a", [(0, 1, 0, float(n)) for n in range(2000)])
    assert not caught.value.retryable
    assert [each.similarity for each in store.nearest([1, 0, 0, 0], 5).run()] == [1.0]
    put(store, "a", [(0, 1, 0, 0)] * 3)
    assert len(store.nearest([1, 0, 0, 0], 5).run()) == 3
    store.close().run()


def test_a_read_only_database_is_reported(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "a", [(1, 0, 0, 0)])
    (kept,) = store._database._kept
    kept.db.execute("PRAGMA query_only = ON")
    with pytest.raises(KnowledgeStorageError, match="make the file and its folder writable") as caught:
        put(store, "b", [(1, 0, 0, 0)])
    assert not caught.value.retryable
    store.close().run()


def test_an_image_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentscope_rx.knowledge.stores.sqlite.rows.MAX_IMAGE_CHARS", 1000)
    store = opened(tmp_path / "k.db")
    document = Document(id="a")
    image = ImageBlock(Base64Source("image/png", "A" * 2000))
    chunk = Chunk(document=document, number=0, text="a", start=0, end=1, kind="image", image=image)
    with pytest.raises(InvalidInputError, match="at most 1,000 characters"):
        store.put(document, from_iterable([[EmbeddedChunk(chunk, (1, 0, 0, 0))]])).run()
    assert store.nearest([1, 0, 0, 0], 5).run() == ()
    store.close().run()
