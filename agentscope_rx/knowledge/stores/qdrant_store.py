"""`QdrantChunkStore`: chunks in Qdrant, on a server or in this process. It needs the extra `qdrant`."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from os import PathLike, fspath
from os.path import abspath, expanduser
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.errors.text import encodable, is_encodable
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_ids, check_info, check_limit, check_text
from agentscope_rx.knowledge.stores.best import Best
from agentscope_rx.knowledge.stores.sparse import index_words, query_words
from agentscope_rx.knowledge.stores.spool import Spool, put_spooled
from agentscope_rx.knowledge.where import Where, check_where
from agentscope_rx.reactive import Flow, defer, from_async_iterable, just, shield
from agentscope_rx.session.server_client import TIMEOUT, ServerClient, check_timeout

try:
    from qdrant_client import AsyncQdrantClient

    from agentscope_rx.knowledge.stores import qdrant_rows
    from agentscope_rx.knowledge.stores.qdrant_points import QdrantPoints
except ModuleNotFoundError as _error:
    raise MissingExtraError(_error.name or "qdrant_client", "qdrant") from _error

if TYPE_CHECKING:
    Place = str | PathLike[str] | Callable[[], AsyncQdrantClient]

COLLECTION = "knowledge"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SERVER = re.compile(r"[\w.-]+:\d+/?|(?!https?://)[a-z]+://.*", re.I | re.S)
"""A server without http://, which would be taken for a folder."""
_PAGE = 256


class QdrantChunkStore(ChunkStore):
    """Keeps chunks in Qdrant: `QdrantChunkStore("http://localhost:6333")`. Extra `qdrant`.

    The place is the URL of a server, the path of a folder or ":memory:" (Qdrant's local mode, for one process and some
    thousand chunks), or a function that makes the client, which `close` closes. A search compares with each vector and
    is exact; with `index="hnsw"` it takes less time, and misses some. The laws are not promised for a cluster with
    replicas. `timeout` are the seconds of one request to a server.
    """

    def __init__(
        self,
        place: Place,
        *,
        collection: str = COLLECTION,
        api_key: str | None = None,
        index: Literal["exact", "hnsw"] = "exact",
        timeout: float = TIMEOUT,
    ) -> None:
        check_timeout(timeout)
        if not isinstance(collection, str) or not _NAME.fullmatch(collection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"collection must be letters, digits, _ and -, and not {collection!r:.60}.")
        if index not in ("exact", "hnsw"):
            raise ConfigurationError(f"index must be 'exact' or 'hnsw', not {index!r:.60}.")
        server, make = _client_of(place, api_key, timeout)
        self._exact = index == "exact"
        self._name = name = f"{collection} in {server}"
        # (no reference to this object: it is closed when this is garbage)
        self._points = ServerClient(
            lambda: QdrantPoints(name, collection, make), QdrantPoints.close, f"chunks in {server}"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        def begin() -> Flow[IndexInfo]:
            wanted = check_info(info)
            return self._points.change("", lambda points: points.open(wanted))

        return defer(begin)

    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        return put_spooled(
            self._points.look(QdrantPoints.info),
            lambda info: Spool(document, info, lambda text: index_words(text).pack()),
            batches,
            lambda spool: self._points.change(
                document.id, partial(qdrant_rows.replace, spool=spool, fingerprint=encodable(fingerprint))
            ),
        )

    def remove(self, ids: Sequence[str]) -> Flow[int]:
        def begin() -> Flow[int]:
            given = [each for each in check_ids(ids) if is_encodable(each)]
            return shield(self._points.look(partial(qdrant_rows.remove, ids=given))) if given else just(0)

        return defer(begin)

    def documents(self, prefix: str = "") -> Flow[Indexed]:
        """As the port has it. Qdrant orders no texts: the ids are read first, the documents as there is demand."""

        async def pages() -> AsyncIterator[Indexed]:
            ids = await self._points.look(partial(qdrant_rows.names, prefix=prefix))
            for start in range(0, len(ids), _PAGE):
                page = partial(qdrant_rows.documents, ids=ids[start : start + _PAGE])
                for each in await self._points.look(page):
                    yield each

        return from_async_iterable(pages)

    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "similarity")
            work = partial(qdrant_rows.nearest, vector=vector, best=best, where=where, exact=self._exact)
            return self._points.look(work)

        return defer(search)

    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        def search() -> Flow[tuple[Found, ...]]:
            best = Best(check_limit(limit), check_where(where), "relevance")
            words = query_words(check_text(text))
            if not words:
                return just(())
            return self._points.look(partial(qdrant_rows.matching, words=words, vector=vector, best=best, where=where))

        return defer(search)

    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        if not is_encodable(document_id):
            return just(())
        return self._points.look(partial(qdrant_rows.between, id=document_id, first=first, last=last))

    def close(self) -> Flow[None]:
        """Close the client, when the work that has begun has ended. The next use makes another one."""
        return self._points.close()


def _client_of(place: Place, api_key: str | None, timeout: float) -> tuple[str, Callable[[], AsyncQdrantClient]]:
    """The place without its secrets, and what makes its client."""
    if callable(place):
        return "Qdrant", place
    text = fspath(place)
    if not isinstance(text, str) or not text.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError("QdrantChunkStore needs the URL of a server, the path of a folder or ':memory:'.")
    if text == ":memory:":
        return "memory", lambda: AsyncQdrantClient(":memory:")
    if _SERVER.fullmatch(text):
        # (without it, as below)
        raise ConfigurationError("This is no folder. Give a Qdrant server with http://, as 'http://localhost:6333'.")
    if not text.lower().startswith(("http://", "https://")):
        # (a program that changes its working folder goes on with the same one)
        path = abspath(expanduser(text))
        return path, lambda: AsyncQdrantClient(path=path)
    try:
        parts = urlsplit(text)
        server = f"{parts.scheme}://{parts.hostname}:{parts.port or 6333}"
    except ValueError:
        # (without the URL, which may have a password)
        raise ConfigurationError("This is no URL of a Qdrant server, such as 'http://localhost:6333'.") from None

    def make() -> AsyncQdrantClient:
        seconds = max(1, round(timeout))
        return AsyncQdrantClient(url=text, api_key=api_key, timeout=seconds, check_compatibility=False)

    return server, make
