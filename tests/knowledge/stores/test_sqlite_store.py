"""`SqliteChunkStore`: what it does beyond the laws of the port, which its kit checks."""

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
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    KnowledgeFormatError,
    KnowledgeStorageError,
)
from agentscope_rx.knowledge import (
    Between,
    Chunk,
    Document,
    EmbeddedChunk,
    Excluding,
    IndexInfo,
    InMemoryChunkStore,
    Prefix,
    SqliteChunkStore,
    Where,
)
from agentscope_rx.knowledge.stores.sqlite import search, writing
from agentscope_rx.knowledge.where import matches
from agentscope_rx.messages import FileSource, ImageBlock
from agentscope_rx.reactive import from_iterable, never
from agentscope_rx.session.lease.machine import Process
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.kits.probe import Probe

INFO = IndexInfo(embedding="test", dimensions=4)
VECTORS = st.tuples(*[st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0])] * 4)


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


# --- searches ---------------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.lists(VECTORS, max_size=4) | st.none()), max_size=12),
    asked=VECTORS,
    limit=st.integers(1, 12),
)
def test_it_finds_what_a_comparison_of_all_finds(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, list[tuple[float, ...]] | None]],
    asked: tuple[float, ...],
    limit: int,
):
    path = tmp_path_factory.mktemp("stores") / "k.db"
    plain, writer, reader = InMemoryChunkStore(), opened(path), opened(path)
    plain.open(INFO).run()
    for id, vectors in steps:
        for store in (plain, writer):
            if vectors is None:
                store.remove([id]).run()
            else:
                put(store, id, vectors)
        # the other store follows one change at a time
        expected = plain.nearest(asked, limit).run()
        for store in (writer, reader):
            found = store.nearest(asked, limit).run()
            assert [(each.chunk, each.similarity) for each in found] == [
                (each.chunk, pytest.approx(each.similarity, abs=2e-6)) for each in expected
            ]
    for store in (writer, reader):
        store.close().run()


SCALARS = st.one_of(
    st.sampled_from(["", "a", "ab", "b", "é", "z\U0010ffff", "\ud83d", "a\x00b", "1"]),
    st.sampled_from([0, 1, 2, -1, 2**70, -(2**70), 10**400]),
    st.sampled_from([0.0, 1.0, 1.5, float("inf"), float("nan")]),
    st.booleans(),
)
BOUNDS = st.none() | SCALARS.filter(lambda each: not isinstance(each, bool))
CONDITIONS = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.builds(Between, BOUNDS, BOUNDS),
    st.builds(Prefix, st.sampled_from(["", "a", "ab", "\U0010ffff", "z\U0010ffff", "\ud7ff", "\ud83d"])),
    st.lists(SCALARS, max_size=3).map(Excluding),
)
NAMES = ["x", "y", "document_id", "title", "media_type", "page", "section", "odd '\" name", "\ud83d"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory):
    values = ["", "a", "ab", "b", "é", "z\U0010ffff", "a\x00b", "1", 0, 1, 2, -1, 2**70, 0.0, 1.5, float("inf")]
    store = opened(tmp_path_factory.mktemp("where") / "k.db")
    every: list[Chunk] = []
    for number, value in enumerate([*values, float("nan"), True, False]):
        named = {"x": value, "odd '\" name": number} if number % 5 else {"y": value}
        document = Document(id=f"a{number}", title=str(value)[:3], media_type="ab" * (number % 2), metadata=named)
        chunk = Chunk(document=document, number=0, text="alpha", start=0, end=5, page=number % 3 or None, kind="text")
        store.put(document, from_iterable([[EmbeddedChunk(chunk, (1.0, 0.0, 0.0, float(number)))]])).run()
        every.append(chunk)
    yield store, every
    store.close().run()


@settings(max_examples=150)
@given(where=st.dictionaries(st.sampled_from(NAMES), CONDITIONS, max_size=2))
def test_conditions_choose_what_matches_chooses(collection: tuple[SqliteChunkStore, list[Chunk]], where: Where):
    store, every = collection
    expected = {chunk.document.id for chunk in every if matches(chunk, where)}
    found = store.nearest([1, 0, 0, 0], 50, where).run()
    assert {each.chunk.document.id for each in found} == expected
    words = store.matching("alpha", 50, where).run()
    assert {each.chunk.document.id for each in words} == expected


def test_a_condition_with_too_many_values_is_refused(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "a", [(1, 0, 0, 0)])
    assert len(store.nearest([1, 0, 0, 0], 5, {"document_id": ["a", *map(str, range(20_000))]}).run()) == 1
    with pytest.raises(InvalidInputError, match="more than 30,000 values"):
        store.nearest([1, 0, 0, 0], 5, {"document_id": list(map(str, range(30_001)))}).run()
    store.close().run()


