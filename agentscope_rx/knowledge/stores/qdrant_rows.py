"""What a `QdrantChunkStore` reads and writes; `qdrant_points` has the order in which this is done."""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import fsum
from operator import mul
from typing import Any, cast
from uuid import uuid4

from qdrant_client import models

from agentscope_rx.knowledge.document import Chunk, Document
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import Indexed
from agentscope_rx.knowledge.stores.arguments import check_vector, refuse_other
from agentscope_rx.knowledge.stores.best import Best, rounded
from agentscope_rx.knowledge.stores.qdrant_filters import facts_of, filter_of, numbers_of
from agentscope_rx.knowledge.stores.qdrant_points import QdrantPoints, is_local, point_id
from agentscope_rx.knowledge.stores.records import chunk_of, document_of, document_record, fields_of
from agentscope_rx.knowledge.stores.sparse import Sparse
from agentscope_rx.knowledge.stores.spool import Row, Spool, opened, unit_floats
from agentscope_rx.knowledge.where import Prefix, Where
from agentscope_rx.reactive.kernel.dropped import report_dropped

_BATCH = 128
"""The chunks of one request."""
_TRIES = 50
"""How often a search begins again while documents change."""

Points = Sequence[models.ScoredPoint]


async def replace(points: QdrantPoints, spool: Spool, fingerprint: str) -> Indexed:
    """Put the document with these rows in the place of the one that is there."""
    document = spool.document
    refuse_other(points.name, opened(await points.info()), spool.info)
    version = uuid4().hex
    work = await points.begin_work(document.id, version)
    replaced: list[str] | None = None
    try:
        old = (await points.documents([document.id])).get(document.id)
        last = await _write(points, spool, version)
        if not await points.is_noted(work, version):
            raise points.error("the put took too long, and another process has removed its chunks", retryable=True)
        refuse_other(points.name, opened(await points.info()), spool.info)
        now = (await points.documents([document.id])).get(document.id)
        # (the stamp first: a search that sees the new version sees the new stamp)
        await points.new_stamp()
        values = {"version": version, "chunks": spool.count, "last": last, "fingerprint": fingerprint}
        facts = facts_of(fields_of(document))
        await points.show(document.id, {**values, "record": document_record(document).decode(), "facts": facts})
        replaced = _ids(old) if old == now else None
    finally:
        await _end(points, work, document.id, version, replaced)
    return Indexed(document=document, chunks=spool.count, fingerprint=fingerprint)


async def _end(
    points: QdrantPoints, work: str, document: str, version: str = "", replaced: Sequence[str] | None = None
) -> None:
    """End the work. `open` does it later if this fails: the document is visible, or it is not."""
    try:
        await points.end_work(work, document, version, replaced)
    except Exception as error:
        report_dropped(error, f"removing old chunks of {points.name}")


def _ids(shown: Mapping[str, Any] | None) -> list[str]:
    """The ids of the chunks of a document as it is shown."""
    return [point_id(shown["version"], number) for number in range(shown["last"] + 1)] if shown else []


async def _write(points: QdrantPoints, spool: Spool, version: str) -> int:
    fields = fields_of(spool.document)
    record = document_record(spool.document).decode()
    batch: list[models.PointStruct] = []
    last = -1

    async def write() -> None:
        with points.using() as client:
            await client.upsert(points.chunks, points=batch, wait=True)

    for row in spool.rows():
        last = max(last, row.number)
        own = {name: each for name, each in fields.items() if name != "page"} | {"section": row.kind}
        own |= {} if row.page is None else {"page": row.page}
        payload = {
            "document": spool.document.id,
            "version": version,
            "number": row.number,
            "record": record,
            "chunk": row.record.decode(),
            "facts": facts_of(own),
            "numbers": numbers_of(own),
        }
        batch.append(models.PointStruct(id=point_id(version, row.number), vector=_vectors(row), payload=payload))
        if len(batch) == _BATCH:
            await write()
            batch.clear()
    if batch:
        await write()
    return last


def _vectors(row: Row) -> Any:
    words = Sparse.unpack(row.words)
    sparse = models.SparseVector(indices=list(words.words), values=list(words.weights))
    return {"meaning": array("f", row.vector).tolist()} | ({"words": sparse} if words.words else {})


async def remove(points: QdrantPoints, ids: Sequence[str]) -> int:
    """Remove these documents; returns how many there were."""
    if await points.info() is None:
        return 0
    found = await points.documents(ids)
    if found:
        work = {each: await points.begin_work(each) for each in found}
        await points.new_stamp()
        await points.hide(list(found))
        for each in found:
            await _end(points, work[each], each, replaced=_ids(found[each]))
    return len(found)


async def names(points: QdrantPoints, prefix: str) -> list[str]:
    """The ids of the documents that begin so, in order."""
    if await points.info() is None:
        return []
    folder = prefix[: prefix.rfind("/") + 1]
    narrowed = filter_of({"document_id": Prefix(folder)}, []).must if folder else []
    found = await points.listed(cast("list[models.Condition]", narrowed))
    return sorted(str(each["document"]) for each in found if each["document"].startswith(prefix))


