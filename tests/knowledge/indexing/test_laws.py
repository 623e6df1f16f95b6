"""After any changes and stops, one more run gives the store that a run over the same folder in one go gives."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.knowledge import InMemoryChunkStore
from agentscope_rx.testing import run_virtual
from tests.knowledge.indexing.parts import LineReader, ids, indexer, texts

NAMES = ("a.txt", "b.txt", "sub/a.txt", "sub/deep/c.txt")
CONTENTS = ("one\n", "two\nthree\n", "", "BAD\n", "one\ntwo\nthree\nfour\n")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(CONTENTS)),
        st.tuples(st.just("remove"), st.sampled_from([*NAMES, "sub"]), st.just("")),
        st.tuples(st.just("move"), st.sampled_from([*NAMES, "sub"]), st.just("")),
        st.tuples(st.just("index"), st.floats(0, 8), st.just("")),
    ),
    max_size=12,
)


def do(folder: Path, store: InMemoryChunkStore, step: tuple[str, object, str]) -> None:
    """A change of the folder, or a run that is stopped after so many seconds."""
    what, where, content = step
    if what == "index":
        run_virtual(stopped(folder, store, float(str(where))))
        return
    path = folder / str(where)
    if what == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    elif path.exists() and what == "move":
        shutil.rmtree(folder / "moved", ignore_errors=True)
        (folder / "moved").mkdir()
        path.rename(folder / "moved" / path.name)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


async def stopped(folder: Path, store: InMemoryChunkStore, seconds: float) -> None:
    reader = LineReader(delay=1)
    running = indexer(store, readers=[reader], batch_size=1, max_concurrency=2).folder(folder).subscribe()
    await asyncio.sleep(seconds)
    running.dispose()
    await asyncio.sleep(60)


def contents(store: InMemoryChunkStore) -> dict[str, list[str]]:
    return {id: texts(store, id) for id in ids(store)}


@settings(max_examples=25)
@given(STEPS)
def test_any_way_leads_to_the_same_store(steps: list[tuple[str, object, str]]):
    with TemporaryDirectory() as name:
        folder = Path(name)
        store = InMemoryChunkStore()
        for step in steps:
            do(folder, store, step)
        report = indexer(store).folder(folder).run()
        whole = InMemoryChunkStore()
        fresh = indexer(whole).folder(folder).run()
        assert report.found == fresh.found == report.done + report.unchanged + report.failed
        # (a document that is broken now keeps what it had)
        broken = {each.document for each in fresh.errors}
        found, wanted = contents(store), contents(whole)
        assert {id: found[id] for id in found if id not in broken} == wanted
        assert indexer(store).folder(folder).run().done == 0
