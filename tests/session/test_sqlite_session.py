"""`SqliteSession`: what it costs, where its file is, how it waits, disposal and forks."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, SessionLockedError
from agentscope_rx.reactive import WORKERS
from agentscope_rx.session import ListTail, Saved, SqliteSession
from agentscope_rx.session.entry import encode
from agentscope_rx.session.sqlite import connections
from agentscope_rx.session.sqlite.tables import Tables
from agentscope_rx.testing import run_virtual
from tests.session.statements import Statements

MESSAGE = {"name": "Ann", "role": "user", "content": [{"type": "text", "text": "Hello! " * 20}]}


def messages(count: int) -> list[object]:
    return [{**MESSAGE, "id": f"{number:032x}"} for number in range(count)]


# -- costs


@contextmanager
def counted(calls: list[str]) -> Iterator[None]:
    """The Python calls of this thread, by name."""

    def note(frame: Any, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_qualname if event == "call" else getattr(arg, "__qualname__", ""))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def cost_of_a_save(path: Path, count: int) -> tuple[list[str], int, int]:
    """The statements, Python calls and pages of a save of two messages behind that many."""
    statements = Statements()
    calls: list[str] = []
    real = connections.Connections.writing

    @contextmanager
    def writing(self: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        with real(self, *args, **kwargs) as db, counted(calls):
            yield db

    with statements.watched():
        session = SqliteSession(path)
        version = session.save_all("k", {"state": 0}, {"memory": messages(count)}).run()
        # a log from its beginning, so that its size is that of the save
        other = sqlite3.connect(path)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        statements.seen.clear()
        tail = ListTail(messages(2), count)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections.Connections, "writing", writing)
            session.save_all("k", {"state": 1}, {"memory": tail}, expected=version).run()
        pages = (Path(f"{path}-wal").stat().st_size - 32) // (4096 + 24)
        other.close()
        session.close().run()
    return [each.split("(")[0].split("'")[0] for each in statements.seen], len(calls), pages


def test_a_save_costs_the_same_behind_10_and_10000_items(tmp_path: Path):
    """Statements and Python calls are the same; the trees of the tables are up to two levels deeper."""
    few, few_calls, few_pages = cost_of_a_save(tmp_path / "few.db", 10)
    many, many_calls, many_pages = cost_of_a_save(tmp_path / "many.db", 10_000)
    assert len(many) == len(few) < 15
    # a collection of garbage calls the callbacks that are registered for it
    assert abs(many_calls - few_calls) <= 20
    assert many_pages <= few_pages + 4 and many_pages < 15


def test_a_whole_list_that_grew_writes_what_is_new(tmp_path: Path):
    session = SqliteSession(tmp_path / "s.db")
    items = messages(1000)
    session.save_list("k", "memory", items).run()
    statements = Statements()
    with statements.watched():
        again = SqliteSession(tmp_path / "s.db")
        again.save_list("k", "memory", [*items, "new"]).run()
        assert sum(each.startswith("INSERT") for each in statements.seen) == 1
        again.save_list("k", "memory", [*items[:400], "other", *items[401:]]).run()
        assert again.load_list("k", "memory").run() == [*items[:400], "other", *items[401:]]
        version = again.load_all("k", []).run().version
        statements.seen.clear()
        again.save_list("k", "memory", [*items[:400], "other", *items[401:]]).run()
        assert not any(each.startswith(("INSERT", "UPDATE", "DELETE")) for each in statements.seen)
        assert again.load_all("k", []).run().version == version


def test_a_part_reads_only_the_entries_of_its_names(tmp_path: Path):
    SqliteSession(tmp_path / "s.db").save_all("k", {"state": 1}, {"memory": messages(50), "other": [1]}).run()
    statements = Statements()
    with statements.watched():
        session = SqliteSession(tmp_path / "s.db")
        assert session.load_all("k", ["state", "gone", "state"]).run() == Saved({"state": 1})
    assert not any("FROM items" in each for each in statements.seen)
    assert sum("FROM entries" in each for each in statements.seen) == 2


def test_the_deletion_of_10000_items_is_one_step(tmp_path: Path):
    statements = Statements()
    with statements.watched():
        session = SqliteSession(tmp_path / "s.db")
        session.save_all("k", {"state": 1}, {"memory": messages(10_000)}).run()
        session.save_all("other", {"state": 1}, {"memory": [1]}).run()
        statements.seen.clear()
        assert session.delete("k").run() is True
    kinds = [each.split(maxsplit=1)[0] for each in statements.seen]
    assert kinds == ["BEGIN", "SELECT", "DELETE", "DELETE", "DELETE", "COMMIT"]
    assert session.load_all("other").run() == Saved({"state": 1}, {"memory": [1]})
    session.close().run()
    with sqlite3.connect(tmp_path / "s.db") as found:
        assert found.execute("SELECT count(*) FROM items").fetchone() == (1,)
    found.close()


def test_10000_conversations_in_one_file(tmp_path: Path):
    """What an operation on one of them takes does not depend on their number."""
    statements = Statements()
    kinds: list[list[str]] = []
    with statements.watched():
        session = SqliteSession(tmp_path / "s.db")
        for number in (1, 10_000):
            session.save("user 0", "state", number).run()
            with session._connections.writing("all", make=True) as db:
                assert db is not None
                tables = Tables(db, session.path)
                for each in range(1, number):
                    tables.write(f"user {each}", encode(f"user {each}", {"state": each}, {"memory": [each]}))
            assert len(session.keys().run()) == number
            statements.seen.clear()
            session.save_all("user 0", {"state": "new"}, {"memory": ListTail([number])}).run()
            assert session.load_all("user 0").run().values == {"state": "new"}
            kinds.append([each.split(maxsplit=1)[0] for each in statements.seen])
            session.remove("user 0", "memory").run()
    assert kinds[0] == kinds[1] and len(kinds[0]) < 20
    assert session.load_all("user 9999").run() == Saved({"state": 9999}, {"memory": [9999]})
    assert session.keys().run() == sorted(f"user {number}" for number in range(10_000))


# -- the file


def test_the_file_is_private_and_made_by_the_first_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    session = SqliteSession("~/chat.db")
    assert repr(session) == "<SqliteSession in ~/chat.db>"
    for operation in (session.load_all("k"), session.delete("k"), session.save_all("k", {}), session.latest()):
        operation.run()
    assert session.keys().run() == [] and list(tmp_path.iterdir()) == []
    session.save("k", "n", 1).run()
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    session.close().run()
    session.close().run()
    assert [path.name for path in tmp_path.iterdir()] == ["chat.db"], "the log is in the file"
    assert session.load("k", "n").run() == 1, "it opens again"


def test_stores_of_one_file_share_its_connections(tmp_path: Path):
    opened: list[sqlite3.Connection] = []
    statements = Statements()
    statements.on_open = opened.append
    with statements.watched():
        stores = [SqliteSession(tmp_path / "s.db") for _ in range(100)]
        for number, store in enumerate(stores):
            store.save("k", f"n{number}", number).run()
        assert len(stores[0].load_all("k").run().values) == 100 and len(opened) == 1
        shared = stores[0]._connections
        assert shared._users == 100 and len(shared._kept) == 1
        for _ in stores[1:]:
            shared.release()
        assert shared._kept, "another store has it still"
        shared.release()
        assert not shared._kept
        # the stores release it again when they are collected
        shared._users += len(stores)


def test_a_path_with_any_characters_is_a_path(tmp_path: Path):
    odd = tmp_path / "a b?c=d&e#f%41é.db"
    SqliteSession(odd).save("k", "n", 1).run()
    assert odd.exists() and SqliteSession(odd).load("k", "n").run() == 1


@pytest.mark.parametrize("wrong", ["", " ", "a\0b", ":memory:", b"x.db"])
def test_what_is_no_path_of_a_file_is_refused(wrong: Any):
    with pytest.raises(ConfigurationError, match="takes the path of a file"):
        SqliteSession(wrong)


def test_settings_are_checked_and_used(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="synchronous must be"):
        SqliteSession(tmp_path / "s.db", synchronous="off")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="lock_timeout"):
        SqliteSession(tmp_path / "s.db", lock_timeout=-1)
    for setting, level in (("full", 2), ("normal", 1)):
        opened: list[sqlite3.Connection] = []
        statements = Statements()
        statements.on_open = opened.append
        with statements.watched():
            session = SqliteSession(tmp_path / "s.db", synchronous=setting)  # type: ignore[arg-type]
            session.save("k", "n", setting).run()
        assert opened[0].execute("PRAGMA synchronous").fetchone() == (level,)
        assert opened[0].execute("PRAGMA journal_mode").fetchone() == (b"wal",)
        session.close().run()


def test_a_file_that_was_removed_or_replaced_is_used_anew(tmp_path: Path):
    path, backup = tmp_path / "s.db", SqliteSession(tmp_path / "copy.db")
    backup.save("k", "n", "copy").run()
    backup.close().run()
    session = SqliteSession(path)
    session.save("k", "n", 1).run()
    for file in tmp_path.glob("s.db*"):
        file.unlink()
    assert session.load("k", "n").run() is None
    session.save("k", "n", 2).run()
    session.close().run()
    with sqlite3.connect(path) as found:
        assert found.execute("SELECT line FROM entries").fetchall() == [("2",)], "it is in the file of that name"
    found.close()
    session.load("k", "n").run()
    os.replace(backup.path, path)
    assert session.load("k", "n").run() == "copy"


def test_latest_is_the_session_saved_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = SqliteSession(tmp_path / "s.db")
    assert session.latest().run() is None
    for number, key in enumerate(["a", "c", "b", "a"]):
        session.save(key, "n", number).run()
    assert session.latest().run() == "a"
    session.delete("a").run()
    assert session.latest().run() == "b"


# -- waiting for other writers


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another writer is in a transaction."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_change_waits_for_other_writers_by_the_loops_clock(tmp_path: Path):
    async def main() -> None:
        session = SqliteSession(tmp_path / "s.db")
        await session.save("k", "n", 1)
        loop = asyncio.get_running_loop()
        with held(tmp_path / "s.db"):
            assert await session.load("k", "n") == 1, "readers do not wait"
            loop.call_later(0.5, release.set)
            saving = session.save("k", "n", 2).as_task()
            await release.wait()
            assert not saving.done()
        await saving
        assert await session.load("k", "n") == 2
        assert 0.5 <= loop.time() < 1

    release = asyncio.Event()
    run_virtual(main())


def test_a_writer_that_never_ends_is_an_error_in_time(tmp_path: Path):
    async def main() -> None:
        session = SqliteSession(tmp_path / "s.db", lock_timeout=5)
        await session.save("k", "n", 1)
        for operation in (session.save("k", "n", 2), session.delete("k"), session.remove("k", "n")):
            began = asyncio.get_running_loop().time()
            with held(tmp_path / "s.db"), pytest.raises(SessionLockedError) as caught:
                await operation
            assert 5 <= asyncio.get_running_loop().time() - began < 5.1
            assert caught.value.retryable and caught.value.file == str(tmp_path / "s.db")
        assert await session.load("k", "n") == 1

    run_virtual(main())


def test_leaving_while_it_waits_writes_nothing(tmp_path: Path):
    async def main() -> None:
        session = SqliteSession(tmp_path / "s.db")
        await session.save("k", "n", 1)
        with held(tmp_path / "s.db"):
            saving = session.save("k", "n", 2).subscribe()
            await asyncio.sleep(1)
            saving.dispose()
        await asyncio.sleep(1)
        assert await session.load("k", "n") == 1

    run_virtual(main())


def test_of_many_saves_at_once_none_is_lost(tmp_path: Path):
    async def main() -> None:
        session = SqliteSession(tmp_path / "s.db")
        await asyncio.gather(*(session.save(f"k{number % 7}", f"n{number}", number) for number in range(100)))
        found = [await session.load_all(key) for key in await session.keys()]
        assert sorted(value for saved in found for value in saved.values.values()) == list(range(100))

    asyncio.run(main())


# -- leaving


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_disposal_during_a_write_lets_it_end(tmp_path: Path):
    """At every statement of it; what is saved afterwards comes afterwards."""

    async def main(path: Path, place: int) -> bool:
        await SqliteSession(path).save_all("k", {"n": 1}, {"l": [1]})
        reached, go_on = threading.Event(), threading.Event()
        statements = Statements()

        def hold(number: int, statement: str) -> None:
            if number == place:
                reached.set()
                assert go_on.wait(20)

        statements.on_statement = hold
        heard: list[object] = []
        with statements.watched():
            session = SqliteSession(path)
            saving = session.save_all("k", {"n": 2}, {"l": [1, 2]}).subscribe(heard.append, heard.append)
            await until(lambda: reached.is_set() or heard)
            saving.dispose()
            after = session.save_all("k", {"n": 3}).as_task()
            assert heard or await SqliteSession(path).load_all("k") in (first, second)
            go_on.set()
            await after
        await until(lambda: not WORKERS.outstanding)
        found = await SqliteSession(path).load_all("k")
        # before its transaction has begun a write that was left does not begin
        assert found.values == {"n": 3} and found.lists["l"] in ([1], [1, 2])
        return not heard

    first, second = Saved({"n": 1}, {"l": [1]}), Saved({"n": 2}, {"l": [1, 2]})
    place = 0
    while run_virtual(main(tmp_path / f"{place}.db", place)):
        place += 1
    assert place > 8


def test_a_write_disposed_before_it_begins_does_not_begin(tmp_path: Path):
    async def main() -> None:
        session = SqliteSession(tmp_path / "s.db")
        for number in range(20):
            session.save("k", "n", number).subscribe().dispose()
            await session.save("k", "n", "after")
            assert await session.load("k", "n") == "after"

    run_virtual(main())


def test_the_database_is_never_used_on_the_loop(tmp_path: Path):
    async def main() -> set[str]:
        threads: set[str] = set()
        statements = Statements()
        statements.on_statement = lambda number, statement: threads.add(threading.current_thread().name)
        with statements.watched():
            session = SqliteSession(tmp_path / "s.db")
            await session.save_all("k", {"n": 1}, {"l": [1]})
            await session.load_all("k")
            await session.keys()
            await session.remove("k", "n")
            await session.delete("k")
            await session.close()
        return threads

    assert run_virtual(main()) == {"agentscope-rx-engine"}


# -- forks


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a forked child that does this."""
    with warnings.catch_warnings():
        # Python 3.12 warns of forks of processes with threads: that is the subject here
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        status = 1
        # a child that hangs ends
        signal.alarm(60)
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_parent_and_child_go_on_with_one_store(tmp_path: Path):
    session = SqliteSession(tmp_path / "s.db")
    session.save("k", "n", 0).run()

    def child() -> None:
        assert not session._connections._kept, "the parent's connections were closed before the fork"
        for number in range(20):
            session.save("child", f"n{number}", number).run()
        assert session.load("k", "n").run() == 0

    assert in_child(child) == 0
    session.save("k", "n", 1).run()
    assert len(session.load_all("child").run().values) == 20
    with sqlite3.connect(tmp_path / "s.db") as found:
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    # not left to the garbage collector, which may be at it in another thread when the next test forks
    found.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_waits_for_saves_in_progress(tmp_path: Path):
    session = SqliteSession(tmp_path / "s.db")
    done = threading.Event()
    numbers = iter(range(100_000))

    def save() -> None:
        while not done.is_set():
            session.save("parent", f"n{(number := next(numbers)) % 50}", number).run()

    writers = [threading.Thread(target=save) for _ in range(2)]
    for thread in writers:
        thread.start()
    try:
        for number in range(5):
            assert in_child(lambda number=number: session.save("child", f"n{number}", number).run()) == 0
    finally:
        done.set()
        for thread in writers:
            thread.join()
    assert len(session.load_all("child").run().values) == 5
    session.load_all("parent").run()
