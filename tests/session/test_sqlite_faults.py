"""Faults under the SQLite store. After each of them the old state or the new one is there as a whole, and the error is
typed.

| fault                  | made by                                                                        |
|------------------------|--------------------------------------------------------------------------------|
| power cut              | copies of the files as they are before each statement of a change               |
| torn write             | a log that is cut at a byte, and pages overwritten in the middle                |
| full disk              | `PRAGMA max_page_count`, and RLIMIT_FSIZE in a process of its own               |
| read-only              | permissions, in a process of its own without root's rights                      |
| clock jump             | another `time.time`                                                             |
| damage                 | cut, overwritten and foreign files, changed and missing rows                    |
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx.errors import SessionDamagedError, SessionError, SessionFormatError, SessionStorageError
from agentscope_rx.session import ListTail, Saved, SqliteSession
from tests.session.statements import Statements

ROOT = Path(__file__).parent.parent.parent
OLD = Saved({"state": {"turn": 1}, "big": "x" * 9000}, {"memory": ["one", "two"], "other": [1]})
NEW = Saved({"state": {"turn": 2}, "big": "y" * 9000}, {"memory": ["one", "two", "three"], "other": [2]})


def prepared(path: Path) -> SqliteSession:
    session = SqliteSession(path)
    session.save_all("k", OLD.values, OLD.lists).run()
    return session


def save(session: SqliteSession) -> object:
    return session.save_all("k", NEW.values, {"memory": ListTail(["three"]), "other": [2]}).run()


def delete(session: SqliteSession) -> object:
    return session.delete("k").run()


def remove(session: SqliteSession) -> object:
    return session.remove("k", "memory").run()


CHANGES = pytest.mark.parametrize(
    ("change", "after"),
    [(save, NEW), (delete, Saved()), (remove, Saved(OLD.values, {"other": [1]}))],
    ids=["save", "delete", "remove"],
)


def copied(path: Path, to: Path) -> Path:
    """The file and its log as they are now: what a machine has after a power cut."""
    to.mkdir()
    for each in (path, Path(f"{path}-wal")):
        if each.exists():
            shutil.copy(each, to / each.name)
    return to / path.name


def goes_on(path: Path) -> None:
    session = SqliteSession(path)
    session.save_all("k", {"state": 9}, {"memory": ["begun anew"]}).run()
    assert session.load_all("k", ["state", "memory"]).run() == Saved({"state": 9}, {"memory": ["begun anew"]})
    assert session.delete("k").run() is True and session.keys().run() == []
    session.close().run()


# -- power cuts and torn writes


@CHANGES
def test_the_power_goes_before_each_statement(tmp_path: Path, change: Callable[[SqliteSession], object], after: Saved):
    prepared(tmp_path / "s.db").close().run()
    statements = Statements()
    copies: list[Path] = []
    statements.on_statement = lambda number, statement: copies.append(copied(tmp_path / "s.db", tmp_path / f"{number}"))
    with statements.watched():
        session = SqliteSession(tmp_path / "s.db")
        change(session)
    assert len(copies) > 8
    for path in copies:
        assert SqliteSession(path).load_all("k").run() == OLD, "nothing is there before the end of the commit"
        goes_on(path)
    last = copied(tmp_path / "s.db", tmp_path / "last")
    assert SqliteSession(last).load_all("k").run() == after, "all is there when it is reported"


@CHANGES
def test_a_log_cut_at_any_byte_is_the_old_or_the_new_state(
    tmp_path: Path, change: Callable[[SqliteSession], object], after: Saved
):
    prepared(tmp_path / "s.db").close().run()
    session = SqliteSession(tmp_path / "s.db")
    change(session)
    whole = Path(f"{tmp_path / 's.db'}-wal").stat().st_size
    found: list[Saved] = []
    for number, size in enumerate([*sorted(random.Random(1).sample(range(whole), 40)), whole - 1, whole]):
        path = copied(tmp_path / "s.db", tmp_path / f"{number}")
        os.truncate(f"{path}-wal", size)
        found.append(SqliteSession(path).load_all("k").run())
        goes_on(path)
    assert found == [OLD] * (len(found) - 1) + [after]


def test_a_log_with_flipped_bytes_is_never_half_a_save(tmp_path: Path):
    prepared(tmp_path / "s.db").close().run()
    session = SqliteSession(tmp_path / "s.db")
    save(session)
    whole = Path(f"{tmp_path / 's.db'}-wal").stat().st_size
    for number in range(40):
        path = copied(tmp_path / "s.db", tmp_path / f"{number}")
        overwrite(Path(f"{path}-wal"), random.Random(number).randrange(whole))
        assert SqliteSession(path).load_all("k").run() in (OLD, NEW)


def overwrite(path: Path, place: int, data: bytes | None = None) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        found = file.read(1)
        file.seek(place)
        file.write(data or bytes([found[0] ^ 0x55]))


def test_damaged_bytes_are_an_error_or_make_no_difference(tmp_path: Path):
    """Whatever byte of the file changes: what is loaded is what was saved, or the error says that it is not."""
    prepared(tmp_path / "s.db").close().run()
    whole = (tmp_path / "s.db").stat().st_size
    faults = 0
    for number in range(150):
        path = copied(tmp_path / "s.db", tmp_path / f"{number}")
        chance = random.Random(number)
        overwrite(path, chance.randrange(whole), chance.randbytes(chance.choice([1, 1, 30, 600])))
        try:
            saved = SqliteSession(path).load_all("k").run()
        except SessionError:
            faults += 1
        else:
            # the row of the session itself has no sum: a key that has changed is another session
            assert saved in (OLD, Saved())
    assert faults > 10


# -- damage


@pytest.mark.parametrize("size", [1, 100, 4095, 5000, 8192])
def test_a_file_that_was_cut_is_damaged(tmp_path: Path, size: int):
    path = tmp_path / "s.db"
    prepared(path).close().run()
    os.truncate(path, size)
    session = SqliteSession(path)
    for operation in (session.load_all("k"), session.save("k", "n", 1), session.keys(), session.delete("k")):
        with pytest.raises(SessionDamagedError, match="Put back a copy of it") as caught:
            operation.run()
        assert caught.value.file == str(path) and str(path) in str(caught.value)
    assert path.stat().st_size == size, "nothing was changed"


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path):
    path = tmp_path / "notes.db"
    path.write_text("Things to do. " * 100)
    session = SqliteSession(path)
    for operation in (session.load_all("k"), session.save("k", "n", 1), session.keys()):
        with pytest.raises(SessionDamagedError, match="not a database"):
            operation.run()
    assert path.read_text() == "Things to do. " * 100
    assert [each.name for each in tmp_path.iterdir()] == ["notes.db"]


def test_a_database_of_another_program_is_left_alone(tmp_path: Path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as theirs:
        theirs.execute("CREATE TABLE sessions (id, text)")
    theirs.close()
    before = path.read_bytes()
    for operation in (SqliteSession(path).load_all("k"), SqliteSession(path).save("k", "n", 1)):
        with pytest.raises(SessionStorageError, match="of another program; give SqliteSession a file of its own"):
            operation.run()
    assert path.read_bytes() == before


def changed(path: Path, *statements: str) -> SqliteSession:
    """The store after another program has meddled with its tables."""
    prepared(path).close().run()
    with sqlite3.connect(path) as other:
        for statement in statements:
            other.execute(statement)
    other.close()
    return SqliteSession(path)


def test_a_newer_format_is_left_alone(tmp_path: Path):
    session = changed(tmp_path / "s.db", "PRAGMA user_version = 7")
    for operation in (session.load_all("k"), session.save("k", "n", 1), session.remove("k", "state"), session.keys()):
        with pytest.raises(SessionFormatError, match=r"has format 7, and this version .* reads format 1") as caught:
            operation.run()
        assert (caught.value.found, caught.value.file) == (7, str(tmp_path / "s.db"))


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("UPDATE entries SET line = '{\"turn\":3}' WHERE name = 'state'", "state"),
        ("UPDATE items SET line = '\"tvo\"' WHERE line = '\"two\"'", "memory"),
        ("DELETE FROM items WHERE line = '\"one\"'", "memory"),
        ("DELETE FROM items WHERE line = '\"two\"'", "memory"),
        ("DELETE FROM items WHERE line LIKE '%o%'", "memory"),
        ("UPDATE items SET idx = 1 - idx + 10 WHERE line LIKE '%o%'", "memory"),
        ("UPDATE entries SET items = 1 WHERE name = 'memory'", "memory"),
    ],
)
def test_a_changed_row_is_found_and_harms_no_other_entry(tmp_path: Path, statement: str, name: str):
    session = changed(tmp_path / "s.db", statement)
    for operation in (session.load_all("k"), session.load_all("k", [name])):
        with pytest.raises(SessionDamagedError, match=f"entry '{name}'") as caught:
            operation.run()
        assert caught.value.key == "k" and f"remove('k', '{name}')" in str(caught.value)
    assert session.load_all("k", ["other", "big"]).run() == Saved({"big": OLD.values["big"]}, {"other": [1]})
    session.save("k", "more", 1).run()
    # the whole entry again repairs it, and so does its removal
    session.save_all("k", {"state": {"turn": 1}}, {"memory": ["one", "two"]}).run()
    assert session.load_all("k", ["state", "memory"]).run() == Saved({"state": {"turn": 1}}, {"memory": ["one", "two"]})
    assert session.remove("k", name).run() is True


def test_a_tail_behind_a_missing_item_is_refused(tmp_path: Path):
    session = changed(tmp_path / "s.db", "DELETE FROM items WHERE line = '\"one\"'")
    with pytest.raises(SessionDamagedError, match="item 0 is missing"):
        session.save_all("k", {}, {"memory": ListTail(["x"], 1)}).run()


def test_a_missing_table_is_damage(tmp_path: Path):
    session = changed(tmp_path / "s.db", "DROP TABLE items")
    with pytest.raises(SessionDamagedError, match="no such table: items"):
        session.load_all("k").run()


# -- the disk and the folder


def test_a_folder_that_is_missing_is_named(tmp_path: Path):
    session = SqliteSession(tmp_path / "not there" / "s.db")
    for operation in (session.load_all("k"), session.save("k", "n", 1), session.keys(), session.delete("k")):
        with pytest.raises(SessionStorageError, match=r"there is no folder .*not there; make it first"):
            operation.run()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path):
    with pytest.raises(SessionStorageError) as caught:
        SqliteSession(tmp_path).save("k", "n", 1).run()
    assert caught.value.file == str(tmp_path) and "unable to open" in str(caught.value)


def test_a_full_database_leaves_the_old_state_whole(tmp_path: Path):
    prepared(tmp_path / "s.db").close().run()
    limit = 0
    statements = Statements()
    statements.on_open = lambda db: db.execute(f"PRAGMA max_page_count = {limit}") if limit else None
    with statements.watched():
        session = SqliteSession(tmp_path / "s.db")
        limit = (tmp_path / "s.db").stat().st_size // 4096 + 1
        for _ in range(3):
            with pytest.raises(SessionStorageError, match=r"full\. The old state stays; free some space") as caught:
                session.save_all("k", NEW.values, {"memory": ListTail(["z" * 50_000])}).run()
            assert isinstance(caught.value.__cause__, sqlite3.Error)
            assert session.load_all("k").run() == OLD
        save(session)
        assert session.load_all("k").run() == NEW, "what fits is saved"
        session.close().run()


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from agentscope_rx.errors import SessionStorageError
from tests.session.stores import ON_DISK

make, folder = ON_DISK[sys.argv[1]], Path(sys.argv[2])
session = make(folder)
session.save_all("k", {"n": 0}, {"l": []}).run()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
saved = 0
try:
    for number in range(1, 10_000):
        session.save_all("k", {"n": number}, {"l": ["x" * 500] * number}).run()
        saved = number
except SessionStorageError as error:
    print(error, file=sys.stderr)
for each in (session, make(folder)):
    found = each.load_all("k").run()
    assert found.values == {"n": saved} and len(found.lists["l"]) == saved > 5, (saved, found.values)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
session.save("k", "n", "again").run()
assert make(folder).load("k", "n").run() == "again"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE on this system")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_file_that_may_not_grow_leaves_the_old_state(tmp_path: Path, kind: str):
    done = run(FULL_DISK, kind, str(tmp_path / "s"))
    assert "could not be reached" in done.stderr


READ_ONLY = """
import os, sys
from pathlib import Path
from agentscope_rx.errors import SessionStorageError
from tests.session.stores import ON_DISK

