"""`QdrantChunkStore`: the laws of stores in the local mode of Qdrant's client, in memory and on disk.

No server comes as a package. What it would still have to show is said in docs/guides/knowledge.md.
"""

from __future__ import annotations

import contextlib
import gc
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient

from agentscope_rx.errors import ConfigurationError, InvalidInputError, KnowledgeStorageError
from agentscope_rx.knowledge import InMemoryChunkStore, QdrantChunkStore, Where
from agentscope_rx.knowledge.stores import qdrant_points, qdrant_rows
from agentscope_rx.testing import check_chunk_store, collect_dropped
from tests.knowledge.stores.chunks import INFO, LENGTH, check_killed, check_whole, folder, put, putting
from tests.knowledge.stores.conditions import check_where, fill, wheres

# (its client leaves connections of the local mode to the garbage collector, which Python 3.13 warns of)
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")

REQUESTS = ("upsert", "delete", "scroll", "retrieve", "query_points")


class Shared(AsyncQdrantClient):
    """A client that several stores have, as several processes have one server.

    `before` is called before each request.
    """

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.stores: list[QdrantChunkStore] = []
        self.before: Callable[[str], Awaitable[object]] | None = None
        for name in REQUESTS:
            setattr(self, name, partial(self._request, name, getattr(self, name)))

    async def _request(self, name: str, request: Callable[..., Awaitable[object]], *args: Any, **kwargs: Any) -> object:
        if self.before is not None:
            await self.before(name)
        return await request(*args, **kwargs)

    def store(self) -> QdrantChunkStore:
        self.stores.append(QdrantChunkStore(lambda: self))
        return self.stores[-1]

    async def close(self, grpc_grace: float | None = None, **kwargs: object) -> None: ...


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with folder() as path:
        yield path


def test_it_keeps_the_laws():
    clients: list[Shared] = []

    def make() -> QdrantChunkStore:
        clients.append(Shared())
        return clients[-1].store()

    def again(store: object) -> QdrantChunkStore:
        return next(each for each in clients if store in each.stores).store()

    report = check_chunk_store(make, again=again, real_time=True)
    assert {"again", "reopened", "ties", "conditions"} <= set(report.checked)


@pytest.fixture(scope="module")
def filled() -> Iterator[tuple[QdrantChunkStore, InMemoryChunkStore]]:
    stores = QdrantChunkStore(":memory:"), InMemoryChunkStore()
    for each in stores:
        fill(each)
    yield stores
    stores[0].close().run()


@given(where=wheres, limit=st.sampled_from([1, 2, 5, 99]))
def test_any_condition_finds_what_matches(
    filled: tuple[QdrantChunkStore, InMemoryChunkStore], where: Where, limit: int
):
    check_where(*filled, where, limit)


def test_a_killed_process_leaves_a_whole_document(home: Path):
    check_killed("qdrant", str(home / "killed"), 0.05)


class ServerGoneError(OSError):
    """What is raised in the place of a request."""


