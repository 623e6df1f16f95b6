"""W69: whatever happens in the middle of a change, afterwards a session is as it was before it or as it is after."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx.errors import SessionStorageError
from agentscope_rx.reactive import Flow
from agentscope_rx.session import JsonSession, ListTail, Saved
from agentscope_rx.session.durable import locked, make_folder
from agentscope_rx.session.entry import encode
from agentscope_rx.session.folder import Folder
from tests.session.disk import Disk, PowerCut, fail_at, power_off_at

OLD = ({"state": {"turn": 1}, "big": "x" * 300}, {"memory": ["one", "two"], "other": [1]})
NEW = ({"state": {"turn": 2}, "extra": None}, {"memory": ["one", "two", "three" * 20], "other": [2, 3]})
AFTER = Saved({**OLD[0], **NEW[0]}, NEW[1])
KEY = "Ann"


def save(root: Path) -> None:
    change(root, lambda folder: folder.write(encode(KEY, *NEW)))


def tail(root: Path) -> None:
    lists = {"memory": ListTail(["three" * 20]), "other": ListTail([2], 0)}
    change(root, lambda folder: folder.write(encode(KEY, {"state": {"turn": 2}}, lists)))


def remove(root: Path) -> None:
    change(root, lambda folder: folder.remove("memory"))


def delete(root: Path) -> None:
    change(root, Folder.delete)


def change(root: Path, work: Callable[[Folder], object]) -> None:
    """On this thread, so that a power cut goes through all of it."""
    folder = Folder(root, KEY)
    make_folder(folder.path)
    with locked(folder.path):
        work(folder)


LESS = Saved(OLD[0], {"other": [1]})
LONGER = Saved({**OLD[0], "state": {"turn": 2}}, {"memory": ["one", "two", "three" * 20], "other": [2]})
CHANGES = pytest.mark.parametrize(
    ("operation", "begun", "after"),
    [
        (save, True, AFTER),
        (save, False, Saved(*NEW)),
        (tail, True, LONGER),
        (remove, True, LESS),
        (delete, True, Saved()),
    ],
    ids=["save", "first save", "tail", "remove", "delete"],
)


def prepared(root: Path, begun: bool) -> Saved:
    if not begun:
        return Saved()
    JsonSession(root).save_all(KEY, *OLD).run()
    return Saved(*OLD)


def goes_on(root: Path, found: Saved) -> None:
    """A session that went through a crash can be read, listed, saved to and removed, and keeps no rubbish."""
    session = JsonSession(root)
    assert session.exists(KEY).run() is (found != Saved())
    assert session.keys().run() == ([KEY] if found != Saved() else [])
    session.save_all(KEY, {"state": 9}, {"memory": [*found.lists.get("memory", []), "next"]}).run()
    assert session.load_all(KEY).run() == Saved(
        {**found.values, "state": 9}, {**found.lists, "memory": [*found.lists.get("memory", []), "next"]}
    )
    (folder,) = root.iterdir()
    assert len(list(folder.iterdir())) == 2 + len(session.load_all(KEY).run().values) + len(
        session.load_all(KEY).run().lists
    ), "manifest, lock, and a file for each entry"
    assert session.delete(KEY).run() is True
    assert list(root.iterdir()) == []


@CHANGES
def test_the_power_goes_at_every_call(tmp_path: Path, operation: Callable[[Path], None], begun: bool, after: Saved):
    """Nor does anything that the program would do on its way out happen."""
    seen: list[Saved] = []
    for number in range(1000):
        root = tmp_path / str(number)
        before = prepared(root, begun)
        disk = Disk()
        power_off_at(disk, number)
        with disk.watched():
            try:
                operation(root)
                over = True
            except PowerCut:
                over = False
        found = JsonSession(root).load_all(KEY).run()
        assert found in (before, after), (number, disk.calls)
        seen.append(found)
        if over:
            break
        if root.exists():
            goes_on(root, found)
    assert seen[0] == prepared(tmp_path / "again", begun) and seen[-1] == after
    turn = seen.index(after)
    assert seen[turn:] == [after] * (len(seen) - turn), "one moment in which it happens"
    assert len(seen) > 8


@CHANGES
def test_the_power_goes_in_the_middle_of_every_write(
    tmp_path: Path, operation: Callable[[Path], None], begun: bool, after: Saved
):
    writes = recorded(tmp_path / "recorded", operation, begun)
    for number, size in writes:
        for cut in {0, 1, size // 2, size - 1, size}:
            root = tmp_path / f"{number}-{cut}"
            before = prepared(root, begun)
            disk = Disk()
            power_off_at(disk, number, cut)
            with disk.watched(), pytest.raises(PowerCut):
                operation(root)
            found = JsonSession(root).load_all(KEY).run()
            assert found == before, "before the manifest is in its place"
            goes_on(root, found)
            shutil.rmtree(root)


def recorded(root: Path, operation: Callable[[Path], None], begun: bool) -> list[tuple[int, int]]:
    """The numbers and sizes of an operation's writes."""
    prepared(root, begun)
    disk = Disk()
    with disk.watched():
        operation(root)
    return [(number, call.size) for number, call in enumerate(disk.calls) if call.name == "write"]


