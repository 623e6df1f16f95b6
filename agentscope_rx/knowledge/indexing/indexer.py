"""`Indexer`: brings documents into a knowledge base, and keeps it up to date with a folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.document import DocumentSource, Metadata
from agentscope_rx.knowledge.indexing.addition import Addition, Given, size_of, sources_of
from agentscope_rx.knowledge.indexing.document_pipeline import DocumentPipeline
from agentscope_rx.knowledge.indexing.file_changes import FileChanges
from agentscope_rx.knowledge.indexing.folder_run import FolderJob, FolderRun, OnError
from agentscope_rx.knowledge.indexing.folder_walk import FolderWalk
from agentscope_rx.knowledge.indexing.index_progress import IndexProgress, Tally
from agentscope_rx.knowledge.indexing.reader_table import ReaderTable
from agentscope_rx.knowledge.indexing.watch_run import WatchRun
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.readers.parser_pool import keep_parsers
from agentscope_rx.knowledge.retrieval.knowledge_base import KnowledgeBase
from agentscope_rx.knowledge.store import ChunkStore
from agentscope_rx.models.checks import check_count, check_one_of, check_seconds
from agentscope_rx.models.embedding import EmbeddingModel
from agentscope_rx.reactive import (
    Flow,
    concat,
    concat_map,
    conflate,
    defer,
    from_iterable,
    just,
    map_at_most,
    then,
)

MAX_BYTES: Final = 256 * 1024 * 1024
EVERY: Final = 0.1
"""Seconds between two values of a progress."""


class Indexer:
    """Brings documents into a base, and keeps it up to date with a folder.

        base = KnowledgeBase("notes.db")
        report = Indexer(base).folder("notes").run()

    | a document | is |
    |---|---|
    | has the digest, and was made by the same parts | unchanged: its bytes were read, nothing else |
    | is new, or has changed | indexed: all of it becomes visible in one step |
    | is not in the folder any more | removed (without `delete_missing=False`) |
    | cannot be read | reported; its earlier version in the base stays |

    | option | |
    |---|---|
    | `base`, `embedding` | a `KnowledgeBase`; or a store or the path of one, and its embedding model |
    | `readers`, `chunker` | replace the default ones; `default_readers(describe=model)` reads pictures, too |
    | `batch_size` | the most chunks that are embedded and written at once |
    | `max_concurrency` | the documents in progress at once; with `batch_size` it bounds the memory |
    | `max_bytes` | larger documents are not read |
    | `include`, `ignore` | patterns of paths such as "*.md" or "drafts/"; one without a slash matches at any depth |
    | `metadata` | gives what searches filter by, from the id of a document |

    Hidden files, `node_modules` and links are left out; `.gitignore` is not read. An error of the embedding model or of
    the store ends the run. Documents indexed by then stay, and the next run does the rest, also after a crash.
    """

    def __init__(
        self,
        base: KnowledgeBase | ChunkStore | str | os.PathLike[str],
        embedding: EmbeddingModel | None = None,
        *,
        readers: Sequence[Reader] | None = None,
        chunker: Chunker | None = None,
        batch_size: int = 128,
        max_concurrency: int = 4,
        max_bytes: int = MAX_BYTES,
        include: Sequence[str] = (),
        ignore: Sequence[str] = (),
        metadata: Callable[[str], Metadata] | None = None,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("max_concurrency", max_concurrency), ("max_bytes", max_bytes)):
            check_count(name, value)
        if isinstance(base, KnowledgeBase) and embedding is not None:
            raise ConfigurationError("A KnowledgeBase has its embedding model: leave embedding out.")
        self.base: KnowledgeBase = base if isinstance(base, KnowledgeBase) else KnowledgeBase(base, embedding)
        _check_parts(readers, chunker)
        self._readers = readers
        self._chunker = chunker
        self._batch_size = batch_size
        self._max_concurrency = max_concurrency
        self._max_bytes = max_bytes
        self._include = tuple(include) if not isinstance(include, str) else include
        self._ignore = tuple(ignore) if not isinstance(ignore, str) else ignore
        self._metadata = metadata
        self._made: DocumentPipeline | None = None

    def folder(
        self,
        path: str | os.PathLike[str],
        *,
        prefix: str = "",
        delete_missing: bool = True,
        on_error: OnError = "report",
    ) -> Flow[IndexProgress]:
        """Bring the base up to this folder. Ids of documents are `prefix` and their path below it.

        Folders in one base need a prefix each: a document of this prefix that is gone from the folder is removed.
        Documents of `add` are not.

        Signals: progress, at most ten a second and as fast as it is read; the last one, "done", is the report.
        `InvalidInputError` without such a folder; `KnowledgeFormatError` if the base was made with another embedding
        model; errors of the model and the store; the first `DocumentError` with `on_error="fail"`.
        Cancels: the documents in progress, which stay as they were.
        """
        check_one_of("on_error", on_error, ("report", "fail"), optional=False)

        def begin() -> Flow[IndexProgress]:
            job = self._job(path, prefix, delete_missing, on_error)
            tally = Tally(asyncio.get_running_loop().time)
            run = FolderRun(job, tally).run()
            return self._reported(tally, run)

        return defer(begin).pipe(conflate(EVERY))

    def add(
        self,
        documents: Given | Sequence[Given] | Mapping[str, str],
        *,
        on_error: OnError = "fail",
    ) -> Flow[IndexProgress]:
        """Index these documents: a `str` is a text, a path is a file, a mapping has texts by their ids.

        The id of a file is its path as it is given, that of a text without one is made of its digest. A document that
        the base has with the same content is unchanged.

        Signals: progress; the last one, "done", is the report. `DocumentError`, unless `on_error="report"`; the errors
        of `folder`.
        Cancels: the documents in progress, which stay as they were.
        """
        check_one_of("on_error", on_error, ("report", "fail"), optional=False)

        def begin() -> Flow[IndexProgress]:
            tally = Tally(asyncio.get_running_loop().time)
            added = sources_of(documents)
            tally.found = len(added)
            tally.bytes_total = sum(map(size_of, added))
            pipeline = self._pipeline()

            def one(source: DocumentSource) -> Flow[IndexProgress]:
                return Addition(pipeline, tally, on_error, source).run()

            each = map_at_most(one, self._max_concurrency, ordered=False)
            run = concat(defer(lambda: just(tally.begin_phase("indexing"))), from_iterable(added).pipe(each))
            return self._reported(tally, run)

        return defer(begin).pipe(conflate(EVERY))

    def watch(
        self,
        path: str | os.PathLike[str],
        *,
        prefix: str = "",
        delete_missing: bool = True,
        settle: float = 0.5,
        changes: FileChanges | None = None,
    ) -> Flow[IndexProgress]:
        """Bring the base up to this folder now and after each change of it, until it is disposed.

        Each change makes it compare the folder as `folder` does, so that none is lost. A file is indexed when it has
        stayed the same for `settle` seconds, and removed when it has been gone for as long. `changes` reports that
        something has changed (default: the file system's notifications, by the package watchfiles).

        Signals: progress; "watching" after each time that the base is up to date; no completion. `MissingExtraError`
        without watchfiles; the errors of `folder`, after which the base is as it was: subscribe again to go on.
        Cancels: the watcher and the documents in progress, which stay as they were.
        """
        check_seconds("settle", settle, zero=True, infinite=False)

        def begin() -> Flow[IndexProgress]:
            job = self._job(path, prefix, delete_missing, "report")
            source = FileChanges() if changes is None else changes
            watching = WatchRun(job, source, settle, asyncio.get_running_loop().time).run()
            return self._opened().pipe(then(lambda: watching))

        return defer(begin).pipe(conflate(EVERY))

    def _reported(self, tally: Tally, run: Flow[IndexProgress]) -> Flow[IndexProgress]:
        begun = just(tally.progress())
        opened = self._opened().pipe(then(lambda: keep_parsers(run)))
        return concat(begun, opened, defer(lambda: just(tally.begin_phase("done"))))

    def _opened(self) -> Flow[object]:
        """Open the store for the vectors of the model, of which one tells the dimensions."""

        def prepare(dimensions: int) -> Flow[object]:
            return self.base.prepare(dimensions)

        model = self.base.embedding
        known = getattr(model, "dimensions", None)
        if isinstance(known, int):
            return prepare(known)
        probe = model.embed(["dimensions"])
        return probe.pipe(concat_map(lambda found: prepare(len(found.vectors[0]))))

    def _pipeline(self) -> DocumentPipeline:
        if self._made is None:
            readers = _default_readers() if self._readers is None else self._readers
            model = self.base.embedding
            self._made = DocumentPipeline(
                store=self.base.store,
                embedding=model,
                readers=ReaderTable(readers),
                chunker=_default_chunker() if self._chunker is None else self._chunker,
                # (a slow model embeds a few at once: progress is seen, and a stop loses, batch by batch)
                batch_size=min(self._batch_size, model.batch_size * model.max_concurrency),
                max_bytes=self._max_bytes,
                metadata=self._metadata,
            )
        return self._made

    def _job(self, path: str | os.PathLike[str], prefix: str, delete_missing: bool, on_error: OnError) -> FolderJob:
        pipeline = self._pipeline()
        walk = FolderWalk(path, pipeline.readers, prefix=prefix, include=self._include, ignore=self._ignore)
        return FolderJob(
            walk=walk,
            pipeline=pipeline,
            max_concurrency=self._max_concurrency,
            delete_missing=delete_missing,
            on_error=on_error,
        )

    def __repr__(self) -> str:
        return f"Indexer({self.base!r})"


# (imported when they are used: the formats take time to import)


def _check_parts(readers: object, chunker: object) -> None:
    """`ConfigurationError` for what is no list of readers, or no chunker."""
    listed = list(cast("Iterable[object]", readers)) if isinstance(readers, (list, tuple)) else None
    if readers is not None and (not listed or not all(isinstance(each, Reader) for each in listed)):
        raise ConfigurationError(
            f"readers must be a list of Readers, such as [MyReader(), *default_readers()], not {readers!r:.60}."
        )
    if chunker is not None and not isinstance(chunker, Chunker):
        raise ConfigurationError(f"chunker must be a Chunker, such as HeadingChunker(256), not {chunker!r:.60}.")


def _default_readers() -> Sequence[Reader]:
    from agentscope_rx.knowledge.readers.image import ImageReader
    from agentscope_rx.knowledge.readers.registry import default_readers

    # (without a model that describes it, a picture would be found by nothing but its name)
    return [each for each in default_readers() if not isinstance(each, ImageReader)]


def _default_chunker() -> Chunker:
    from agentscope_rx.knowledge.chunkers.default import default_chunker

    return default_chunker()