@pytest.fixture(autouse=True)
def small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A document takes several."""
    monkeypatch.setattr(qdrant_rows, "_BATCH", 4)


def opened(client: Shared, *texts: str) -> QdrantChunkStore:
    store = client.store()
    store.open(INFO).run()
    for text in texts:
        put(store, "a.md", [text] * LENGTH)
    return store


def points_of(client: Shared) -> int:
    return len(client._client.collections["knowledge"].payload) - sum(client._client.collections["knowledge"].deleted)  # type: ignore[attr-defined]


@pytest.mark.parametrize("for_good", [True, False], ids=["from it on", "it alone"])
def test_a_put_that_fails_at_any_request(for_good: bool, monkeypatch: pytest.MonkeyPatch):
    client = Shared()
    store = opened(client, "version old")
    monkeypatch.setattr(qdrant_points, "STALE_SECONDS", -1.0)
    for number in count():
        requests: list[str] = []

        async def fail(name: str, number: int = number, requests: list[str] = requests) -> None:
            requests.append(name)
            if len(requests) - 1 == number or (for_good and len(requests) > number):
                raise ServerGoneError("gone")

        client.before = fail
        with collect_dropped(), contextlib.suppress(KnowledgeStorageError):
            put(store, "a.md", ["version new"] * LENGTH)
        client.before = None
        assert check_whole(store) in ("version old", "version new")
        store.open(INFO).run()
        assert points_of(client) == LENGTH, "what was left is removed when the store is opened again"
        if len(requests) <= number:
            break
        if number % 3 == 2:
            put(store, "a.md", ["version old"] * LENGTH)
    assert number > 8


def test_a_search_at_any_request_of_a_put_finds_all():
    client = Shared()
    store, other = opened(client, "version old"), client.store()
    seen: list[set[str]] = []

    async def search(name: str) -> None:
        client.before = None
        for found in (await other.nearest([1, 0, 0], 99), await other.matching("version", 99)):
            assert len(found) == LENGTH
            seen.append({each.chunk.text for each in found})
        seen.append({each.text for each in await other.between("a.md", 0, 99)})
        client.before = search

    client.before = search
    put(store, "a.md", ["version new"] * LENGTH)
    client.before = None
    assert all(len(each) == 1 for each in seen) and len(seen) > 20
    assert seen[0] == {"version old"} and seen[-1] == {"version new"}
    assert sorted(seen, key=lambda each: each == {"version new"}) == seen, (
        "the new one is never followed by the old one"
    )


@pytest.mark.parametrize("method", ["nearest", "matching", "between"])
def test_a_put_at_any_request_of_a_search_changes_all(method: str):
    client = Shared()
    store, other = opened(client, "version 0"), client.store()
    for number in count():
        requests: list[str] = []

        async def change(name: str, number: int = number, requests: list[str] = requests) -> None:
            requests.append(name)
            if len(requests) - 1 == number:
                client.before = None
                await putting(other, "a.md", [f"version {number + 1}"] * (LENGTH + number))
                client.before = change

        client.before = change
        if method == "between":
            texts = [each.text for each in store.between("a.md", 0, 99).run()]
        else:
            question = [1.0, 0.0, 0.0] if method == "nearest" else "version"
            texts = [each.chunk.text for each in getattr(store, method)(question, 99).run()]
        client.before = None
        version = int(texts[0].split()[1])
        assert texts == [f"version {version}"] * (LENGTH - 1 + max(1, version)) and version in (number, number + 1)
        if len(requests) <= number:
            break
    assert number >= 4


def test_a_removal_that_fails_at_any_request(monkeypatch: pytest.MonkeyPatch):
    client = Shared()
    store = opened(client)
    monkeypatch.setattr(qdrant_points, "STALE_SECONDS", -1.0)
    for number in count():
        put(store, "a.md", ["version"] * LENGTH)
        requests: list[str] = []

        async def fail(name: str, number: int = number, requests: list[str] = requests) -> None:
            requests.append(name)
            if len(requests) > number:
                raise ServerGoneError("gone")

        client.before = fail
        with collect_dropped(), contextlib.suppress(KnowledgeStorageError):
            store.remove(["a.md"]).run()
        client.before = None
        there = len(store.nearest([1, 0, 0], 99).run())
        assert there in (0, LENGTH) and len(store.between("a.md", 0, 99).run()) == there
        store.open(INFO).run()
        assert points_of(client) == there
        if len(requests) <= number:
            break
    assert number > 5


def test_two_that_put_a_document_leave_one_of_them():
    client = Shared()
    store, other = opened(client), client.store()
    for number in (0, 2, 3, 5, 6, 8, 9, 10):
        requests: list[str] = []

        async def change(name: str, number: int = number, requests: list[str] = requests) -> None:
            requests.append(name)
            if len(requests) - 1 == number:
                client.before = None
                await putting(other, "a.md", [f"version {number} of the other"] * LENGTH)
                client.before = change

        client.before = change
        put(store, "a.md", [f"version {number}"] * LENGTH)
        client.before = None
        assert check_whole(store) in (f"version {number}", f"version {number} of the other")
        assert points_of(client) == LENGTH


def test_a_search_ends_while_documents_change_all_the_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(qdrant_rows, "_TRIES", 4)
    client = Shared()
    store, other = opened(client, "version 0"), client.store()

    async def change(name: str) -> None:
        client.before = None
        await putting(other, "a.md", ["version"] * 3)
        client.before = change

    client.before = change
    with pytest.raises(KnowledgeStorageError, match="changed all the time") as caught:
        store.nearest([1, 0, 0], 9).run()
    assert caught.value.retryable
    client.before = None


# (the client leaves its lock file open when it is refused)
@pytest.mark.filterwarnings("ignore:.*lock.*:pytest.PytestUnraisableExceptionWarning")
def test_what_it_refuses(home: Path):
    for place in ("", " ", "http://u:s3cret@h:port", "localhost:6333", "grpc://u:s3cret@h"):
        with pytest.raises(ConfigurationError) as caught:
            QdrantChunkStore(place)
        assert "s3cret" not in str(caught.value)
    for options in ({"collection": "a b"}, {"index": "ivf"}, {"timeout": 0}):
        with pytest.raises(ConfigurationError):
            QdrantChunkStore(":memory:", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="open"):
        put(QdrantChunkStore(":memory:"), "a", ["text"])
    one, other = QdrantChunkStore(home / "used"), QdrantChunkStore(home / "used")
    one.open(INFO).run()
    with pytest.raises(KnowledgeStorageError, match="already accessed") as caught:
        other.open(INFO).run()
    assert caught.value.retryable
    del caught
    gc.collect()
    one.close().run()
    assert other.open(INFO).run() == INFO
    other.close().run()


def test_a_server_that_is_not_there():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://u:s3cret@127.0.0.1:{free.getsockname()[1]}"
    store = QdrantChunkStore(url, timeout=2)
    for operation in (store.open(INFO), store.nearest([1, 0, 0], 1), store.remove(["a"])):
        with pytest.raises(KnowledgeStorageError) as caught:
            operation.run()
        assert caught.value.retryable and "s3cret" not in f"{caught.value}{store!r}"
    store.close().run()
