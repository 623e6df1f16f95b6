"""`SqliteVecChunkStore`: the laws of stores, and what its file adds to them."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import (
    ConfigurationError,
    InvalidInputError,
    KnowledgeFormatError,
    KnowledgeStorageError,
)
from agentscope_rx.knowledge import IndexInfo, InMemoryChunkStore, SqliteVecChunkStore, Where
from agentscope_rx.knowledge.stores import sqlite_vec_file
from agentscope_rx.testing import check_chunk_store
from tests.knowledge.stores.chunks import INFO, check_killed, folder, places, put
from tests.knowledge.stores.conditions import check_where, fill, wheres


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with folder() as path:
        yield path


def test_it_keeps_the_laws(home: Path):
    numbers = count()
    report = check_chunk_store(
        lambda: SqliteVecChunkStore(home / f"{next(numbers)}.db"),
        again=lambda store: SqliteVecChunkStore(store.path),  # type: ignore[attr-defined]
    )
    assert {"again", "reopened", "ties", "conditions"} <= set(report.checked)


@pytest.fixture(scope="module")
def filled(home: Path) -> tuple[SqliteVecChunkStore, InMemoryChunkStore]:
    stores = SqliteVecChunkStore(home / "conditions.db"), InMemoryChunkStore()
    for each in stores:
        fill(each)
    return stores


@given(where=wheres, limit=st.sampled_from([1, 2, 5, 99]))
def test_any_condition_finds_what_matches(
    filled: tuple[SqliteVecChunkStore, InMemoryChunkStore], where: Where, limit: int
):
    check_where(*filled, where, limit)


def test_a_killed_process_leaves_a_whole_document(home: Path):
    check_killed("sqlite_vec", str(home / "killed.db"), 0.02)


def test_more_chunks_than_vec0_returns(home: Path):
    store = SqliteVecChunkStore(home / "many.db")
    store.open(INFO).run()
    put(store, "a", [f"chunk {n}" for n in range(4200)], [(1.0, n % 7, 0.0) for n in range(4200)])
    found = store.nearest([1, 0, 0], 4150).run()
    assert places(found)[:600] == [("a", n) for n in range(0, 4200, 7)], "equal ones are ordered by their numbers"
    assert len(found) == 4150
    assert len(store.matching("chunk", 4150).run()) == 4150


def test_a_file_of_something_else_is_refused(home: Path):
    path = home / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(KnowledgeFormatError, match="another program or store"):
        SqliteVecChunkStore(path).open(INFO).run()
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(KnowledgeFormatError, match="not a database"):
        SqliteVecChunkStore(path).nearest([1, 0, 0], 1).run()
    newer = SqliteVecChunkStore(home / "newer.db")
    newer.open(INFO).run()
    with apsw.Connection(newer.path) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    with pytest.raises(KnowledgeFormatError, match="it has format 2"):
        newer.open(INFO).run()


def test_a_store_has_to_be_opened_before_a_put(home: Path):
    store = SqliteVecChunkStore(home / "unopened.db")
    with pytest.raises(InvalidInputError, match="open"):
        put(store, "a", ["text"])
    assert (store.nearest([1, 0, 0], 1).run(), store.matching("text", 1).run()) == ((), ())
    assert store.between("a", 0, 1).run() == () and store.remove(["a"]).run() == 0


def test_a_put_is_refused_when_the_model_has_changed(home: Path):
    """Another process has opened the empty store with another model, while the vectors were made."""
    store = SqliteVecChunkStore(home / "changed.db")
    store.open(INFO).run()
    other = SqliteVecChunkStore(store.path)

    def change(*_: object) -> Path:
        other.open(IndexInfo(embedding="other", dimensions=3)).run()
        return home

    with pytest.MonkeyPatch.context() as patch:
        written = SqliteVecChunkStore._write
        patch.setattr(SqliteVecChunkStore, "_write", lambda *args: (change(), written(*args))[1])
        with pytest.raises(KnowledgeFormatError, match="its vectors are of other"):
            put(store, "a", ["text"])
    assert other.between("a", 0, 9).run() == ()


def test_another_writer_is_waited_for(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite_vec_file, "BUSY_SECONDS", 0.05)
    store = SqliteVecChunkStore(home / "busy.db")
    store.open(INFO).run()
    put(store, "a", ["old"])
    with apsw.Connection(store.path) as db:
        db.execute("DELETE FROM documents")
        with pytest.raises(KnowledgeStorageError, match="another process has been writing") as caught:
            put(store, "a", ["new"])
        assert caught.value.retryable
        assert [each.text for each in store.between("a", 0, 1).run()] == ["old"]
        db.execute("ROLLBACK; BEGIN")
    db.close()
    put(store, "a", ["new"])


def _child(store: SqliteVecChunkStore) -> None:
    put(store, "child", ["text"])
    os._exit(0 if len(store.nearest([1, 0, 0], 9).run()) == 2 else 1)


def test_a_forked_child_uses_the_store(home: Path):
    store = SqliteVecChunkStore(home / "forked.db")
    store.open(INFO).run()
    put(store, "parent", ["text"])
    process = multiprocessing.get_context("fork").Process(target=_child, args=(store,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert places(store.nearest([1, 0, 0], 9).run()) == [("child", 0), ("parent", 0)]


def test_the_file_is_its_owners(home: Path):
    store = SqliteVecChunkStore(home / "private.db")
    store.open(INFO).run()
    assert stat.S_IMODE(os.stat(store.path).st_mode) == 0o600
    assert repr(store) == f"SqliteVecChunkStore({store.path!r})"
    with pytest.raises(KnowledgeStorageError, match="no-folder"):
        SqliteVecChunkStore(home / "no-folder" / "k.db").open(INFO).run()
    for path in ("", ":memory:", "file:k.db"):
        with pytest.raises(ConfigurationError, match="the path of a file"):
            SqliteVecChunkStore(path)