async def documents(points: QdrantPoints, ids: Sequence[str]) -> Sequence[Indexed]:
    """These documents, in this order; those that are not there any more are left out."""
    found = await points.documents(ids)
    return [
        Indexed(document=document_of(each["record"]), chunks=each["chunks"], fingerprint=each["fingerprint"])
        for id in ids
        if (each := found.get(id)) is not None
    ]


async def between(points: QdrantPoints, id: str, first: int, last: int) -> tuple[Chunk, ...]:
    """The chunks of this document with these numbers."""
    if await points.info() is None:
        return ()
    for _ in range(_TRIES):
        shown = (await points.documents([id])).get(id)
        if shown is None:
            return ()
        version, numbers = shown["version"], range(max(0, first), min(last, shown["last"]) + 1)
        chunks: list[Chunk] = []
        with points.using() as client:
            for start in range(0, len(numbers), _BATCH):
                wanted = [point_id(version, number) for number in numbers[start : start + _BATCH]]
                page = await client.retrieve(points.chunks, ids=list(wanted), with_payload=["chunk"])
                chunks += [_chunk(document_of(shown["record"]), each.payload) for each in page]
        again = (await points.documents([id])).get(id)
        if again is not None and again["version"] == version:
            return tuple(sorted(chunks, key=lambda each: each.number))
    raise _restless(points)


# --- searching --------------------------------------------------------------------------------------------------------


async def nearest(
    points: QdrantPoints, vector: Sequence[float], best: Best, where: Where | None, *, exact: bool
) -> tuple[Found, ...]:
    """The chunks with the greatest cosine similarity."""
    info, stamp = await points.begin()
    if info is None:
        return ()
    wanted = unit_floats(check_vector(vector, info.dimensions)).tolist()

    async def search(stale: Sequence[str]) -> Points:
        with points.using() as client:
            answer = await client.query_points(
                points.chunks,
                query=wanted,
                using="meaning",
                query_filter=filter_of(where, stale),
                search_params=None if is_local(client) else models.SearchParams(exact=exact),
                limit=best.ask,
                with_payload=["document", "version", "record", "chunk"],
            )
        return answer.points

    def found(point: models.ScoredPoint) -> Found:
        return Found(chunk=_found_chunk(point), similarity=rounded(point.score))

    return await _settled(points, stamp, best, search, found)


async def matching(
    points: QdrantPoints, words: Sequence[int], vector: Sequence[float] | None, best: Best, where: Where | None
) -> tuple[Found, ...]:
    """The chunks with the greatest BM25 of the words."""
    info, stamp = await points.begin()
    if info is None:
        return ()
    wanted = None if vector is None else unit_floats(check_vector(vector, info.dimensions))
    query = models.SparseVector(indices=list(words), values=[1.0] * len(words))

    async def search(stale: Sequence[str]) -> Points:
        with points.using() as client:
            answer = await client.query_points(
                points.chunks,
                query=query,
                using="words",
                query_filter=filter_of(where, stale),
                limit=best.ask,
                with_payload=["document", "version", "record", "chunk"],
                with_vectors=["meaning"] if wanted is not None else False,
            )
        return answer.points

    def found(point: models.ScoredPoint) -> Found:
        own = cast("dict[str, list[float]]", point.vector or {}).get("meaning")
        cosine = None if wanted is None or own is None else rounded(fsum(map(mul, wanted, own)))
        return Found(chunk=_found_chunk(point), relevance=round(point.score, 6), similarity=cosine)

    return await _settled(points, stamp, best, search, found)


async def _settled(
    points: QdrantPoints,
    stamp: str,
    best: Best,
    search: Callable[[Sequence[str]], Awaitable[Points]],
    found: Callable[[models.ScoredPoint], Found],
) -> tuple[Found, ...]:
    """The best of a search that no change of a document has come between."""
    stale: set[str] = set()
    known: dict[str, str | None] = {}
    for _ in range(_TRIES):
        answer = await search(sorted(stale))
        ids = {str((each.payload or {})["document"]) for each in answer}
        shown = await points.documents(sorted(ids))
        versions = {id: str(shown[id]["version"]) if id in shown else None for id in ids}
        after = await points.stamp()
        # (a version that was current before the search and after it was so all the time: each is there once)
        steady = after == stamp or (not stale and all(known.get(id, "") == versions[id] for id in ids))
        if after != stamp:
            stale.clear()
        stamp, known = after, versions
        if not steady:
            continue
        payloads = [each.payload or {} for each in answer]
        gone = {str(each["version"]) for each in payloads if versions[each["document"]] != each["version"]}
        stale |= gone
        if gone and len(answer) == best.ask:
            continue
        current = [found(each) for each in answer if (each.payload or {})["version"] not in gone]
        if (result := best.take(current, all=len(answer) < best.ask)) is not None:
            return result
    raise _restless(points)


def _restless(points: QdrantPoints) -> Exception:
    return points.error("its documents changed all the time", retryable=True)


def _found_chunk(point: models.ScoredPoint) -> Chunk:
    payload = point.payload or {}
    return _chunk(document_of(payload["record"]), payload)


def _chunk(document: Document, payload: dict[str, Any] | None) -> Chunk:
    return chunk_of(document, (payload or {})["chunk"])
