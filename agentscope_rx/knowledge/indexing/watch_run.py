"""`WatchRun`: a folder that is followed. A change starts a round; what has changed is found by looking.

    changes   --()--------{a}-{b}---------------------{c}--
    rounds      [look, settle, index]   [look, ...]     [look, settle, look, settle, index]

A round compares the stamps of all files with those that the rounds before have seen: it costs a `stat` a file. Files
that differ are looked at again after `settle` seconds; those that are as they were are indexed, or removed, and the
others are left to the next round, which follows at once. Changes while a round is in progress start one more. The
watcher is ready before the first look, so that there is no moment whose changes are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from reactivex import operators as ops

from agentscope_rx.knowledge.indexing.file_changes import FileChanges
from agentscope_rx.knowledge.indexing.folder_run import FileMemory, FolderJob, FolderRun
from agentscope_rx.knowledge.indexing.folder_walk import FolderContents
from agentscope_rx.knowledge.indexing.index_progress import IndexProgress, Tally
from agentscope_rx.knowledge.readers.parser_pool import keep_parsers
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    Tail,
    concat,
    concat_map,
    conflate,
    defer,
    empty,
    iterate_on_worker,
    just,
    recurse,
    tail,
    then,
    timer,
)


@dataclass(slots=True)
class WatchRun:
    """One subscription to `Indexer.watch`. `memory` is what its rounds have seen."""

    job: FolderJob
    changes: FileChanges
    settle: float
    clock: Callable[[], float]
    memory: FileMemory = field(default_factory=FileMemory)
    _present: Set[str] | None = None
    _report: IndexProgress = field(default_factory=IndexProgress)

    def run(self) -> Flow[IndexProgress]:
        """Rounds, one after the other.

        Signals: the progress of each; errors of the changes, the folder, the model and the store.
        Cancels: the watcher and the round in progress.
        """

        def concerned(paths: frozenset[str]) -> Flow[bool]:
            walk = self.job.walk
            # (its own database may be in the folder: indexing must not start the next round)
            return just(True) if not paths or any(map(walk.concerns, paths)) else empty()

        # one that comes during a round waits for its end; further ones are one with it
        due = self.changes.of(self.job.walk.root).pipe(concat_map(concerned), conflate())
        return due.pipe(concat_map(lambda _: recurse(self._round), prefetch=1))

    def _round(self) -> Flow[IndexProgress | Tail[IndexProgress]]:
        def looked(first: FolderContents) -> Flow[IndexProgress | Tail[IndexProgress]]:
            if not self._differing(first):
                return just(self._report)
            again = timer(self.settle).pipe(then(self._look))
            return again.pipe(concat_map(lambda second: self._settled(first, second)))

        return self._look().pipe(concat_map(looked))

    def _settled(self, first: FolderContents, second: FolderContents) -> Flow[IndexProgress | Tail[IndexProgress]]:
        """Index what was the same in both looks, and go on with the rest."""
        changing = frozenset(_changing(first, second))
        again: Flow[IndexProgress | Tail[IndexProgress]] = just(tail(self._round)) if changing else empty()
        if not self._differing(second) - changing and self._present is not None:
            return again
        tally = Tally(self.clock)
        run = FolderRun(self.job, tally, self.memory, changing, second)

        def end() -> Flow[IndexProgress | Tail[IndexProgress]]:
            # those that change are looked at again anyway
            self._present = second.files.keys() - changing
            self._report = tally.begin_phase("watching")
            return concat(just(self._report), again)

        return concat(keep_parsers(run.run()), defer(end))

    def _look(self) -> Flow[FolderContents]:
        return iterate_on_worker(self.job.walk.look, ENGINE_WORKERS).pipe(ops.last())

    def _differing(self, contents: FolderContents) -> set[str]:
        """The documents that are new, have changed or are gone, as far as stamps tell; all of them at first."""
        if self._present is None:
            return {*contents.files, ""}
        known = self.memory
        changed = {
            id for id, file in contents.files.items() if not known.is_fresh(file) and known.error_of(file) is None
        }
        return changed | (self._present ^ contents.files.keys())


def _changing(first: FolderContents, second: FolderContents) -> set[str]:
    return {id for id in first.files.keys() | second.files.keys() if first.files.get(id) != second.files.get(id)}
