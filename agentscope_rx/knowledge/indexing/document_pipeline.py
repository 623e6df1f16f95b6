"""`DocumentPipeline`: one document from its bytes to the store, as a stream with back-pressure.

    digest -> Reader.read |> Chunker.chunk |> batches |> embed (one batch ahead) -> digest again     into ChunkStore.put

The store asks for a batch when it has written the one before, so that a document of any size takes the memory of a few
batches. It becomes visible when `put` ends. A file that was changed while it was read is not stored: what would be
found is not what its digest says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from agentscope_rx.errors import (
    AgentScopeError,
    BadRequestError,
    DamagedDocumentError,
    DocumentError,
    DocumentTooLargeError,
    InvalidInputError,
    MissingExtraError,
    PromptTooLongError,
    UnsupportedDocumentError,
)
from agentscope_rx.errors.text import encodable
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.document import Chunk, Document, DocumentSource, EmbeddedChunk, Metadata
from agentscope_rx.knowledge.indexing.folder_walk import digest_of, stamp_of
from agentscope_rx.knowledge.indexing.reader_table import ReaderTable
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.store import ChunkStore, Indexed
from agentscope_rx.models.embedding import EmbeddingInput, EmbeddingModel, Embeddings
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    flat_map_iterable,
    on_worker,
    then,
    throw,
)

T = TypeVar("T")

VERSION: Final = 1
"""Part of each fingerprint: documents are indexed again by a version that makes other chunks of them."""
_OF_THE_INPUT: Final = (InvalidInputError, BadRequestError, PromptTooLongError)
"""Errors of an embedding model that other documents do not have."""

OnBatch = Callable[[str, int, int, int], None]
"""Called with a document, how far it is embedded (characters), and the chunks and tokens of a batch."""


class VanishedError(Exception):
    """The file is not there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPipeline:
    """Indexes documents with these parts. `metadata(id)` gives what searches can filter by."""

    store: ChunkStore
    embedding: EmbeddingModel
    readers: ReaderTable
    chunker: Chunker
    batch_size: int
    max_bytes: int
    metadata: Callable[[str], Metadata] | None = None

    def fingerprint(self, document: Document, name: str, origin: str) -> str:
        """What the chunks of a document depend on beside its content, and if a folder or a caller has given it."""
        reader = self.readers.of(document.id, name, document.media_type)
        model = f"{self.embedding.provider}:{self.embedding.model_name}"
        return " | ".join((f"{origin} {VERSION}", reader.fingerprint, self.chunker.fingerprint, model))

    def described(self, id: str, size: int, name: str) -> Document:
        """A file as a document, without its digest."""
        media_type = guess_type(name, strict=False)[0] or ""
        metadata: Metadata = {} if self.metadata is None else self.metadata(id)
        return Document(id=id, title=PurePosixPath(name).stem, media_type=media_type, size=size, metadata=metadata)

    def index_file(
        self, document: Document, path: Path, name: str, origin: str, on_batch: OnBatch, root: Path | None = None
    ) -> Flow[Indexed]:
        """Store the document of a file; `name` chooses its reader, `root` is the folder that it must be in.

        Signals: the document, once it is visible; a `DocumentError`, `VanishedError`; errors of the model and the
        store.
        Cancels: all of it; what the store had of the document stays.
        """

        def begin() -> Flow[Indexed]:
            reader = self.readers.of(document.id, name, document.media_type)
            if document.size > self.max_bytes:
                return throw(self._too_large(document, document.size))
            digesting = on_worker(partial(_reading, document.id, lambda: digest_of(path, root)), ENGINE_WORKERS)
            return digesting.pipe(concat_map(lambda found: index(reader, *found)))

        def index(reader: Reader, digest: str, stamp: tuple[int, int, int, int, int]) -> Flow[Indexed]:
            if stamp[2] > self.max_bytes:
                return throw(self._too_large(document, stamp[2]))
            source = DocumentSource(document=replace(document, digest=digest, size=stamp[2]), path=path, root=root)

            def unchanged() -> None:
                if digest_of(path, root) != (digest, stamp) or stamp_of(path.lstat()) != stamp:
                    raise DocumentError(document.id, "it was changed while it was read. It is read again next time.")

            checking = on_worker(partial(_reading, document.id, unchanged), ENGINE_WORKERS)
            return self._put(source, reader, name, origin, on_batch, checking)

        return defer(begin)

    def index_source(self, source: DocumentSource, name: str, origin: str, on_batch: OnBatch) -> Flow[Indexed]:
        """Store a document that comes as bytes; `name` chooses its reader.

        Signals: the document, once it is visible; a `DocumentError`; errors of the model and the store.
        Cancels: all of it; what the store had of the document stays.
        """

        def begin() -> Flow[Indexed]:
            data, document = source.data or b"", source.document
            reader = self.readers.of(document.id, name, document.media_type)
            if len(data) > self.max_bytes:
                return throw(self._too_large(document, len(data)))
            known = replace(document, digest=sha256(data).hexdigest(), size=len(data))
            return self._put(replace(source, document=known), reader, name, origin, on_batch, empty())

        return defer(begin)

    def _put(
        self,
        source: DocumentSource,
        reader: Reader,
        name: str,
        origin: str,
        on_batch: OnBatch,
        checking: Flow[object],
    ) -> Flow[Indexed]:
        document = source.document

        def batches() -> Flow[Sequence[EmbeddedChunk]]:
            sections = defer(lambda: reader.read(source))
            chunks = self.chunker.chunk(document, sections).pipe(catch(lambda error: throw(_of(document.id, error))))
            waiting: list[Chunk] = []
            pieces = chunks.pipe(
                flat_map_iterable(
                    lambda chunk: _full(waiting, chunk, self.batch_size), lambda: [tuple(waiting)] if waiting else []
                ),
                concat_map(lambda piece: self._embedded(document.id, piece, on_batch), prefetch=1),
            )
            # (the chunks are all there: nothing but the check is between them and being visible)
            return concat(pieces, checking.pipe(then(empty)))

        return self.store.put(document, defer(batches), self.fingerprint(document, name, origin))

    def _embedded(self, id: str, chunks: Sequence[Chunk], on_batch: OnBatch) -> Flow[Sequence[EmbeddedChunk]]:
        def joined(found: Embeddings) -> Sequence[EmbeddedChunk]:
            on_batch(id, chunks[-1].end, len(chunks), found.tokens)
            return tuple(EmbeddedChunk(*each) for each in zip(chunks, found.vectors, strict=True))

        def failed(error: Exception) -> Flow[Embeddings]:
            if isinstance(error, _OF_THE_INPUT):
                what = f"the embedding model refuses a part of it: {error}"
                return throw(_caused(DocumentError(id, what), error))
            return throw(error)

        inputs: list[EmbeddingInput] = [_input(chunk) for chunk in chunks]
        return self.embedding.embed(inputs).pipe(catch(failed), concat_map(joined))

    def _too_large(self, document: Document, size: int) -> DocumentTooLargeError:
        what = f"it has {size:,} bytes, more than max_bytes={self.max_bytes:,}."
        return DocumentTooLargeError(document.id, what, "max_bytes")


