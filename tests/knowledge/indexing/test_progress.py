"""The progress of indexing: rate and time left, slow and failing subscribers, disposal at each moment, memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentscope_rx.knowledge import IndexProgress, InMemoryChunkStore
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.knowledge.indexing.parts import LetterEmbedding, LineReader, ids, indexer, texts, write


def listened(source: object) -> list[IndexProgress]:
    async def main() -> list[IndexProgress]:
        return [each async for each in source]  # type: ignore[attr-defined]

    return run_virtual(main())


def test_rate_and_time_left(tmp_path: Path):
    # 10 documents of 100 bytes, each read in 10 s
    write(tmp_path, **{f"d{n}": "123456789\n" * 10 for n in range(10)})
    reader = LineReader(delay=1)
    seen = listened(indexer(readers=[reader], max_concurrency=1, batch_size=1).folder(tmp_path))
    middle = next(each for each in seen if each.bytes_done >= 500 and each.current)
    assert middle.phase == "indexing" and middle.bytes_total == 1000
    assert middle.rate == pytest.approx(10, rel=0.1) and middle.time_left == pytest.approx(50, rel=0.2)
    assert middle.elapsed == pytest.approx(50, rel=0.1) and middle.current.startswith("d")
    assert seen[-1].elapsed == pytest.approx(100, rel=0.05) and seen[-1].time_left == 0
    assert [each.bytes_done for each in seen] == sorted(each.bytes_done for each in seen)
    phases = list(dict.fromkeys(each.phase for each in seen))
    assert phases[0] == "looking" and phases[-2:] == ["indexing", "done"]


def test_what_is_unchanged_counts_for_no_rate(tmp_path: Path):
    write(tmp_path, a="x" * 10_000, b="y" * 10_000)
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()
    write(tmp_path, c="z" * 100)
    report = indexer(store).folder(tmp_path).run()
    assert (report.unchanged, report.done, report.bytes_total) == (2, 1, 100)


def test_a_slow_subscriber_slows_nothing(tmp_path: Path):
    write(tmp_path, **{f"d{n}": "x\n" * 50 for n in range(20)})
    reader = LineReader(delay=0.1)

    async def main() -> list[IndexProgress]:
        seen: list[IndexProgress] = []
        async with indexer(readers=[reader], max_concurrency=1, batch_size=1).folder(tmp_path).buffered(1) as progress:
            async for each in progress:
                seen.append(each)
                await asyncio.sleep(30)
        return seen

    seen = run_virtual(main())
    # 100 s of work, of which this subscriber sees every thirtieth second
    assert seen[-1].elapsed == pytest.approx(100, rel=0.05) and len(seen) < 8


def test_values_are_at_most_ten_a_second(tmp_path: Path):
    write(tmp_path, **{f"d{n}": "x\n" * 100 for n in range(5)})
    seen = listened(indexer(readers=[LineReader(delay=0.01)], max_concurrency=1, batch_size=1).folder(tmp_path))
    assert len(seen) <= 5 * 10 + 3


def test_a_subscriber_that_raises_stops_the_run(tmp_path: Path):
    write(tmp_path, **{f"d{n}": "x\n" for n in range(5)})
    store = InMemoryChunkStore()

    async def main() -> None:
        def fail(progress: IndexProgress) -> None:
            if progress.done:
                raise ValueError("a fault of the subscriber")

        with collect_dropped() as dropped:
            indexer(store, LetterEmbedding(delay=1), max_concurrency=1).folder(tmp_path).subscribe(fail)
            await asyncio.sleep(60)
        assert [str(each) for each in dropped] == ["a fault of the subscriber"]

    run_virtual(main())
    assert 1 <= len(ids(store)) < 5


@pytest.mark.parametrize("seconds", [0, 0.5, 1.5, 2.5, 3.5, 5.5, 8.5, 11.5])
def test_disposal_leaves_whole_documents(tmp_path: Path, seconds: float):
    write(tmp_path, a="old", b="b1\nb2\n", c="c1\n", d="d1\nd2\nd3\n")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path, prefix="").run()
    write(tmp_path, a="new1\nnew2\n", b="b1\nb2\nb3\n", e="e1\ne2\n")
    (tmp_path / "c.txt").unlink()
    reader = LineReader(delay=1)

    async def main() -> None:
        running = indexer(store, readers=[reader], batch_size=1, max_concurrency=2).folder(tmp_path).subscribe()
        await asyncio.sleep(seconds)
        running.dispose()
        await asyncio.sleep(100)

    run_virtual(main())
    assert texts(store, "a.txt") in (["old"], ["new1\n", "new2\n"])
    assert texts(store, "b.txt") in (["b1\n", "b2\n"], ["b1\n", "b2\n", "b3\n"])
    assert texts(store, "e.txt") in ([], ["e1\n", "e2\n"])
    # the next run does the rest, and the same comes out
    before = {each for each in ("a.txt", "b.txt", "e.txt") if texts(store, each)[:1] in (["new1\n"], ["e1\n"])}
    report = indexer(store).folder(tmp_path).run()
    assert report.failed == 0 and report.done <= 3 - len(before)
    assert ids(store) == ["a.txt", "b.txt", "d.txt", "e.txt"] and len(texts(store, "b.txt")) == 3


def test_a_large_document_is_read_as_it_is_written(tmp_path: Path):
    write(tmp_path, a="x\n" * 1000)
    reader = LineReader()
    ahead: list[int] = []

    class Noting(LetterEmbedding):
        def do_embed(self, batch):  # type: ignore[no-untyped-def]
            ahead.append(reader.read_lines - sum(self.batches))
            return super().do_embed(batch)

    report = indexer(InMemoryChunkStore(), Noting(delay=0.001), readers=[reader], batch_size=10).folder(tmp_path).run()
    assert report.chunks == 1000
    # the batch itself, the one that waits, and what is being read
    assert max(ahead) <= 40


def test_documents_at_once_are_bounded(tmp_path: Path):
    write(tmp_path, **{f"d{n:02}": "x\n" for n in range(20)})
    most = 0

    class Counting(LetterEmbedding):
        active = 0

        def do_embed(self, batch):  # type: ignore[no-untyped-def]
            nonlocal most
            most = max(most, len(reader.read_documents) - finished())
            return super().do_embed(batch)

    reader, store = LineReader(), InMemoryChunkStore()

    def finished() -> int:
        return len(store._kept)

    run_virtual(indexer(store, Counting(delay=1), readers=[reader], max_concurrency=3).folder(tmp_path))
    assert most == 3
