"""`FolderRun`: brings the store up to a folder, once.

    looking      the files that are there; the documents that the store has
    comparing    by digest: those that the store has with the same size and made by the same parts
    indexing     new and changed ones, a number at once
    removing     those that are gone

Every file is read for its digest: a size and a time can be the same after a change. A run that is stopped at any moment
leaves whole documents, and the next one does what is left. The bytes of the phases before `indexing` are not counted,
so that rate and time left are those of the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Final, Literal

from agentscope_rx.errors import DocumentError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Document
from agentscope_rx.knowledge.indexing.document_pipeline import DocumentPipeline, VanishedError
from agentscope_rx.knowledge.indexing.folder_walk import FolderContents, FolderWalk, FoundFile, Stamp, digest_of
from agentscope_rx.knowledge.indexing.index_progress import IndexProgress, Tally
from agentscope_rx.knowledge.store import Indexed
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    from_iterable,
    iterate_on_worker,
    just,
    map_at_most,
    on_worker,
    then,
    throw,
)

OnError = Literal["report", "fail"]

ORIGIN: Final = "folder"
"""Begins the fingerprints of documents that a folder has given: only these are removed when they are gone."""
REMOVED_AT_ONCE: Final = 500
COMPARED_SECONDS: Final = 0.1
"""How long files are compared before a run can be stopped."""
SETTLING: Final = 3.0
"""The coarsest steps of file times are 2 seconds: a file that was changed later than that may change unnoticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderJob:
    """What a run does. `delete_missing` removes documents that are gone."""

    walk: FolderWalk
    pipeline: DocumentPipeline
    max_concurrency: int
    delete_missing: bool = True
    on_error: OnError = "report"


@dataclass(slots=True)
class FileMemory:
    """What earlier runs of this process have found: the stamps of documents that were up to date or have failed."""

    fresh: dict[str, Stamp] = field(default_factory=dict[str, Stamp])
    failed: dict[str, tuple[Stamp, DocumentError]] = field(default_factory=dict[str, tuple[Stamp, DocumentError]])

    def note(self, file: FoundFile, error: DocumentError | None = None) -> None:
        """Remember a file, but not one that may change within a step of the clock."""
        self.forget(file.id)
        if time.time() - max(file.stamp[3:]) / 1e9 <= SETTLING:
            return
        if error is None:
            self.fresh[file.id] = file.stamp
        else:
            self.failed[file.id] = file.stamp, error

    def forget(self, id: str) -> None:
        """The document is gone."""
        self.fresh.pop(id, None)
        self.failed.pop(id, None)

    def is_fresh(self, file: FoundFile) -> bool:
        """True if the file was up to date, and is as it was."""
        return self.fresh.get(file.id) == file.stamp

    def error_of(self, file: FoundFile) -> DocumentError | None:
        """The error of a file that has failed, and is as it was."""
        stamp, error = self.failed.get(file.id, (None, None))
        return error if stamp == file.stamp else None