def test_many_equal_vectors_are_cut_in_order(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    for id in ("b", "c", "a"):
        put(store, id, [(1.0, 2.0, 0.0, 0.0)] * 500)
    found = store.nearest([1, 2, 0, 0], 7).run()
    assert [(each.chunk.document.id, each.chunk.number) for each in found] == [("a", n) for n in range(7)]
    store.close().run()


def test_great_and_small_vectors_have_directions(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "a", [(1e300, 0, 0, 0), (0, 1e-300, 0, 0), (0, 0, 1e38, 1e38)])
    found = store.nearest([1e-200, 0, 0, 0], 1).run()
    assert (found[0].chunk.number, found[0].similarity) == (0, 1.0)
    store.close().run()


def test_names_in_code_are_found_by_their_parts(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    texts = ["def getUserName(): ...", "def read_user_file(path): ...", "raise E1234", "see config.yaml", "HTTPServer"]
    document = Document(id="code.py")
    given = [
        EmbeddedChunk(Chunk(document=document, number=n, text=text, start=0, end=1), (1, 0, 0, 0))
        for n, text in enumerate(texts)
    ]
    store.put(document, from_iterable([given])).run()
    for query, numbers in (
        ("getUserName", [0]),
        ("what is the user name", [0, 1]),
        ("read_user_file", [1]),
        ("E1234", [2]),
        ("config.yaml", [3]),
        ("server", [4]),
    ):
        assert sorted(each.chunk.number for each in store.matching(query, 5).run()) == numbers, query
    store.close().run()


def test_common_words_rank_what_rare_words_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(search, "COMMON", 3)
    store = opened(tmp_path / "k.db")
    texts = ["ferry ticket", "ferry", "ferry harbour", "ferry boat", "ticket office", "boat trip"]
    for number, text in enumerate(texts):
        document = Document(id=f"{number}")
        chunk = Chunk(document=document, number=0, text=text, start=0, end=1)
        store.put(document, from_iterable([[EmbeddedChunk(chunk, (1, 0, 0, 0))]])).run()

    def found(query: str, limit: int) -> list[str]:
        return [each.chunk.text for each in store.matching(query, limit).run()]

    assert found("ferry ticket", 1) == ["ferry ticket"]
    assert found("ferry ticket", 2) == ["ferry ticket", "ticket office"]
    # too few chunks have the rare word: the others come, too
    assert len(found("ferry ticket", 9)) == 5
    assert len(found("ferry", 9)) == 4
    assert len(found("ferry unknownword", 9)) == 4
    store.close().run()


# --- the matrix in memory ---------------------------------------------------------------------------------------------


def test_a_search_reads_only_what_is_new(tmp_path: Path):
    store, other = opened(tmp_path / "k.db"), opened(tmp_path / "k.db")
    put(store, "a", [(1, 0, 0, 0)] * 100)
    store.nearest([1, 0, 0, 0], 1).run()
    before = store._matrix._vectors
    put(other, "b", [(0, 1, 0, 0)])
    assert store.nearest([0, 1, 0, 0], 1).run()[0].chunk.document.id == "b"
    assert store._matrix._vectors is before, "the arrays were made anew for one chunk"
    store.close().run()
    other.close().run()


def test_a_search_takes_four_statements(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    put(store, "a", [(1, float(n), 0, 0) for n in range(300)])
    store.nearest([1, 0, 0, 0], 1).run()
    statements: list[str] = []
    with store._database.read() as connection:
        assert connection is not None
    for each in store._database._kept:
        each.db.set_trace_callback(statements.append)
    assert len(store.nearest([1, 0, 0, 0], 5).run()) == 5
    assert [each.split()[0] for each in statements] == ["BEGIN", "SELECT", "SELECT", "COMMIT"]
    store.close().run()


def test_rows_of_removed_documents_are_given_back(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    for number in range(8):
        put(store, f"{number}", [(1, number, 0, 0)] * 100)
    store.nearest([1, 0, 0, 0], 1).run()
    store.remove([f"{number}" for number in range(7)]).run()
    assert len(store.nearest([1, 0, 0, 0], 1000).run()) == 100
    assert store._matrix._view.count == 100
    assert len(store._matrix._vectors) == 100
    store.close().run()
    assert store._matrix._view.count == 0, "close frees the vectors"


def test_a_matrix_far_behind_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(writing, "CHANGES_KEPT", 5)
    store, other = opened(tmp_path / "k.db"), opened(tmp_path / "k.db")
    store.nearest([1, 0, 0, 0], 1).run()
    for number in range(10):
        put(other, f"{number % 4}", [(1, number, 0, 0)])
    assert len(rows(tmp_path / "k.db", "SELECT number FROM kb_changes")) == 5
    assert len(store.nearest([1, 0, 0, 0], 50).run()) == 4
    store.close().run()
    other.close().run()


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path):
    store = opened(tmp_path / "k.db")
    for id in "abc":
        put(store, id, [(1, 0, 0, 0)])
    store.nearest([1, 0, 0, 0], 5).run()
    fresh = opened(tmp_path / "new.db")
    put(fresh, "new", [(1, 0, 0, 0)])
    fresh.close().run()
    for name in ("k.db-wal", "k.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    os.replace(tmp_path / "new.db", tmp_path / "k.db")
    assert [each.chunk.document.id for each in store.nearest([1, 0, 0, 0], 5).run()] == ["new"]
    store.close().run()


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
    command = [sys.executable, "-m", "tests.knowledge.stores.kills", str(tmp_path / "k"), "--kills", "8"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kills"] == 8


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
        await asyncio.sleep(5)
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
    store = opened(path, busy_seconds=3.0)
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
