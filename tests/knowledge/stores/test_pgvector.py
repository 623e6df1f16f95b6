"""`PgVectorChunkStore`: the laws of stores on a real PostgreSQL, and what a server adds to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, InvalidInputError, KnowledgeStorageError
from agentscope_rx.knowledge import IndexInfo, InMemoryChunkStore, PgVectorChunkStore, Where
from agentscope_rx.testing import check_chunk_store
from tests.knowledge.stores.chunks import INFO, LENGTH, check_killed, check_whole, places, put
from tests.knowledge.stores.conditions import check_where, fill, wheres
from tests.session.server_stores import url_at
from tests.support.faulty_link import Fate, FaultyLink
from tests.support.servers import PASSWORD, Server, postgres_url

Make = Callable[..., PgVectorChunkStore]


def fresh() -> str:
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def make(postgres: Server) -> Iterator[Make]:
    made: list[PgVectorChunkStore] = []

    def make(collection: str | None = None, **options: float | str) -> PgVectorChunkStore:
        made.append(PgVectorChunkStore(postgres_url(postgres), collection=collection or fresh(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close().run()


def test_it_keeps_the_laws(postgres: Server):
    url = postgres_url(postgres)
    report = check_chunk_store(
        lambda: PgVectorChunkStore(url, collection=fresh()),
        again=lambda store: PgVectorChunkStore(url, collection=store._place.collection),  # type: ignore[attr-defined]
        real_time=True,
    )
    assert {"again", "reopened", "ties", "conditions"} <= set(report.checked)


@pytest.fixture(scope="module")
def filled(postgres: Server) -> Iterator[tuple[PgVectorChunkStore, InMemoryChunkStore]]:
    stores = PgVectorChunkStore(postgres_url(postgres), collection=fresh()), InMemoryChunkStore()
    for each in stores:
        fill(each)
    yield stores
    stores[0].close().run()


@given(where=wheres, limit=st.sampled_from([1, 2, 5, 99]))
def test_any_condition_finds_what_matches(
    filled: tuple[PgVectorChunkStore, InMemoryChunkStore], where: Where, limit: int
):
    check_where(*filled, where, limit)


def test_a_killed_process_leaves_a_whole_document(postgres: Server):
    check_killed("pgvector", f"{postgres_url(postgres)} {fresh()}", 0.02)


def opened(store: PgVectorChunkStore, *texts: str) -> PgVectorChunkStore:
    store.open(INFO).run()
    for text in texts:
        put(store, "a.md", [text] * LENGTH)
    return store


@pytest.mark.parametrize("fate", [Fate.CUT, Fate.NO_ANSWER], ids=["cut", "no answer"])
def test_the_network_fails_at_any_request_of_a_put(postgres: Server, fate: Fate):
    collection = fresh()
    with FaultyLink(postgres.socket).open() as link:
        store = PgVectorChunkStore(url_at("postgres", link.port), collection=collection)
        opened(store, "version old")
        failures: list[KnowledgeStorageError] = []
        # (the other half of the requests is the other fate's)
        for number in count(int(fate is Fate.CUT), 2):
            first = len(link.requests)
            link.at(number, fate)
            try:
                put(store, "a.md", ["version new"] * LENGTH)
            except KnowledgeStorageError as error:
                failures.append(error)
            link.heal()
            # (every text is the same one, in each way to ask)
            assert check_whole(store) in ("version old", "version new")
            if len(link.requests) - first <= number or number > 40:
                break
            if number % 8 > 5:
                put(store, "a.md", ["version old"] * LENGTH)
        assert len(failures) >= 4
        assert all(each.retryable and PASSWORD not in str(each) for each in failures)
        store.close().run()


def test_a_silent_server_is_reported_in_time(postgres: Server, make: Make):
    collection = fresh()
    opened(make(collection), "text")

    def answered() -> bool:
        # (a busy machine may need longer than this store waits)
        with contextlib.suppress(KnowledgeStorageError):
            return len(store.nearest([1, 0, 0], 1).run()) == 1
        return False

    with FaultyLink(postgres.socket).open() as link:
        store = PgVectorChunkStore(url_at("postgres", link.port), collection=collection, timeout=0.3)
        assert any(answered() for _ in range(60))
        link.on_request = lambda data: Fate.STALL
        for operation in (store.nearest([1, 0, 0], 1), store.remove(["a.md"]), store.open(INFO)):
            with pytest.raises(KnowledgeStorageError, match=r"no answer within 0\.3 s") as caught:
                operation.run()
            assert caught.value.retryable
        link.heal()
        assert any(answered() for _ in range(60))
        store.close().run()


def test_connections_that_the_server_ends_are_replaced(postgres: Server, make: Make):
    store = opened(make(), "text")

    async def end_all() -> None:
        connection = await asyncpg.connect(postgres_url(postgres))
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname <> ''"
        await connection.fetch(ended)
        await connection.close()

    asyncio.run(end_all())
    # (the first use may find the connection before its end has come through)
    with contextlib.suppress(KnowledgeStorageError):
        store.nearest([1, 0, 0], 1).run()
    assert len(store.nearest([1, 0, 0], 100).run()) == LENGTH


def test_the_server_is_killed_and_comes_back(postgres: Server, make: Make):
    store = opened(make(), "version old")
    postgres.kill()
    try:
        for operation in (store.nearest([1, 0, 0], 1), store.matching("version", 1), store.remove(["a.md"])):
            with pytest.raises(KnowledgeStorageError) as caught:
                operation.run()
            assert caught.value.retryable and PASSWORD not in f"{caught.value}{caught.value!r}"
        with pytest.raises(KnowledgeStorageError):
            put(store, "a.md", ["version new"] * LENGTH)
    finally:
        postgres.start()
    assert check_whole(store) == "version old", "what was acknowledged is there"
    put(store, "a.md", ["version new"] * LENGTH)
    assert check_whole(store) == "version new"


def test_more_searches_than_connections_wait(make: Make):
    store = opened(make(), "text")

    async def main() -> None:
        found = await asyncio.gather(*(store.nearest([1, 0, 0], 3).as_task() for _ in range(40)))
        assert [len(each) for each in found] == [3] * 40

    asyncio.run(main())


@pytest.mark.parametrize("dimensions", [3, 2500])
def test_an_index_finds_what_a_comparison_finds(make: Make, dimensions: int):
    info = IndexInfo(embedding="test", dimensions=dimensions)
    exact, indexed = make(), make(index="hnsw")
    for store in (exact, indexed):
        store.open(info).run()
        for document in range(3):
            vectors = [[1.0, n % 17, document] + [0.0] * (dimensions - 3) for n in range(40)]
            put(store, f"{document}", ["text"] * 40, vectors, {"number": document})
    near = [1.0, 3.0, 1.0] + [0.0] * (dimensions - 3)
    for where in (None, {"number": 2}):
        assert places(indexed.nearest(near, 5, where).run()) == places(exact.nearest(near, 5, where).run())
    assert len(indexed.nearest(near, 500).run()) == 120


def test_what_it_refuses(make: Make):
    for url in ("", "mysql://h/d", "postgresql://u:s3cret@h:port/d", None):
        with pytest.raises(ConfigurationError, match="no URL of a PostgreSQL database") as caught:
            PgVectorChunkStore(url)  # type: ignore[arg-type]
        assert "s3cret" not in str(caught.value)
    for options in ({"collection": "a b"}, {"collection": "x" * 41}, {"index": "ivf"}, {"timeout": 0}):
        with pytest.raises(ConfigurationError):
            PgVectorChunkStore("postgresql://h/d", **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="4000 dimensions"):
        make(index="hnsw").open(IndexInfo(embedding="e", dimensions=4001)).run()
    with pytest.raises(InvalidInputError, match="open"):
        put(make(), "a", ["text"])
    assert make().nearest([1, 0, 0], 1).run() == make().matching("text", 1).run() == ()
    assert repr(PgVectorChunkStore("postgresql+asyncpg://u:s3cret@h/d")) == (
        "<PgVectorChunkStore knowledge in postgresql://h:5432/d>"
    )