def _input(chunk: Chunk) -> EmbeddingInput:
    text = chunk.in_context
    return chunk.image if chunk.image is not None and not text.strip() else text


def _full(waiting: list[Chunk], chunk: Chunk, size: int) -> list[tuple[Chunk, ...]]:
    """Add a chunk; the batch, once it is full."""
    waiting.append(chunk)
    if len(waiting) < size:
        return []
    batch = tuple(waiting)
    waiting.clear()
    return [batch]


def _reading(id: str, call: Callable[[], T]) -> T:
    """The result of a call that reads the file; its `OSError` as one of the document."""
    try:
        return call()
    except FileNotFoundError:
        raise VanishedError(id) from None
    except OSError as error:
        raise DocumentError(id, f"it cannot be read: {error.strerror or error}.") from error


def _of(id: str, error: Exception) -> Exception:
    """What a reader or chunker has raised, as an error of the document."""
    if isinstance(error, MissingExtraError):
        return _caused(UnsupportedDocumentError(id, str(error)), error)
    if isinstance(error, FileNotFoundError):
        return VanishedError(id)
    if isinstance(error, AgentScopeError):
        return error
    if isinstance(error, OSError):
        return _caused(DocumentError(id, f"it cannot be read: {error.strerror or error}."), error)
    text = encodable(" ".join(str(error).split()))[:300]
    return _caused(DamagedDocumentError(id, f"it cannot be read ({type(error).__name__}: {text})."), error)


def _caused(error: DocumentError, cause: Exception) -> DocumentError:
    error.__cause__ = cause
    return error