@dataclass(slots=True)
class FolderRun:
    """One run. With the memory of an earlier one it leaves out what has not changed since.

    `left_out` are documents that are not touched. With `contents` the folder was looked at already.
    """

    job: FolderJob
    tally: Tally
    memory: FileMemory = field(default_factory=FileMemory)
    left_out: frozenset[str] = frozenset()
    contents: FolderContents | None = None
    _same: list[tuple[FoundFile, Indexed]] = field(default_factory=list[tuple[FoundFile, Indexed]])
    _todo: list[FoundFile] = field(default_factory=list[FoundFile])
    _gone: list[str] = field(default_factory=list[str])

    def run(self) -> Flow[IndexProgress]:
        """Look, compare, index, remove.

        Signals: progress; the first error of the folder, the model or the store; with `on_error="fail"` also the first
        `DocumentError`.
        Cancels: the documents in progress, which stay as they were.
        """
        return concat(self._look(), defer(self._known), defer(self._compare), defer(self._index), defer(self._remove))

    def _look(self) -> Flow[IndexProgress]:
        def seen(contents: FolderContents) -> IndexProgress:
            self.contents = contents
            self.tally.found, self.tally.skipped = len(contents.files), contents.skipped
            return self.tally.progress()

        if self.contents is not None:
            return just(seen(self.contents))
        return iterate_on_worker(self.job.walk.look, ENGINE_WORKERS).pipe(concat_map(seen))

    def _known(self) -> Flow[IndexProgress]:
        """Sort the files by what the store has of them."""
        contents = self.contents or FolderContents()
        todo = dict(contents.files)
        for problem in contents.problems:
            self.tally.fail(problem)
        if contents.problems and self.job.on_error == "fail":
            return throw(contents.problems[0])

        def sort(indexed: Indexed) -> None:
            id = indexed.document.id
            file = todo.get(id)
            if file is not None:
                if self._may_be_same(indexed, file):
                    self._same.append((file, indexed))
                    del todo[id]
            elif self._is_gone(indexed, contents):
                self._gone.append(id)

        def sorted_out() -> Flow[IndexProgress]:
            self._todo = list(todo.values())
            return just(self.tally.begin_phase("comparing"))

        documents = self.job.pipeline.store.documents(self.job.walk.prefix)
        return documents.pipe(concat_map(sort), then(sorted_out))

    def _may_be_same(self, indexed: Indexed, file: FoundFile) -> bool:
        """True if only the digest can tell them apart."""
        pipeline = self.job.pipeline
        described = pipeline.described(file.id, file.size, file.path.name)
        return (
            indexed.document.size == file.size
            and indexed.document.metadata == described.metadata
            and indexed.fingerprint == pipeline.fingerprint(described, file.path.name, ORIGIN)
        )

    def _is_gone(self, indexed: Indexed, contents: FolderContents) -> bool:
        id = indexed.document.id
        ours = indexed.fingerprint.startswith(f"{ORIGIN} ")
        return ours and id not in self.left_out and not contents.may_have(id)

    def _compare(self) -> Flow[IndexProgress]:
        def compared(found: list[tuple[FoundFile, bool]]) -> IndexProgress:
            for file, same in found:
                if same:
                    self.tally.unchanged += 1
                    self.memory.note(file)
                else:
                    self._todo.append(file)
            return self.tally.progress()

        return iterate_on_worker(self._comparisons, ENGINE_WORKERS).pipe(concat_map(compared))

    def _comparisons(self) -> Iterator[list[tuple[FoundFile, bool]]]:
        found: list[tuple[FoundFile, bool]] = []
        since = time.monotonic()
        for file, indexed in self._same:
            found.append((file, self._is_same(file, indexed)))
            if time.monotonic() - since > COMPARED_SECONDS:
                yield found
                found, since = [], time.monotonic()
        yield found

    def _is_same(self, file: FoundFile, indexed: Indexed) -> bool:
        if self.memory.is_fresh(file):
            return True
        try:
            return digest_of(file.path, self.job.walk.root)[0] == indexed.document.digest
        except OSError:
            # indexing it says what is wrong
            return False

    def _index(self) -> Flow[IndexProgress]:
        todo: list[FoundFile] = []
        for file in sorted(self._todo, key=lambda file: file.id):
            error = self.memory.error_of(file)
            if error is not None:
                self.tally.fail(error)
            elif file.id not in self.left_out:
                todo.append(file)
        self.tally.bytes_total += sum(file.size for file in todo)
        begun = just(self.tally.begin_phase("indexing"))
        each = map_at_most(self._index_one, self.job.max_concurrency, ordered=False)
        return concat(begun, from_iterable(todo).pipe(each))

    def _index_one(self, file: FoundFile) -> Flow[IndexProgress]:
        tally, pipeline = self.tally, self.job.pipeline
        changed: Callable[[], IndexProgress] = tally.progress

        def on_batch(id: str, done: int, chunks: int, tokens: int) -> None:
            tally.advance(id, min(done, file.size), chunks, tokens)

        def stored(indexed: Indexed) -> IndexProgress:
            tally.end(file.id, file.size)
            tally.done += 1
            tally.empty += not indexed.chunks
            self.memory.note(file)
            return changed()

        def failed(error: Exception) -> Flow[IndexProgress]:
            tally.end(file.id, file.size)
            if isinstance(error, VanishedError):
                tally.found -= 1
                self._gone.append(file.id)
                return just(changed())
            if not isinstance(error, DocumentError) or self.job.on_error == "fail":
                return throw(error)
            tally.fail(error)
            self.memory.note(file, error)
            return just(changed())

        def begin() -> Flow[IndexProgress]:
            document: Document = pipeline.described(file.id, file.size, file.path.name)
            root = self.job.walk.root
            storing = pipeline.index_file(document, file.path, file.path.name, ORIGIN, on_batch, root)
            return concat(just(tally.begin(file.id)), storing.pipe(concat_map(stored), catch(failed)))

        return defer(begin)

    def _remove(self) -> Flow[IndexProgress]:
        gone = sorted(self._gone)
        for id in gone:
            self.memory.forget(id)
        if not gone or not self.job.delete_missing:
            return empty()

        def removed(count: int) -> IndexProgress:
            self.tally.removed += count
            return self.tally.progress()

        pieces = [gone[at : at + REMOVED_AT_ONCE] for at in range(0, len(gone), REMOVED_AT_ONCE)]
        store = self.job.pipeline.store
        removing = [defer(partial(store.remove, piece)).pipe(concat_map(removed)) for piece in pieces]
        # (a folder that is away now, such as a drive, has taken no document with it)
        there = on_worker(self.job.walk.check, ENGINE_WORKERS).pipe(then(empty))
        return concat(just(self.tally.begin_phase("removing")), there, *removing)
