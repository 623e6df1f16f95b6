"""`Indexer.watch`: changes of any kind, those during indexing, files that settle, its end; two real watchers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx.errors import InvalidInputError, KnowledgeError, MissingExtraError
from agentscope_rx.knowledge import IndexProgress, InMemoryChunkStore
from agentscope_rx.knowledge.indexing.file_changes import FileChanges
from agentscope_rx.reactive import Flow, concat, just, never, then, throw, timer
from agentscope_rx.testing import run_virtual
from tests.knowledge.indexing.parts import LetterEmbedding, LineReader, ids, indexer, texts, write

Step = tuple[float, Callable[[], object]]


class Changes(FileChanges):
    """Reports each step some time after it was made, in virtual time."""

    def __init__(self, *times: float, path: str = "x.txt") -> None:
        super().__init__()
        self._times = times
        self._path = path
        self.active = 0

    def of(self, path: Path) -> Flow[frozenset[str]]:
        def at(before: float, time: float) -> Flow[frozenset[str]]:
            return timer(time - before).pipe(then(lambda: just(frozenset([str(path / self._path)]))))

        reported = [at(before, time) for before, time in zip((0, *self._times), self._times, strict=False)]
        return concat(just(frozenset[str]()), *reported, never())


def watched(
    folder: Path, store: InMemoryChunkStore, *steps: Step, until: float = 100, **options
) -> list[IndexProgress]:  # type: ignore[no-untyped-def]
    """What is seen while each step is made at its time, and reported a tenth of a second later."""
    changes = options.pop("changes", None) or Changes(*(time + 0.1 for time, _ in steps))
    index = options.pop("index", None) or indexer(store)
    seen: list[IndexProgress] = []

    async def main() -> None:
        failure: list[Exception] = []
        watching = index.watch(folder, changes=changes, **options).subscribe(seen.append, failure.append)
        now = 0.0
        for time, step in steps:
            await asyncio.sleep(time - now)
            step()
            now = time
        await asyncio.sleep(until - now)
        watching.dispose()
        await asyncio.sleep(10)
        if failure:
            raise failure[0]

    run_virtual(main())
    return seen


def test_the_folder_is_indexed_at_the_start(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    seen = watched(tmp_path, store)
    assert seen[-1].phase == "watching" and seen[-1].done == 1 and ids(store) == ["a.txt"]


def test_what_was_changed_is_indexed(tmp_path: Path):
    write(tmp_path, a="one", b="two")
    store = InMemoryChunkStore()
    steps: list[Step] = [
        (10, lambda: write(tmp_path, a="changed")),
        (20, lambda: write(tmp_path, new__c="three")),
        (30, lambda: (tmp_path / "b.txt").unlink()),
        (40, lambda: (tmp_path / "new").rename(tmp_path / "moved")),
        (50, lambda: (tmp_path / "a.txt").rename(tmp_path / "z.txt")),
    ]
    watched(tmp_path, store, *steps[:1])
    assert texts(store, "a.txt") == ["changed"]
    write(tmp_path, a="one")
    seen = watched(tmp_path, store, *steps)
    assert ids(store) == ["moved/c.txt", "z.txt"] and texts(store, "z.txt") == ["changed"]
    assert [each.removed for each in seen if each.phase == "watching"] == [0, 0, 0, 1, 1, 1]


def test_changes_while_indexing_are_not_lost(tmp_path: Path):
    write(tmp_path, a="x\n" * 20)
    store = InMemoryChunkStore()
    index = indexer(store, readers=[LineReader(delay=1)])
    # the first round lasts 20 s, the change comes within it
    steps: list[Step] = [(5, lambda: write(tmp_path, b="two")), (6, lambda: write(tmp_path, c="three"))]
    watched(tmp_path, store, *steps, index=index)
    assert ids(store) == ["a.txt", "b.txt", "c.txt"]


def test_a_file_that_is_being_written_settles_first(tmp_path: Path):
    write(tmp_path, a="one")
    store, reader = InMemoryChunkStore(), LineReader()
    index = indexer(store, readers=[reader])
    text = ["part\n"]

    def grow() -> None:
        text.append("more\n")
        write(tmp_path, b="".join(text))

    steps: list[Step] = [(10 + n * 0.3, grow) for n in range(20)]
    watched(tmp_path, store, *steps, index=index, changes=Changes(10.1), settle=1.0)
    assert reader.read_documents == ["a.txt", "b.txt"] and len(texts(store, "b.txt")) == 21


def test_a_file_that_is_replaced_is_not_removed(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    steps: list[Step] = [(10, lambda: (tmp_path / "a.txt").unlink()), (10.2, lambda: write(tmp_path, a="two"))]
    seen = watched(tmp_path, store, *steps)
    assert texts(store, "a.txt") == ["two"] and not any(each.removed for each in seen)


def test_its_own_database_starts_no_round(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    reader = LineReader()
    changes = Changes(*range(10, 50), path=".agentscope/knowledge.db-wal")
    seen = watched(tmp_path, store, index=indexer(store, readers=[reader]), changes=changes)
    assert len([each for each in seen if each.phase == "watching"]) == 1


def test_a_broken_document_is_read_again_when_it_changes(tmp_path: Path):
    write(tmp_path, a="BAD", b="two")
    store = InMemoryChunkStore()
    seen = watched(tmp_path, store, (10, lambda: write(tmp_path, c="3")), (20, lambda: write(tmp_path, a="good")))
    reports = [each for each in seen if each.phase == "watching"]
    assert [each.failed for each in reports] == [1, 1, 0] and [str(e) for e in reports[1].errors] != []
    assert ids(store) == ["a.txt", "b.txt", "c.txt"]


def test_a_folder_that_is_removed_fails_and_loses_nothing(tmp_path: Path):
    folder = write(tmp_path / "docs", a="one")
    store = InMemoryChunkStore()
    with pytest.raises(InvalidInputError, match="does not exist"):
        watched(folder, store, (10, lambda: folder.rename(tmp_path / "gone")))
    assert ids(store) == ["a.txt"]


def test_a_watcher_that_fails_ends_the_watch(tmp_path: Path):
    class Failing(FileChanges):
        def of(self, path: Path) -> Flow[frozenset[str]]:
            return throw(KnowledgeError("no more watches"))

    with pytest.raises(KnowledgeError, match="no more watches"):
        watched(tmp_path, InMemoryChunkStore(), changes=Failing())


@pytest.mark.parametrize("seconds", [0, 0.2, 0.7, 1.4, 3.2, 8])
def test_disposal_at_any_moment(tmp_path: Path, seconds: float):
    write(tmp_path, a="1\n2\n3\n")
    store = InMemoryChunkStore()
    index = indexer(store, LetterEmbedding(delay=0.5), readers=[LineReader(delay=0.5)], batch_size=1)
    watched(tmp_path, store, index=index, until=seconds)
    assert texts(store, "a.txt") in ([], ["1\n", "2\n", "3\n"])


def test_without_watchfiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(MissingExtraError, match=r"agentscope-rx\[knowledge\]"):
        indexer().watch(tmp_path).run()


@pytest.mark.parametrize("polling", [False, True])
def test_a_real_watcher(tmp_path: Path, polling: bool):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()

    async def main() -> None:
        reports: asyncio.Queue[IndexProgress] = asyncio.Queue()

        async def until(reached: Callable[[IndexProgress], bool]) -> None:
            while not reached(await reports.get()):
                pass

        changes = FileChanges(debounce=0.1, polling=polling)
        watching = indexer(store).watch(tmp_path, settle=0.05, changes=changes).subscribe(reports.put_nowait)
        await until(lambda report: report.phase == "watching" and report.found == 1)
        write(tmp_path, sub__b="two")
        await until(lambda report: report.phase == "watching" and report.found == 2)
        (tmp_path / "a.txt").unlink()
        await until(lambda report: report.phase == "watching" and report.removed == 1)
        watching.dispose()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert ids(store) == ["sub/b.txt"]
