"""A reader of lines, a chunker of one chunk a line, an embedding model that counts letters: parts of an `Indexer`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from agentscope_rx.errors import DamagedDocumentError
from agentscope_rx.knowledge import (
    Chunk,
    Chunker,
    ChunkStore,
    Document,
    DocumentSource,
    Indexer,
    InMemoryChunkStore,
    KnowledgeBase,
    Reader,
    Section,
)
from agentscope_rx.models.embedding import EmbeddingInput, EmbeddingModel, Embeddings
from agentscope_rx.reactive import (
    Flow,
    concat_map,
    defer,
    flat_map_iterable,
    from_iterable,
    just,
    on_worker,
    then,
    throw,
    timer,
)


class LineReader(Reader):
    """A section for each line. `BAD` in a text damages the document; `delay` are seconds before each section."""

    suffixes = (".txt", ".md")

    def __init__(self, version: int = 1, delay: float = 0.0) -> None:
        self.version = version
        self.delay = delay
        self.read_documents: list[str] = []
        self.read_lines = 0
        self.active = 0

    @property
    def fingerprint(self) -> str:
        return f"LineReader({self.version})"

    def read(self, source: DocumentSource) -> Flow[Section]:
        def lines() -> Flow[Section]:
            self.read_documents.append(source.document.id)
            data = on_worker(source.path.read_bytes) if source.path is not None else just(source.data or b"")
            return data.pipe(concat_map(lambda data: sections(data.decode())))

        def sections(text: str) -> Flow[Section]:
            if "BAD" in text:
                return throw(DamagedDocumentError(source.document.id, "it has BAD in it."))
            if "BUG" in text:
                raise ZeroDivisionError("a bug of the reader")
            found = from_iterable(text.splitlines(keepends=True))
            start = 0

            def section(line: str) -> Flow[Section]:
                nonlocal start
                self.read_lines += 1
                made = just(Section(text=line, start=start))
                start += len(line)
                return timer(self.delay).pipe(then(lambda: made)) if self.delay else made

            return found.pipe(concat_map(section, prefetch=1))

        return defer(lines)


class LineChunker(Chunker):
    """A chunk for each section with text."""

    def __init__(self, version: int = 1) -> None:
        self.version = version

    @property
    def fingerprint(self) -> str:
        return f"LineChunker({self.version})"

    def chunk(self, document: Document, sections: Flow[Section]) -> Flow[Chunk]:
        def begin() -> Flow[Chunk]:
            number = 0

            def chunks(section: Section) -> list[Chunk]:
                nonlocal number
                if not section.text.strip():
                    return []
                number += 1
                end = section.start + len(section.text)
                return [Chunk(document=document, number=number - 1, text=section.text, start=section.start, end=end)]

            return sections.pipe(flat_map_iterable(chunks))

        return defer(begin)


class LetterEmbedding(EmbeddingModel):
    """How often a text has each letter. `delay` are the seconds of a request; `error` fails it."""

    def __init__(self, name: str = "letters", delay: float = 0.0, error: Exception | None = None) -> None:
        super().__init__(name)
        self.delay = delay
        self.error = error
        self.batches: list[int] = []

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        def begin() -> Flow[Embeddings]:
            self.batches.append(len(batch))
            if self.error is not None:
                return throw(self.error)
            vectors = tuple(vector_of(str(each)) for each in batch)
            return just(Embeddings(vectors, tokens=len(batch)))

        return timer(self.delay).pipe(then(begin)) if self.delay else defer(begin)


class WordEmbedding(LetterEmbedding):
    """Which words a text has, so that a search by meaning finds those that share words."""

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        return just(Embeddings(tuple(map(_words, map(str, batch)))))


def _words(text: str) -> tuple[float, ...]:
    vector = [0.0] * 512
    for word in re.findall(r"[a-z]{4,}", text.lower()):
        vector[crc32(word.rstrip("s").encode()) % 512] += 1
    return tuple(vector)


def vector_of(text: str) -> tuple[float, ...]:
    return tuple(float(text.lower().count(each)) for each in "abcdefghijklmnopqrstuvwxyz")


def indexer(store: ChunkStore | None = None, embedding: EmbeddingModel | None = None, **options: Any) -> Indexer:
    """An indexer of these parts."""
    given: dict[str, Any] = {"readers": [LineReader()], "chunker": LineChunker(), **options}
    base = KnowledgeBase(store or InMemoryChunkStore(), embedding or LetterEmbedding())
    return Indexer(base, **given)


def write(folder: Path, **files: str) -> Path:
    """Write files; `a__b` is `b.txt` in the folder `a`."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def ids(store: ChunkStore) -> list[str]:
    """The documents of a store."""
    found: list[str] = []
    documents = store.documents().pipe(concat_map(lambda each: found.append(each.document.id)))
    documents.pipe(then(lambda: just(None))).run()
    return found


def texts(store: ChunkStore, id: str) -> list[str]:
    """The chunks of a document."""
    return [each.text for each in store.between(id, 0, 1_000_000).run()]