session, folder = ON_DISK[sys.argv[1]](Path(sys.argv[2])), Path(sys.argv[2])
session.save_all("k", {"n": 1}, {"l": [1]}).run()
session.close().run()
for path in (*folder.rglob("*"), folder):
    path.chmod(0o555 if path.is_dir() else 0o444)
if os.geteuid() == 0:
    # root may write anywhere
    for path in (*folder.rglob("*"), folder):
        os.chown(path, 65534, 65534)
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
for operation in (session.save("k", "n", 2), session.save("new", "n", 2), session.delete("k")):
    try:
        operation.run()
    except SessionStorageError as error:
        print(error)
    else:
        raise SystemExit("it was written")
for path in (folder, *folder.rglob("*")):
    path.chmod(0o755 if path.is_dir() else 0o644)
assert session.load_all("k").run().values == {"n": 1} and session.keys().run() == ["k"]
session.save("k", "n", 3).run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others on this system")
@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_read_only_store_refuses_changes(kind: str):
    # not tmp_path: its parents are root's alone if root runs the tests
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # noqa: S103
        done = run(READ_ONLY, kind, f"{folder}/s")
    assert len(done.stdout.splitlines()) == 3


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done


# -- the clock


def test_a_clock_that_jumps_changes_no_version_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = SqliteSession(tmp_path / "s.db")
    versions: list[str | None] = []
    for now in (1e9, 4e9, 0.0, -5e8, 1e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        versions.append(session.save_all("k", {"now": now}, expected=versions[-1] if versions else None).run())
        assert session.load("k", "now").run() == now
    assert len(set(versions)) == 5
    session.delete("k").run()
    assert session.save_all("k", {"now": 1e9}).run() not in versions
