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
    from agentscope_rx.knowledge.readers.csv_file import CsvReader
    from agentscope_rx.knowledge.readers.image import ImageReader
    from agentscope_rx.knowledge.readers.limits import ReadLimits
    from agentscope_rx.knowledge.readers.markdown import MarkdownReader
    from agentscope_rx.knowledge.readers.parsed import DocxReader, HtmlReader, PdfReader, PptxReader, XlsxReader
    from agentscope_rx.knowledge.readers.parser_pool import keep_parsers
    from agentscope_rx.knowledge.readers.registry import default_readers, reader_of
    from agentscope_rx.knowledge.readers.text import CodeReader, TextReader
    from agentscope_rx.knowledge.retrieval.knowledge_base import KnowledgeBase
    from agentscope_rx.knowledge.retrieval.passages import Passages, problems_of
    from agentscope_rx.knowledge.retrieval.several_queries import retrieve_all
    from agentscope_rx.knowledge.stores.in_memory import InMemoryChunkStore
    from agentscope_rx.knowledge.stores.sqlite import SqliteChunkStore

# (an agent needs the port alone: databases and formats are imported with what uses them)
_LAZY: dict[str, str] = {
    "CodeReader": "agentscope_rx.knowledge.readers.text",
    "CsvReader": "agentscope_rx.knowledge.readers.csv_file",
    "DocxReader": "agentscope_rx.knowledge.readers.parsed",
    "HtmlReader": "agentscope_rx.knowledge.readers.parsed",
    "ImageReader": "agentscope_rx.knowledge.readers.image",
    "InMemoryChunkStore": "agentscope_rx.knowledge.stores.in_memory",
    "IndexProgress": "agentscope_rx.knowledge.indexing.index_progress",
    "Indexer": "agentscope_rx.knowledge.indexing.indexer",
    "KnowledgeBase": "agentscope_rx.knowledge.retrieval.knowledge_base",
    "MarkdownReader": "agentscope_rx.knowledge.readers.markdown",
    "Passages": "agentscope_rx.knowledge.retrieval.passages",
    "PdfReader": "agentscope_rx.knowledge.readers.parsed",
    "PptxReader": "agentscope_rx.knowledge.readers.parsed",
    "ReadLimits": "agentscope_rx.knowledge.readers.limits",
    "SqliteChunkStore": "agentscope_rx.knowledge.stores.sqlite",
    "TextReader": "agentscope_rx.knowledge.readers.text",
    "XlsxReader": "agentscope_rx.knowledge.readers.parsed",
    "default_readers": "agentscope_rx.knowledge.readers.registry",
    "keep_parsers": "agentscope_rx.knowledge.readers.parser_pool",
    "problems_of": "agentscope_rx.knowledge.retrieval.passages",
    "reader_of": "agentscope_rx.knowledge.readers.registry",
    "retrieve_all": "agentscope_rx.knowledge.retrieval.several_queries",
}

__all__ = [
    "Between",
    "Chunk",
    "ChunkStore",
    "Chunker",
    "CodeReader",
    "Condition",
    "CsvReader",
    "Document",
    "DocumentSource",
    "DocxReader",
    "EmbeddedChunk",
    "Excluding",
    "Found",
    "HtmlReader",
    "ImageReader",
    "InMemoryChunkStore",
    "IndexInfo",
    "IndexProgress",
    "Indexed",
    "Indexer",
    "Knowledge",
    "KnowledgeBase",
    "MarkdownReader",
    "Passage",
    "Passages",
    "PdfReader",
    "PptxReader",
    "Prefix",
    "ReadLimits",
    "Reader",
    "Section",
    "SqliteChunkStore",
    "TextReader",
    "Where",
    "XlsxReader",
    "default_readers",
    "keep_parsers",
    "problems_of",
    "reader_of",
    "retrieve_all",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)
