"""`ChunkStore`: the port to where chunks and their vectors are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.where import Where
from agentscope_rx.reactive import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexInfo:
    """The embedding model of a store's vectors. Vectors of two models cannot be compared."""

    embedding: str
    dimensions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """A document in a store. `fingerprint` names the reader, chunker and model that its chunks were made with."""

    document: Document
    chunks: int
    fingerprint: str = ""


class ChunkStore(ABC):
    """Keeps documents as chunks with vectors.

    - **A document is visible as a whole or not at all.** `put` makes its new chunks visible, and its old ones
      invisible, in one step, when the last one has been written. Chunks left behind by a killed process are never
      found.
    - **Words are found in every language.** English endings do not matter; Chinese, Japanese and Thai are indexed by
      characters and pairs of them, and names in code by their parts.
    - **Filters hold in the search**, not after it, so `limit` chunks are found if there are as many.

    Methods may be called from several threads and loops at once. `testing.check_chunk_store` checks the laws.
    """

    @abstractmethod
    def open(self, info: IndexInfo) -> Flow[IndexInfo]:
        """Prepare the store for vectors of this kind; an empty store takes this kind.

        Signals: the store's own `IndexInfo`; `KnowledgeFormatError` if its vectors are of another model;
        `KnowledgeStorageError`.
        Cancels: what has begun completes.
        """

    @abstractmethod
    def put(self, document: Document, batches: Flow[Sequence[EmbeddedChunk]], fingerprint: str = "") -> Flow[Indexed]:
        """Store the document with these chunks, in the place of those that it had.

        A batch is asked for when the one before is written.

        Signals: the document, once all of it is visible; errors of `batches`, after which the old chunks are there
        still; `KnowledgeStorageError`.
        Cancels: `batches`; the document stays as it was.
        """

    @abstractmethod
    def remove(self, ids: Sequence[str]) -> Flow[int]:
        """Remove these documents, in one step; ids that are not there are skipped.

        Signals: how many there were; `KnowledgeStorageError`.
        Cancels: what has begun completes.
        """

    @abstractmethod
    def documents(self, prefix: str = "") -> Flow[Indexed]:
        """The documents whose ids begin with `prefix`, in order of their ids, read as there is demand.

        Signals: documents, then completion; `KnowledgeStorageError`.
        Cancels: the rest.
        """

    @abstractmethod
    def nearest(self, vector: Sequence[float], limit: int, where: Where | None = None) -> Flow[tuple[Found, ...]]:
        """The chunks with the greatest cosine similarity, best first; equal ones by document id and number.

        Signals: one tuple, each with its `similarity`; `KnowledgeStorageError`.
        Cancels: the search.
        """

    @abstractmethod
    def matching(
        self, text: str, limit: int, where: Where | None = None, vector: Sequence[float] | None = None
    ) -> Flow[tuple[Found, ...]]:
        """The chunks that share words with the text, the most relevant first (BM25, or the database's own ranking).

        Signals: one tuple, each with its `relevance`, and with its `similarity` if a vector is given;
        `KnowledgeStorageError`.
        Cancels: the search.
        """

    @abstractmethod
    def between(self, document_id: str, first: int, last: int) -> Flow[tuple[Chunk, ...]]:
        """The chunks of the document with these numbers, both ends included, in order. Missing ones are left out.

        Signals: one tuple; `KnowledgeStorageError`.
        Cancels: the search.
        """

    @abstractmethod
    def close(self) -> Flow[None]:
        """Release connections; a store that is used again opens them again.

        Signals: one None.
        Cancels: nothing.
        """
