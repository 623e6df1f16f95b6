"""`check_chunk_store`: the laws of the `ChunkStore` port.

The rules store small documents whose vectors have four dimensions. The rules of searching are in `chunk_searches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from functools import partial
from typing import cast

from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError, KnowledgeFormatError
from agentscope_rx.knowledge import Chunk, ChunkStore, Document, EmbeddedChunk, Indexed, IndexInfo
from agentscope_rx.messages import Base64Source, ImageBlock
from agentscope_rx.reactive import Flow, concat, from_async_iterable, from_iterable, never
from agentscope_rx.testing.kits.chunk_parts import (
    INFO,
    Stores,
    batches,
    chunks_of,
    document,
    embedded,
    has,
    put,
    whole,
)
from agentscope_rx.testing.kits.chunk_searches import SEARCH_LAWS
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, equal, name_of, raises, require
from agentscope_rx.testing.record import DroppedErrors

ODD_IDS = (
    "a b", "A b", "é", "e\u0301", "喝/咖啡.md", "\U0001f600", "%", "_", "a%", "a_", "a\\", "'", '"', "a\nb", "z" * 900,
)  # fmt: skip
ODD_TEXTS = (
    "", " \r\n\x85\u2028 ", "喝咖啡 \U0001f600", "e\u0301 é", "'; DROP TABLE chunks; --", "{}", "x" * 100_000,
)  # fmt: skip


def check_chunk_store(
    make: Callable[[], ChunkStore],
    *,
    again: Callable[[ChunkStore], ChunkStore] | None = None,
    name: str | None = None,
    real_time: bool = False,
) -> KitReport:
    """Check the stores that `make` returns; each call of it makes a new and empty one.

    `again` makes another store on the same place, as another process would. Without it the rules about two stores are
    skipped. Each rule closes its stores.
    """
    check_factory(make, "ChunkStore", "lambda: SqliteChunkStore(new_path())")
    if again is not None:
        check_factory(again, "ChunkStore", "lambda store: SqliteChunkStore(store.path)", "again")
    stores = Stores(make, again)
    kit = Kit(name or name_of(make), real_time=real_time, clean_up=stores.close)
    stores.make = kit.named(make)
    for rule, law, check in (*LAWS, *SEARCH_LAWS):
        kit.check(rule, law, partial(check, stores))
    for method, source in (("nearest", _nearest), ("put", _put), ("documents", _documents)):
        apply_rules(kit, Publisher(partial(source, stores), ahead=None), f"{method} ")
    return kit.report()


def _nearest(stores: Stores) -> Flow[object]:
    store = stores.new()
    return concat(cast("Flow[object]", store.open(INFO)), store.nearest([1, 0, 0, 0], 3))


def _put(stores: Stores) -> Flow[object]:
    store = stores.new()
    one = document("a.md")
    return concat(cast("Flow[object]", store.open(INFO)), store.put(one, batches(one, ["one two", "three"])))


def _documents(stores: Stores) -> Flow[object]:
    store = stores.new()
    source = cast("Flow[object]", store.open(INFO))
    for id in "abc":
        source = concat(source, store.put(document(id), batches(document(id), ["some text"])))
    return concat(source, store.documents())


# --- putting ----------------------------------------------------------------------------------------------------------


async def _stored(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("guide.md", title="A guide", digest="12ab", media_type="text/markdown", size=7)
    probe = await Probe().start(store.put(one, batches(one, ["alpha", "beta", "gamma"]), "reader 1")).end()
    expected = Indexed(document=one, chunks=3, fingerprint="reader 1")
    equal((probe.values, probe.completed), ([expected], True), "what put signals")
    equal(await _listed(store), [expected], "the documents")
    await whole(store, "guide.md", ["alpha", "beta", "gamma"])
    await put(store, document("empty.md"), [])
    equal([(each.document.id, each.chunks) for each in await _listed(store)], [("empty.md", 0), ("guide.md", 3)], "ids")


async def _round_trip(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    metadata = {"year": 2024, "price": 2.5, "draft": False, "language": "en", "喝": "咖啡"}
    one = document("a.pdf", title="Title", metadata=metadata)
    image = ImageBlock(Base64Source("image/png", "aGVsbG8="), min_pixels=3)
    chunks = [
        Chunk(document=one, number=0, text="a", start=0, end=1, page=3, headings=("One", "Two"), kind="code"),
        Chunk(document=one, number=1, text="", start=1, end=1, kind="image", image=image),
        Chunk(document=one, number=2, text="c", start=1, end=2, kind="table"),
    ]
    await store.put(one, from_iterable([[EmbeddedChunk(each, (1, 2, 3, float(each.number))) for each in chunks]]))
    equal(await store.between("a.pdf", 0, 9), tuple(chunks), "the chunks as they were put")
    equal([each.document for each in await _listed(store)], [one], "the document as it was put")
    found = await store.nearest([1, 2, 3, 1], 1)
    equal([each.chunk for each in found], [chunks[1]], "the chunk that is found")


async def _cold(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("a.md")
    adding, listing = store.put(one, batches(one, ["text"])), store.documents().pipe(ops.to_list())
    removing = store.remove(["a.md"])
    equal(await _listed(store), [], "the documents before put is subscribed to")
    await adding
    equal(len(await listing), 1, "the documents after it")
    equal(await removing, 1, "what the removal removed")
    await adding
    equal(len(await listing), 1, "the documents after a second subscription")


async def _replaced(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    old, new = ["old one", "old two", "old three"], ["new one", "new two"]
    await put(store, document("a.md"), old)
    await put(store, document("b.md"), ["other"])
    replacing = document("a.md", title="Anew")
    seen: list[object] = []

    async def while_it_runs() -> AsyncIterator[list[EmbeddedChunk]]:
        for each in embedded(replacing, new):
            yield [each]
            seen.append(await has(store, "a.md"))

    await store.put(replacing, from_async_iterable(while_it_runs))
    equal(seen, [old, old], "the chunks of the document while its new ones are written")
    await whole(store, "a.md", new)
    await whole(store, "b.md", ["other"])
    equal([each.document.title for each in await _listed(store)], ["Anew", ""], "the titles")
    await put(store, document("a.md"), [])
    await whole(store, "a.md", [])


async def _failed(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["old one", "old two"])

    async def failing(id: str) -> AsyncIterator[list[EmbeddedChunk]]:
        for each in embedded(document(id), ["new one", "new two"]):
            yield [each]
        raise ZeroDivisionError("the model broke")

    for id in ("a.md", "new.md"):
        await raises(store.put(document(id), from_async_iterable(partial(failing, id))), ZeroDivisionError, "put")
    equal([each.document.id for each in await _listed(store)], ["a.md"], "the documents after puts that failed")
    await whole(store, "a.md", ["old one", "old two"])
    await put(store, document("new.md"), ["new one"])
    await whole(store, "new.md", ["new one"])


async def _disposed(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["old one", "old two"])
    for turns in (0, 1, 2, 5, 20):
        for id in ("a.md", "new.md"):
            source = concat(batches(document(id), ["new one", "new two"]), never())
            probe = Probe().start(store.put(document(id), source))
            for _ in range(turns):
                await asyncio.sleep(0)
            require(not probe.over, f"put ended before its batches: {probe.text}")
            probe.dispose()
            await probe.end()
    equal([each.document.id for each in await _listed(store)], ["a.md"], "the documents after puts that were disposed")
    await whole(store, "a.md", ["old one", "old two"])
    await put(store, document("a.md"), ["new one"])
    await whole(store, "a.md", ["new one"])


class _Batch(Sequence[EmbeddedChunk]):
    """A batch that knows that it was read."""

    def __init__(self, chunk: EmbeddedChunk) -> None:
        self.chunk = chunk
        self.was_read = False

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: object) -> EmbeddedChunk:  # pyright: ignore[reportIncompatibleMethodOverride]
        if index not in (0, -1):
            raise IndexError(index)
        self.was_read = True
        return self.chunk


async def _back_pressure(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("a.md")
    given = [_Batch(each) for each in embedded(one, [f"text {n}" for n in range(20)])]
    early: list[int] = []

    async def one_by_one() -> AsyncIterator[Sequence[EmbeddedChunk]]:
        for number, batch in enumerate(given):
            early.extend(n for n, each in enumerate(given[:number]) if not each.was_read)
            yield batch

    await store.put(one, from_async_iterable(one_by_one))
    require(not early, f"a batch was asked for before batch {early[:1]} was written")
    equal(len(await store.between("a.md", 0, 99)), 20, "the chunks")


async def _refused(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["old"])
    one = document("a.md")
    chunk = chunks_of(one, ["new"])[0]
    good = EmbeddedChunk(chunk, (1, 0, 0, 0))
    for batch, what in (
        ([good, EmbeddedChunk(chunks_of(one, ["x", "y"])[1], (1, 0, 0))], "a vector of another length"),
        ([EmbeddedChunk(chunk, (float("nan"), 0, 0, 0))], "a vector with NaN"),
        ([good, good], "two chunks of one number"),
        ([EmbeddedChunk(chunks_of(document("b.md"), ["x"])[0], (1, 0, 0, 0))], "a chunk of another document"),
        ([cast("EmbeddedChunk", "text")], "a text"),
    ):
        await raises(store.put(one, from_iterable([batch])), InvalidInputError, f"put of {what}")
    for ids in ("a.md", [7], None):
        await raises(store.remove(cast("list[str]", ids)), InvalidInputError, f"remove({ids!r})")
    await whole(store, "a.md", ["old"])


# --- listing and removing ---------------------------------------------------------------------------------------------


async def _removed(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    equal(await store.remove(["a.md"]), 0, "what is removed from an empty store")
    for id in ("a.md", "b.md", "c.md"):
        await put(store, document(id), [f"text of {id}", "more"])
    equal(await store.remove(["a.md", "unknown", "c.md", "a.md", "\ud83d"]), 2, "the number of removed documents")
    equal(await store.remove([]), 0, "what the removal of no ids removes")
    await whole(store, "a.md", [])
    await whole(store, "b.md", ["text of b.md", "more"])
    equal([each.document.id for each in await _listed(store)], ["b.md"], "the documents that are left")
    found = await store.nearest([1, 1, 1, 1], 10)
    equal({each.chunk.document.id for each in found}, {"b.md"}, "the documents that are found")


async def _ordered(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    for id in ODD_IDS:
        await put(store, document(id), ["some text"])
    equal([each.document.id for each in await _listed(store)], sorted(ODD_IDS), "the ids, by their characters")
    for prefix in ("a", "%", "_", "a_", "喝", "z" * 900, "none", "'", "\ud83d"):
        ids = [each.document.id for each in await _listed(store, prefix)]
        equal(ids, sorted(id for id in ODD_IDS if id.startswith(prefix)), f"the ids that begin with {prefix!r:.20}")
    for id in ODD_IDS:
        await whole(store, id, ["some text"])


async def _left_early(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    for number in range(30):
        await put(store, document(f"{number:02}"), ["text"])
    ids: list[str] = []
    async for each in store.documents():
        ids.append(each.document.id)
        if len(ids) == 3:
            break
    equal(ids, ["00", "01", "02"], "the first documents")
    # a reader that stops keeps nothing locked
    await put(store, document("00"), ["new"])
    await whole(store, "00", ["new"])


async def _odd_texts(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("odd"), ODD_TEXTS)
    equal(await has(store, "odd"), list(ODD_TEXTS), "odd texts")
    # what UTF-8 or the database does not have may be replaced
    await put(store, document("halves"), ["half \ud83d", "\udc00", "a\x00b", "fine"])
    texts = await has(store, "halves")
    equal((len(texts), texts[-1:]), (4, ["fine"]), "texts with half characters")
    for text in texts:
        text.encode()


async def _between(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("a.md")
    numbered = [each for each in embedded(one, "abcdefgh") if each.chunk.number != 4]
    await store.put(one, from_iterable([numbered[3:], numbered[:3]]))
    for first, last, expected in ((0, 2, "abc"), (3, 6, "dfg"), (-5, 0, "a"), (7, 99, "h"), (4, 4, ""), (5, 3, "")):
        texts = "".join(each.text for each in await store.between("a.md", first, last))
        equal(texts, expected, f"the chunks from {first} to {last}")
    equal(await store.between("unknown", 0, 9), (), "the chunks of an unknown document")


# --- several at once --------------------------------------------------------------------------------------------------


async def _format(stores: Stores, dropped: DroppedErrors) -> None:
    store = stores.new()
    other = [IndexInfo(embedding="kit:other", dimensions=4), IndexInfo(embedding="kit:test", dimensions=3)]
    for info in (*other, INFO, INFO):
        equal(await store.open(info), info, "what an empty store is opened as")
    await put(store, document("a.md"), ["text"])
    for info in other:
        await raises(store.open(info), KnowledgeFormatError, f"open as {info}")
    await whole(store, "a.md", ["text"])
    await store.remove(["a.md"])
    equal(await store.open(other[0]), other[0], "what a store is opened as when it is empty again")


async def _again(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["one", "two"])
    other = stores.another(store)
    equal(await other.open(INFO), INFO, "what another store on this place is opened as")
    await whole(other, "a.md", ["one", "two"])
    for number, (writer, reader) in enumerate([(store, other), (other, store), (store, other)]):
        await put(writer, document("a.md"), [f"new {number}"])
        await put(writer, document(f"b{number}"), ["added"])
        await whole(reader, "a.md", [f"new {number}"])
        await whole(reader, f"b{number}", ["added"])
        equal(await reader.remove([f"b{number}"]), 1, "what the other one removes")
        await whole(writer, f"b{number}", [])
    await store.close()
    await whole(other, "a.md", ["new 2"])


async def _reopened(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["one", "two"])
    probe = Probe().start(store.put(document("b.md"), concat(batches(document("b.md"), ["half"]), never())))
    for _ in range(20):
        await asyncio.sleep(0)
    probe.dispose()
    await probe.end()
    await store.close()
    other = stores.another(store)
    await raises(other.open(IndexInfo(embedding="kit:other", dimensions=4)), KnowledgeFormatError, "open")
    equal(await other.open(INFO), INFO, "what the store is opened as")
    await whole(other, "a.md", ["one", "two"])
    await whole(other, "b.md", [])


async def _closed(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["one"])
    for _ in range(2):
        probe = await Probe().start(store.close()).end()
        equal((probe.values, probe.completed), ([None], True), "what close signals")
    if stores.again is None:
        await store.open(INFO)
    await put(store, document("b.md"), ["two"])
    await whole(store, "a.md", ["one"])
    await whole(store, "b.md", ["two"])


async def _concurrent(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    versions = [[f"version {n} part {part}" for part in range(n + 1)] for n in range(6)]

    async def slowly(one: Document, texts: Sequence[str]) -> AsyncIterator[list[EmbeddedChunk]]:
        for each in embedded(one, texts):
            await asyncio.sleep(0)
            yield [each]

    def putting(id: str, texts: Sequence[str]) -> Flow[Indexed]:
        return store.put(document(id), from_async_iterable(partial(slowly, document(id), texts)))

    same = [putting("same.md", texts) for texts in versions]
    others = [putting(f"{n}.md", texts) for n, texts in enumerate(versions)]
    await asyncio.gather(*same, *others)
    texts = await has(store, "same.md")
    require(texts in versions, f"after puts of six versions at once the document has {texts!r:.300}")
    await whole(store, "same.md", texts)
    for number, each in enumerate(versions):
        await whole(store, f"{number}.md", each)


async def _threads(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()

    def work(number: int) -> int:
        one = document(f"{number}.md")
        store.put(one, batches(one, ["alpha", f"beta{number}"])).run()
        return len(store.nearest([1, 0, 0, 0], 3).run()) + len(store.matching(f"beta{number}", 3).run())

    loop = asyncio.get_running_loop()
    counts = await asyncio.gather(*(loop.run_in_executor(None, work, number) for number in range(4)))
    require(all(each >= 3 for each in counts), f"threads found {counts} chunks")
    for number in range(4):
        await whole(store, f"{number}.md", ["alpha", f"beta{number}"])


async def _left(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    await put(store, document("a.md"), ["alpha one", "beta two"])
    one = document("b.md")
    flows: list[Flow[object]] = [
        cast("Flow[object]", store.nearest([1, 0, 0, 0], 3)),
        cast("Flow[object]", store.matching("alpha", 3)),
        cast("Flow[object]", store.documents()),
        cast("Flow[object]", store.between("a.md", 0, 1)),
        cast("Flow[object]", store.put(one, batches(one, ["gamma"]))),
        cast("Flow[object]", store.remove(["unknown"])),
    ]
    for turns in range(4):
        for each in flows:
            probe = Probe().start(each)
            for _ in range(turns):
                await asyncio.sleep(0)
            if not probe.over:
                probe.dispose()
            await probe.end()
            probe.verify()
    await whole(store, "a.md", ["alpha one", "beta two"])
    for each in flows:
        probe = await Probe().start(each).end()
        require(probe.completed, f"after operations that were left another one ended so: {probe.text}")
    texts = await has(store, "b.md")
    require(texts in ([], ["gamma"]), f"a put that was left has stored {texts}")


async def _listed(store: ChunkStore, prefix: str = "") -> list[Indexed]:
    return [each async for each in store.documents(prefix)]


LAWS: tuple[tuple[str, str, Callable[[Stores, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("stored", "put emits the document when all of it can be found; one without chunks is listed, too", _stored),
    (
        "round trip",
        "chunks and documents are read as they were put, with pages, headings, kinds and images",
        _round_trip,
    ),
    ("cold", "an operation takes place at each subscription, and not before", _cold),
    ("replaced", "the old chunks are there until put has completed, and then only the new ones", _replaced),
    ("failed", "after an error of the batches the document is as it was", _failed),
    ("disposed", "after a disposal of put the document is as it was", _disposed),
    ("back-pressure", "a batch is asked for when the one before is written", _back_pressure),
    ("refused", "an invalid batch, vector or id is an InvalidInputError, and changes nothing", _refused),
    ("removed", "remove removes these documents and no others, and counts them", _removed),
    ("ordered", "documents come in the order of their ids; a prefix is taken as it is", _ordered),
    ("left early", "documents can be left before the last one", _left_early),
    ("odd texts", "any text can be stored", _odd_texts),
    ("between", "between gives the chunks of these numbers in order", _between),
    ("format", "an empty store takes any kind of vectors, another one only its own", _format),
    ("again", "two stores on one place see each other's changes at once", _again),
    ("reopened", "what was put is there when the place is opened again, and nothing half-written", _reopened),
    ("closed", "a store can be closed twice, and used again", _closed),
    ("concurrent", "of puts at the same time each is whole; of one document the last one is there", _concurrent),
    ("threads", "puts and searches from several threads and loops are all done", _threads),
    ("left", "an operation that is left at any point leaves a store that works on", _left),
)