@pytest.mark.parametrize("begun", [True, False])
def test_a_call_fails_and_the_program_goes_on(tmp_path: Path, begun: bool):
    """A full disk, say: a typed error that names the file, or success; then the same save again succeeds."""
    failed = 0
    for number in range(1000):
        root = tmp_path / str(number)
        before = prepared(root, begun)
        session = JsonSession(root)
        disk = Disk()
        fail_at(disk, number)
        with disk.watched():
            error = attempted(session.save_all(KEY, *NEW))
            if error is not None:
                failed += 1
                assert error.key == KEY and "No space left" in str(error) and isinstance(error.__cause__, OSError)
                assert session.load_all(KEY).run() in (before, AFTER if begun else Saved(*NEW))
                session.save_all(KEY, *NEW).run()
            assert session.load_all(KEY).run() == (AFTER if begun else Saved(*NEW))
            if len(disk.calls) <= number:
                break
    assert failed > 8


def attempted(operation: Flow[object]) -> SessionStorageError | None:
    try:
        operation.run()
    except SessionStorageError as error:
        return error
    return None


@pytest.mark.spec("W71")
@pytest.mark.parametrize("operation", ["remove", "delete"])
def test_a_failed_removal_is_an_error_of_remove_and_delete(tmp_path: Path, operation: str):
    """Nothing is left in silence. The entry is gone all the same, and the next attempt removes the rest."""
    for number in range(20):
        session = JsonSession(tmp_path / str(number))
        session.save_list(KEY, "memory", [1]).run()
        if operation == "delete":
            session.save_all(KEY, *OLD).run()
        disk = Disk()

        def on_call(call: int, name: str, disk: Disk = disk, number: int = number) -> None:
            unlinked = [each for each in disk.calls if each.name == "unlink" and not each.path.endswith("lock")]
            if name == "unlink" and len(unlinked) == number + 1 and unlinked[-1] is disk.calls[-1]:
                raise PermissionError(13, "Permission denied")

        disk.on_call = on_call
        flow = session.delete(KEY) if operation == "delete" else session.remove(KEY, "memory")
        with disk.watched():
            error = attempted(flow)
        assert session.load_all(KEY).run() == Saved()
        if error is None:
            assert number > 2
            return
        assert "Permission denied" in str(error)
        assert flow.run() is False
        assert list((tmp_path / str(number)).iterdir()) == []


def test_nothing_is_spoken_of_before_it_is_on_the_disk(tmp_path: Path):
    """The order of the calls: content and names are synced before the manifest is replaced, that before the end."""
    session = JsonSession(tmp_path / "a" / "b")
    for operation in (session.save_all(KEY, *OLD), session.save_all(KEY, *NEW), session.remove(KEY, "memory")):
        disk = Disk()
        with disk.watched():
            operation.run()
        dirty: set[str] = set()
        for name, path, _ in disk.calls:
            if name in ("write", "ftruncate"):
                dirty.add(path)
            elif name == "fsync":
                dirty.discard(path)
            elif name in ("replace", "unlink"):
                assert not dirty, (name, path)
            if name in ("mkdir", "replace") or (name == "open" and ".json" in path and not path.endswith(".tmp")):
                dirty.add(os.path.dirname(path))
        assert not dirty
        assert [name for name, *_ in disk.calls].count("replace") >= 1


def test_a_torn_tail_is_not_read_and_goes_at_the_next_append(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save_list(KEY, "memory", ["one"]).run()
    (file,) = tmp_path.glob("*/*.jsonl")
    with file.open("ab") as tail:
        tail.write(b'"two"\n{"torn": ')
    assert session.load_list(KEY, "memory").run() == ["one"]
    session.save_list(KEY, "memory", ["one", 2]).run()
    assert file.read_bytes() == b'"one"\n2\n'
    assert session.load_list(KEY, "memory").run() == ["one", 2]
