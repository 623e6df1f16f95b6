"""The points of a `QdrantChunkStore`, on one loop.

| collection               | a point                                                                              |
|--------------------------|--------------------------------------------------------------------------------------|
| `<collection>`           | a chunk, with the `version` of its document; vectors `meaning` and `words` (sparse)  |
| `<collection>_documents` | a document with its current version; work that has begun; the stamp; the model       |

Qdrant has no transactions, and replaces one point in one step. So a document is visible by one point:

    put     work begun   chunks of a new version   new stamp   document -> new version   old chunks removed   work ended
    search  stamp?       chunks, best first        versions of their documents?   stamp?

A search drops the chunks of other versions than the current ones. If the stamp has changed meanwhile, a document that
was found may have been written in the middle of it; then it searches again. What a process that was killed leaves are
chunks of a version that is not current, which no search returns, and a note of its work: `open` removes both later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import NAMESPACE_OID, uuid4, uuid5

from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from agentscope_rx.errors import KnowledgeFormatError, KnowledgeStorageError
from agentscope_rx.knowledge.store import IndexInfo
from agentscope_rx.knowledge.stores.arguments import refuse_other
from agentscope_rx.knowledge.stores.qdrant_filters import any_of

FORMAT = 1
STALE_SECONDS = 3600.0
"""Work that was begun so long ago belongs to a process that has ended."""
_RETRYABLE = (408, 429, 500, 502, 503, 504)
_PAGE = 256


def point_id(*parts: object) -> str:
    """The id of the point that is named so."""
    return str(uuid5(NAMESPACE_OID, "\x1f".join(map(str, parts))))


_INFO, _STAMP = point_id("info"), point_id("stamp")


def is_local(client: AsyncQdrantClient) -> bool:
    """True if the client has its points in this process: such a one has no indexes, and warns of what is for them."""
    return client.init_options.get("location") == ":memory:" or client.init_options.get("path") is not None


class QdrantPoints:
    """The two collections. It belongs to the loop that it is made on."""

    def __init__(self, name: str, collection: str, make: Callable[[], AsyncQdrantClient]) -> None:
        self.name: str = name
        self.chunks: str = collection
        self.manifests: str = f"{collection}_documents"
        self._make = make
        self._client: AsyncQdrantClient | None = None

    @contextmanager
    def using(self) -> Generator[AsyncQdrantClient]:
        """The client; the block's errors are raised as ours."""
        try:
            if self._client is None:
                self._client = self._make()
            yield self._client
        except UnexpectedResponse as error:
            reason = f"status {error.status_code}: {error.reason_phrase}"
            raise self.error(reason, retryable=error.status_code in _RETRYABLE) from error
        except ApiException as error:
            raise self.error(f"the connection failed: {error}", retryable=True) from error
        except RuntimeError as error:
            # (local mode; a folder that is in use)
            raise self.error(str(error), retryable="already accessed" in str(error)) from error
        except (OSError, ValueError) as error:
            raise self.error(f"{type(error).__name__}: {error}") from error

    def error(self, reason: str, *, retryable: bool = False) -> KnowledgeStorageError:
        """An error of this store."""
        return KnowledgeStorageError(self.name, reason.rstrip("."), retryable=retryable)

    async def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    # --- the model and the stamp --------------------------------------------------------------------------------------

    async def info(self) -> IndexInfo | None:
        """What the vectors are made with, None before the first `open`."""
        return (await self.begin())[0]

    async def begin(self) -> tuple[IndexInfo | None, str]:
        """What the vectors are made with, and the stamp."""
        with self.using() as client:
            if not await client.collection_exists(self.manifests):
                return None, ""
            found = await self._payloads([_INFO, _STAMP])
        stamp = found.get(_STAMP, {}).get("stamp", "")
        if (info := found.get(_INFO)) is None:
            return None, stamp
        if info["format"] != FORMAT:
            what = f"it has format {info['format']}, this version of agentscope-rx knows {FORMAT}."
            raise KnowledgeFormatError(self.name, what)
        return IndexInfo(embedding=info["embedding"], dimensions=info["dimensions"]), stamp

    async def stamp(self) -> str:
        """A text that is another one whenever a document has changed."""
        with self.using():
            return (await self._payloads([_STAMP])).get(_STAMP, {}).get("stamp", "")

    async def new_stamp(self) -> None:
        """Make searches that are in progress look again."""
        await self.note(_STAMP, {"kind": "stamp", "stamp": uuid4().hex})

    async def open(self, wanted: IndexInfo) -> IndexInfo:
        """Make the store one of these vectors, unless it has others; remove what killed processes have left."""
        has = await self.info()
        with self.using() as client:
            if has != wanted:
                if not await client.collection_exists(self.manifests):
                    await client.create_collection(self.manifests, vectors_config={})
                    await self._index(self.manifests, "kind", "document")
                if has is not None and (await client.count(self.manifests, count_filter=_kind("document"))).count:
                    refuse_other(self.name, has, wanted)
                await client.delete_collection(self.chunks)
                await self._make_chunks(client, wanted.dimensions)
                values = {"format": FORMAT, "embedding": wanted.embedding, "dimensions": wanted.dimensions}
                await self.note(_INFO, {"kind": "info", **values})
        await self._sweep()
        return wanted

    async def _make_chunks(self, client: AsyncQdrantClient, dimensions: int) -> None:
        await client.create_collection(
            self.chunks,
            # the vectors have length 1, and one of zeros stays as it is
            vectors_config={"meaning": models.VectorParams(size=dimensions, distance=models.Distance.DOT)},
            sparse_vectors_config={"words": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )
        await self._index(self.chunks, "document", "version", "facts")

    async def _index(self, collection: str, *fields: str) -> None:
        with self.using() as client:
            if not is_local(client):
                for each in fields:
                    await client.create_payload_index(collection, each, models.PayloadSchemaType.KEYWORD, wait=True)

    # --- documents ----------------------------------------------------------------------------------------------------

    async def documents(self, ids: Sequence[str]) -> Mapping[str, dict[str, Any]]:
        """The documents with these ids, by their ids."""
        found = await self._payloads([point_id("document", each) for each in ids])
        return {each["document"]: each for each in found.values()}

    async def show(self, document: str, values: Mapping[str, object]) -> None:
        """Make this the document; its version is the one that searches return."""
        await self.note(point_id("document", document), {"kind": "document", "document": document, **values})

    async def hide(self, ids: Sequence[str]) -> None:
        """Make these documents invisible."""
        await self.forget([point_id("document", each) for each in ids])

    async def note(self, id: str, values: Mapping[str, object]) -> None:
        """Write a point of the collection of documents."""
        point = models.PointStruct(id=id, vector={}, payload=dict(values))
        with self.using() as client:
            await client.upsert(self.manifests, points=[point], wait=True)

    async def forget(self, ids: Sequence[str]) -> None:
        """Remove points of the collection of documents."""
        with self.using() as client:
            await client.delete(self.manifests, points_selector=models.PointIdsList(points=list(ids)), wait=True)

    async def listed(self, extra: Sequence[models.Condition] = (), kind: str = "document") -> list[dict[str, Any]]:
        """The points of this kind, in any order."""
        found: list[dict[str, Any]] = []
        offset = None
        with self.using() as client:
            while True:
                page, offset = await client.scroll(
                    self.manifests, scroll_filter=_kind(kind, extra), limit=_PAGE, offset=offset, with_payload=True
                )
                found += [cast("dict[str, Any]", each.payload) for each in page]
                if offset is None:
                    return found

    async def _payloads(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        with self.using() as client:
            for start in range(0, len(ids), _PAGE):
                page = await client.retrieve(self.manifests, ids=list(ids[start : start + _PAGE]), with_payload=True)
                found |= {str(each.id): cast("dict[str, Any]", each.payload) for each in page}
        return found

    # --- work ---------------------------------------------------------------------------------------------------------

    async def begin_work(self, document: str, version: str = "") -> str:
        """Note that chunks of this version are written, or that the document is removed; returns the id of the note.

        Chunks of a version that is noted are not removed as leftovers, and what is noted is cleaned by `open` later.
        """
        id = point_id("work", document, version)
        await self._note_work(id, document, version)
        return id

    async def _note_work(self, id: str, document: str, version: str) -> None:
        values = {"document": document, "version": version, "at": time.time(), "id": id}
        await self.note(id, {"kind": "work", **values})

    async def is_noted(self, work: str, version: str) -> bool:
        """False if another process has taken the work for one that was left behind."""
        return (await self._payloads([work])).get(work, {}).get("version") == version

    async def end_work(self, work: str, document: str, ended: str = "", replaced: Sequence[str] | None = None) -> None:
        """Remove what the work has replaced, or what it has left. `replaced` are the ids of all chunks that it has
        replaced; they are sought if it is None, and if others work on the document."""
        noted = await self.listed([any_of("document", [document])], "work")
        contested = any(each["id"] != work or each.get("contested") for each in noted)
        for each in noted:
            if each["id"] != work:
                # (it may replace this version, and not know)
                await self.note(each["id"], {**each, "contested": True})
        if replaced is None or contested:
            await self.clean(document, ended)
        else:
            with self.using() as client:
                for start in range(0, len(replaced), _PAGE):
                    gone = models.PointIdsList(points=list(replaced[start : start + _PAGE]))
                    await client.delete(self.chunks, points_selector=gone, wait=True)
        await self.forget([work])

    async def clean(self, document: str, ended: str = "") -> None:
        """Remove the chunks of this document that belong to no version that is current or being written.

        `ended` is a version that is not written any more, though it is noted.
        """
        of_document = models.FieldCondition(key="document", match=models.MatchValue(value=document))
        kept: set[str] = set()
        with self.using() as client:
            while True:
                others = [any_of("version", sorted(kept))] if kept else []
                wanted = models.Filter(must=[of_document], must_not=list[models.Condition](others))
                page, _ = await client.scroll(self.chunks, scroll_filter=wanted, limit=1, with_payload=["version"])
                if not page:
                    return
                version = str((page[0].payload or {})["version"])
                # (in this order: one that ends its work has made its version the current one before)
                work = await self.listed([any_of("document", [document])], "work")
                shown = (await self.documents([document])).get(document)
                keep = {str(each["version"]) for each in work} - {ended}
                keep |= {str(shown["version"])} if shown else set()
                kept |= keep
                if version not in keep:
                    gone = models.Filter(must=[any_of("version", [version])])
                    await client.delete(self.chunks, points_selector=models.FilterSelector(filter=gone), wait=True)

    async def _sweep(self) -> None:
        for each in await self.listed(kind="work"):
            if each["at"] < time.time() - STALE_SECONDS:
                # (without its version, so that the process ends its work if it goes on after all)
                await self._note_work(each["id"], each["document"], "")
                await self.end_work(each["id"], each["document"])


def _kind(kind: str, extra: Sequence[models.Condition] = ()) -> models.Filter:
    return models.Filter(must=[any_of("kind", [kind]), *extra])
