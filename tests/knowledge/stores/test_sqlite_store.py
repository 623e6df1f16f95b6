"""`SqliteChunkStore`: its searches and its matrix beyond the laws of the port, which its kit checks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import (
    InvalidInputError,
)
from agentscope_rx.knowledge import (
    Between,
    Chunk,
    Document,
    EmbeddedChunk,
    Excluding,
    InMemoryChunkStore,
    Prefix,
    SqliteChunkStore,
    Where,
)
from agentscope_rx.knowledge.stores.sqlite import search, writing
from agentscope_rx.knowledge.where import matches
from agentscope_rx.reactive import Demand, from_iterable
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.kits.probe import Probe
from tests.knowledge.stores.parts import INFO, opened, put, rows

VECTORS = st.tuples(*[st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0])] * 4)


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
@example(where={"y": 10**400})
@example(where={"x": Between("\ud83d", None)})
@example(where={"x": Between(), "page": Between()})
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


def test_documents_are_read_as_there_is_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentscope_rx.knowledge.stores.sqlite.store.PAGE", 2)

    async def main() -> tuple[int, int]:
        store = SqliteChunkStore(tmp_path / "k.db")
        await store.open(INFO)
        for number in range(40):
            await store.put(Document(id=f"{number:02}"), from_iterable([]))
        probe = Probe(demand=(demand := Demand(asyncio.get_running_loop())))
        probe.start(store.documents())
        demand.withhold()
        await asyncio.sleep(60)
        few = len(probe.values)
        demand.resume()
        await probe.end()
        await store.close()
        return few, len(probe.values)

    few, every = run_virtual(main())
    assert few <= 2
    assert every == 40


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
