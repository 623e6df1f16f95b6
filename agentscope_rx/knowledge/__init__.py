"""Documents that agents can ask: readers, chunkers, stores, retrieval, indexing, and what connects it to an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.document import Chunk, Document, DocumentSource, EmbeddedChunk, Section
from agentscope_rx.knowledge.knowledge import Knowledge
from agentscope_rx.knowledge.passage import Found, Passage
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where
from agentscope_rx.lazy import import_lazily

if TYPE_CHECKING:
    from agentscope_rx.knowledge.indexing.index_progress import IndexProgress
    from agentscope_rx.knowledge.indexing.indexer import Indexer
    from agentscope_rx.knowledge.retrieval.knowledge_base import KnowledgeBase
    from agentscope_rx.knowledge.retrieval.passages import Passages, problems_of
    from agentscope_rx.knowledge.retrieval.several_queries import retrieve_all
    from agentscope_rx.knowledge.stores.in_memory import InMemoryChunkStore
    from agentscope_rx.knowledge.stores.sqlite import SqliteChunkStore

# (an agent needs the port alone: databases and formats are imported with what uses them)
_LAZY: dict[str, str] = {
    "InMemoryChunkStore": "agentscope_rx.knowledge.stores.in_memory",
    "IndexProgress": "agentscope_rx.knowledge.indexing.index_progress",
    "Indexer": "agentscope_rx.knowledge.indexing.indexer",
    "KnowledgeBase": "agentscope_rx.knowledge.retrieval.knowledge_base",
    "Passages": "agentscope_rx.knowledge.retrieval.passages",
    "SqliteChunkStore": "agentscope_rx.knowledge.stores.sqlite",
    "problems_of": "agentscope_rx.knowledge.retrieval.passages",
    "retrieve_all": "agentscope_rx.knowledge.retrieval.several_queries",
}

__all__ = [
    "Between",
    "Chunk",
    "ChunkStore",
    "Chunker",
    "Condition",
    "Document",
    "DocumentSource",
    "EmbeddedChunk",
    "Excluding",
    "Found",
    "InMemoryChunkStore",
    "IndexInfo",
    "IndexProgress",
    "Indexed",
    "Indexer",
    "Knowledge",
    "KnowledgeBase",
    "Passage",
    "Passages",
    "Prefix",
    "Reader",
    "Section",
    "SqliteChunkStore",
    "Where",
    "problems_of",
    "retrieve_all",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)
