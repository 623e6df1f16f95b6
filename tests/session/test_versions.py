"""A save may state the version that it is based on: what another writer has changed since is never overwritten."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import SessionConflictError
from agentscope_rx.session import InMemorySession, Saved, Session
from agentscope_rx.testing import run_virtual
from tests.session.stores import EACH_ON_DISK, ON_DISK, STORES, Make

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(params=list(STORES))
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return STORES[request.param](tmp_path / "sessions")


def test_a_conflict_names_both_versions_and_changes_nothing(session: Session):
    first = session.save_all("k", {"v": 1}, {"l": [1]}).run()
    second = session.save_all("k", {"v": 2}).run()
    for expected in (None, first):
        with pytest.raises(SessionConflictError, match="Nothing was written") as caught:
            session.save_all("k", {"v": 9, "w": 9}, {"l": [9]}, expected=expected).run()
        error = caught.value
        assert (error.key, error.expected, error.found) == ("k", expected, second)
        assert f"version {second}" in str(error) and (f"version {first}" if expected else "no session") in str(error)
    assert session.load_all("k").run() == Saved({"v": 2}, {"l": [1]})
    assert session.save_all("k", {"v": 3}, expected=session.load_all("k").run().version).run()


def test_a_session_that_is_gone_is_not_made_again(session: Session, tmp_path: Path):
    version = session.save_all("k", {"v": 1}).run()
    session.delete("k").run()
    with pytest.raises(SessionConflictError) as caught:
        session.save_all("k", {"v": 2}, expected=version).run()
    assert caught.value.found is None and not session.exists("k").run()
    assert not (tmp_path / "sessions" / "k").exists()


def test_a_save_of_nothing_checks_its_version_too(session: Session):
    assert session.save_all("k", {}, expected=None).run() is None and session.keys().run() == []
    with pytest.raises(SessionConflictError):
        session.save_all("k", {}, expected="1").run()
    version = session.save_all("k", {"v": 1}).run()
    assert session.save_all("k", {}, expected=version).run() == version
    with pytest.raises(SessionConflictError):
        session.save_all("k", {}, expected=None).run()


def test_what_is_the_same_keeps_its_version(session: Session):
    version = session.save_all("k", {"v": 1}, {"l": [1]}).run()
    assert session.save_all("k", {"v": 1}, {"l": [1]}, expected=version).run() == version


@EACH_ON_DISK
def test_two_objects_of_one_place_are_one_session(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    one, other = make(tmp_path / "s"), make(Path("s"))
    assert one == other and hash(one) == hash(other) and one != make(Path("t")) and one != InMemorySession()
    version = one.save_all("k", {"v": 1}).run()
    assert other.save_all("k", {"v": 2}, expected=version).run() != version


def test_of_writers_at_once_one_wins(session: Session):
    async def main() -> None:
        before = await session.save_all("k", {"v": 0})
        saves = [session.save_all("k", {"v": n}, expected=before).as_task() for n in range(1, 6)]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        won = [n for n, outcome in enumerate(outcomes, 1) if not isinstance(outcome, BaseException)]
        assert len(won) == 1 and await session.load("k", "v") == won[0]
        assert sum(isinstance(outcome, SessionConflictError) for outcome in outcomes) == 4

    run_virtual(main())


COUNTER = """
import sys
from pathlib import Path
from agentscope_rx.errors import SessionConflictError
from tests.session.stores import ON_DISK

session, lost, done = ON_DISK[sys.argv[1]](Path(sys.argv[2])), 0, 0
while done < 25:
    saved = session.load_all("k").run()
    try:
        session.save_all("k", {"n": saved.values.get("n", 0) + 1}, expected=saved.version).run()
        done += 1
    except SessionConflictError:
        lost += 1
print(lost)
"""


@pytest.mark.parametrize("kind", list(ON_DISK))
def test_programs_that_count_together_lose_no_count(kind: str, tmp_path: Path):
    command = [sys.executable, "-c", COUNTER, kind, str(tmp_path)]
    programs = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        for program in programs:
            program.communicate(timeout=120)
            assert program.returncode == 0
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert ON_DISK[kind](tmp_path).load("k", "n").run() == 75


# what a writer does: read, save at what it has read, save without, delete
steps = st.lists(
    st.tuples(st.sampled_from(["read", "save", "save", "replace", "delete"]), st.integers(0, 1), st.integers(0, 2)),
    max_size=20,
)


@pytest.mark.parametrize("kind", list(STORES))
@given(steps)
@settings(max_examples=40)
def test_a_save_replaces_only_what_was_read(kind: str, tmp_path_factory: pytest.TempPathFactory, done: list[Any]):
    session = STORES[kind](tmp_path_factory.mktemp("s"))
    stored: int | None = None
    # what each writer has read, and at which version
    known: list[tuple[int | None, str | None]] = [(None, None), (None, None)]
    for step, who, value in done:
        if step == "read":
            found = session.load_all("k").run()
            known[who] = (stored, found.version)
            assert found.values.get("v") == stored
        elif step == "delete":
            session.delete("k").run()
            stored = None
        elif step == "replace":
            known[who] = (value, session.save_all("k", {"v": value}).run())
            stored = value
        else:
            believed, version = known[who]
            try:
                known[who] = (value, session.save_all("k", {"v": value}, expected=version).run())
            except SessionConflictError:
                found = session.load_all("k").run()
                assert found.version != version and found.values.get("v") == stored
            else:
                assert believed == stored, "what it replaced is what it had read"
                stored = value
