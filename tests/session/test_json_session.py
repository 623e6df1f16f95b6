"""`JsonSession`: what it writes, what it costs, damage, versions, locks and disposal."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    SessionDamagedError,
    SessionError,
    SessionFormatError,
    SessionLockedError,
    SessionStorageError,
)
from agentscope_rx.reactive import WORKERS
from agentscope_rx.session import JsonSession, Saved, durable
from agentscope_rx.session.durable import locked
from agentscope_rx.session.entry import StoredEntry, encode
from agentscope_rx.session.folder import Folder
from agentscope_rx.session.manifest import Stored
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.session.disk import Disk

MESSAGE = {"name": "Ann", "role": "user", "content": [{"type": "text", "text": "Hello! " * 20}]}


def messages(count: int) -> list[object]:
    return [{**MESSAGE, "id": f"{number:032x}"} for number in range(count)]


def written(session: JsonSession, items: list[object]) -> int:
    disk = Disk()
    with disk.watched():
        session.save_list("k", "memory", items).run()
    return disk.written


# -- what is written


@pytest.mark.spec("W70", "case 138")
def test_a_list_that_grew_is_appended_to_and_costs_what_is_new(tmp_path: Path):
    """After a reload everything was rewritten. Cases 138 to 140: incremental saves."""
    items = messages(10_000)
    assert written(JsonSession(tmp_path), items) > 1_000_000
    longer = [*items, *messages(2)]
    size = len(json.dumps(messages(2)))
    assert written(JsonSession(tmp_path), longer) < size + 1000, "the two, and the manifest"
    assert written(JsonSession(tmp_path), longer) == 0, "nothing is new"
    assert JsonSession(tmp_path).load_list("k", "memory").run() == longer


@pytest.mark.spec("W70")
@pytest.mark.parametrize("place", [0, 1, 4321, 9_999])
def test_a_change_at_any_position_is_kept(tmp_path: Path, place: int):
    """Edits at positions that were not sampled were lost when sizes matched."""
    items = messages(10_000)
    session = JsonSession(tmp_path)
    session.save_list("k", "memory", items).run()
    changed = [*items]
    changed[place] = {**MESSAGE, "id": f"{place:031x}z"}
    session.save_list("k", "memory", changed).run()
    assert session.load_list("k", "memory").run() == changed
    assert len(list(tmp_path.glob("k/*.jsonl"))) == 1, "the old file is gone"


def test_a_value_that_is_the_same_is_not_written_again(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save_all("k", {"a": {"x": [1]}, "b": 2}).run()
    disk = Disk()
    with disk.watched():
        session.save_all("k", {"a": {"x": [1]}}).run()
    assert disk.written == 0
    with disk.watched():
        session.save_all("k", {"a": {"x": [1]}, "b": 3}).run()
    assert [Path(call.path).name for call in disk.calls if call.name == "write"] == ["b.2.json", "manifest.json.tmp"]


def test_the_files_are_plain_text_for_their_owner_only(tmp_path: Path):
    root = tmp_path / "home" / "sessions"
    JsonSession(root).save_all("k", {"state": {"name": "Zoë"}}, {"memory": ["日本", "\ud800"]}).run()
    assert (root / "k" / "state.1.json").read_text("utf-8") == '{"name":"Zoë"}\n'
    assert (root / "k" / "memory.1.jsonl").read_text("utf-8") == '"日本"\n"\\ud800"\n'
    if os.name == "posix":
        assert all(path.stat().st_mode & 0o077 == 0 for path in [tmp_path / "home", *root.rglob("*")])


def test_the_root_is_below_the_home_and_expanded_at_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session, other = JsonSession(), JsonSession("~/mine")
    assert repr(session) == "<JsonSession in ~/.agentscope_rx/sessions>"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert session.keys().run() == [] and list(tmp_path.iterdir()) == [], "reading makes nothing"
    session.save("k", "n", 1).run()
    other.save("k", "n", 2).run()
    assert (tmp_path / ".agentscope_rx" / "sessions" / "k").is_dir() and (tmp_path / "mine" / "k").is_dir()
    unknown = JsonSession("~nobody-of-this-name/x")
    for operation in (unknown.save("k", "n", 1), unknown.load("k", "n"), unknown.keys()):
        with pytest.raises(ConfigurationError, match="Give JsonSession a root"):
            operation.run()
    with pytest.raises(ConfigurationError, match="lock_timeout"):
        JsonSession(tmp_path, lock_timeout=-1)


# -- damage


def saved(root: Path) -> JsonSession:
    session = JsonSession(root)
    session.save_all("k", {"state": {"a": 1}, "other": 2}, {"memory": ["one", "two"]}).run()
    return session


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "what"),
    [(cut, r"ends after \d+ of \d+ bytes"), (flip, "has changed"), (empty, "ends after 0 of"), (gone, "is missing")],
)
@pytest.mark.parametrize("name", ["state", "memory"])
def test_a_damaged_entry_is_told_and_harms_no_other(
    tmp_path: Path, damage: Callable[[Path], None], what: str, name: str
):
    session = saved(tmp_path)
    (file,) = tmp_path.glob(f"k/{name}.*")
    damage(file)
    content = file.read_bytes() if file.exists() else None
    load = session.load("k", "state") if name == "state" else session.load_list("k", "memory")
    for operation in (load, session.load_all("k")):
        with pytest.raises(SessionDamagedError, match=what) as caught:
            operation.run()
        error = caught.value
        assert (error.key, error.file) == ("k", str(file)) and str(file) in str(error)
        assert f"remove('k', '{name}')" in str(error) and isinstance(error, SessionError)
    assert session.load("k", "other").run() == 2 and session.exists("k").run() and session.keys().run() == ["k"]
    session.save("k", "other", 3).run()
    assert (file.read_bytes() if file.exists() else None) == content, "nothing is lost"
    assert session.remove("k", name).run() is True
    assert session.load_all("k").run().values["other"] == 3


@pytest.mark.parametrize("damage", [cut, empty, gone])
def test_saving_the_whole_list_repairs_what_is_too_short(tmp_path: Path, damage: Callable[[Path], None]):
    session = saved(tmp_path)
    damage(tmp_path / "k" / "memory.1.jsonl")
    session.save_list("k", "memory", ["one", "two", "three"]).run()
    assert session.load_list("k", "memory").run() == ["one", "two", "three"]


@pytest.mark.parametrize("damage", [cut, flip, empty, gone])
def test_a_damaged_manifest_is_told_and_nothing_is_touched(tmp_path: Path, damage: Callable[[Path], None]):
    session = saved(tmp_path)
    manifest = tmp_path / "k" / "manifest.json"
    damage(manifest)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for operation in (
        session.load("k", "state"),
        session.exists("k"),
        session.save("k", "state", 1),
        session.remove("k", "state"),
    ):
        with pytest.raises(SessionDamagedError) as caught:
            operation.run()
        assert caught.value.file == str(manifest) and "delete('k')" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert session.keys().run() == ["k"], "it is there"
    assert session.delete("k").run() is True
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_bit_of_a_manifest_is_noticed(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save("k", "state", 1).run()
    manifest = tmp_path / "k" / "manifest.json"
    whole = manifest.read_bytes()
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 1 << place % 8
        manifest.write_bytes(data)
        try:
            found = session.load("k", "state").run()
        except (SessionDamagedError, SessionFormatError):
            continue
        assert found == 1, "only where it makes no difference to what JSON says"


def test_a_long_key_with_a_damaged_manifest_cannot_be_listed(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save("k" * 500, "n", 1).run()
    session.save("other", "n", 1).run()
    (manifest,) = tmp_path.glob("kkk*/manifest.json")
    cut(manifest)
    with pytest.raises(SessionDamagedError, match="move the folder away") as caught:
        session.keys().run()
    assert caught.value.file == str(manifest) and caught.value.key is None
    assert session.delete("k" * 500).run() is True
    assert session.keys().run() == ["other"]


def test_a_folder_that_was_copied_under_another_name_is_told(tmp_path: Path):
    session = saved(tmp_path)
    (tmp_path / "k").rename(tmp_path / "other")
    with pytest.raises(SessionDamagedError, match="belongs to session 'k'"):
        session.load_all("other").run()


def test_a_newer_format_is_left_alone(tmp_path: Path):
    session = saved(tmp_path)
    manifest = tmp_path / "k" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format": 7}))
    for operation in (session.load("k", "state"), session.save("k", "state", 1), session.remove("k", "state")):
        with pytest.raises(SessionFormatError, match=r"has format 7, and this version .* reads format 2") as caught:
            operation.run()
        assert (caught.value.found, caught.value.file, caught.value.key) == (7, str(manifest), "k")
    assert len(list((tmp_path / "k").iterdir())) == 5
    assert session.keys().run() == ["k"]


@pytest.mark.parametrize(
    "content", ["[]", "null", "{}", '{"format": 1}', '{"format": "1", "sha256": "", "session": {}}']
)
def test_a_manifest_that_is_none(tmp_path: Path, content: str):
    session = saved(tmp_path)
    (tmp_path / "k" / "manifest.json").write_text(content)
    with pytest.raises(SessionDamagedError):
        session.load("k", "state").run()


def test_what_the_file_system_refuses_is_a_typed_error(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    session = JsonSession(tmp_path / "file")
    for operation in (session.save("k", "n", 1), session.keys(), session.load("k", "n")):
        with pytest.raises(SessionStorageError) as caught:
            operation.run()
        assert isinstance(caught.value.__cause__, OSError) and str(tmp_path / "file") in caught.value.file
    assert (tmp_path / "file").read_text() == "mine"


# -- readers beside writers


def test_a_session_begun_during_a_lookup_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its manifest was not there, its entries are."""
    real, began = Folder._own_files, threading.Event()

    def late(folder: Folder) -> list[str]:
        if not began.is_set():
            began.set()
            saved(tmp_path)
        return real(folder)

    monkeypatch.setattr(Folder, "_own_files", late)
    assert JsonSession(tmp_path).load("k", "other").run() == 2


def test_a_reader_whose_manifest_grew_old_reads_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also if writers are at it again and again: it lets them be for a while, and comes back."""
    session = saved(tmp_path)
    real, turn = Folder._entry, iter(range(1_000))

    def late(folder: Folder, name: str, stored: Stored) -> StoredEntry:
        number = next(turn)
        if number % 3 == 0 and number < 100:
            # all files of the manifest in hand are replaced
            folder.write(encode("k", {"state": number, "other": number}, {"memory": [number]}))
        return real(folder, name, stored)

    monkeypatch.setattr(Folder, "_entry", late)
    assert session.load_all("k").run() == Saved({"state": 99, "other": 99}, {"memory": [99]})


# -- the lock, and leaving


def test_a_change_waits_for_the_lock_by_the_loops_clock(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        await session.save("k", "n", 1)
        loop = asyncio.get_running_loop()
        with locked(tmp_path / "k"):
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


def test_a_lock_that_is_never_let_go_of_is_an_error_in_time(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path, lock_timeout=5)
        await session.save("k", "n", 1)
        for operation in (session.save("k", "n", 2), session.delete("k"), session.remove("k", "n")):
            began = asyncio.get_running_loop().time()
            with locked(tmp_path / "k"), pytest.raises(SessionLockedError) as caught:
                await operation
            assert 5 <= asyncio.get_running_loop().time() - began < 5.1
            assert caught.value.retryable and caught.value.file == str(tmp_path / "k" / "lock")
        assert await session.load("k", "n") == 1

    run_virtual(main())


def test_a_lock_that_was_deleted_with_its_session_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Who opened it before has a file of no name; another process may hold the new one of that name."""
    folder = tmp_path / "k"
    folder.mkdir()
    real = durable._lock

    def late(descriptor: int) -> None:
        (folder / "lock").unlink()
        (folder / "lock").touch()
        real(descriptor)

    monkeypatch.setattr(durable, "_lock", late)
    with pytest.raises(durable.HeldError), locked(folder):
        pytest.fail("it was held")
    monkeypatch.setattr(durable, "_lock", lambda descriptor: (real(descriptor), (folder / "lock").unlink()))
    with pytest.raises(durable.HeldError), locked(folder):
        pytest.fail("it was held")
    (folder).rmdir()
    with pytest.raises(durable.HeldError), locked(folder):
        pytest.fail("there is no folder any more")


def test_leaving_while_it_waits_for_the_lock_writes_nothing(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        await session.save("k", "n", 1)
        with locked(tmp_path / "k"):
            saving = session.save("k", "n", 2).subscribe()
            await asyncio.sleep(1)
            saving.dispose()
        await asyncio.sleep(1)
        assert await session.load("k", "n") == 1

    run_virtual(main())


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def held_at(place: int, reached: threading.Event, go_on: threading.Event) -> Disk:
    disk = Disk()

    def on_call(number: int, name: str) -> None:
        if number == place:
            reached.set()
            assert go_on.wait(20)

    disk.on_call = on_call
    return disk


def test_disposal_during_a_write_lets_it_end(tmp_path: Path):
    """At every call of it; what is saved afterwards comes afterwards."""

    async def main(root: Path, place: int) -> bool:
        session = JsonSession(root)
        await session.save_all("k", {"n": 1}, {"l": [1]})
        reached, go_on = threading.Event(), threading.Event()
        disk = held_at(place, reached, go_on)
        heard: list[object] = []
        with disk.watched():
            saving = session.save_all("k", {"n": 2}, {"l": [1, 2]}).subscribe(heard.append, heard.append)
            await until(lambda: reached.is_set() or heard)
            saving.dispose()
            after = session.save_all("k", {"n": 3}).as_task()
            if place == 0:
                # the lock: a write that was left before it had that does not begin, and blocks no other
                await after
            elif not heard:
                await asyncio.sleep(0.05)
                assert not after.done()
                assert await session.load_all("k") in (first, second)
            go_on.set()
            await after
        await until(lambda: not WORKERS.outstanding)
        assert await JsonSession(root).load_all("k") == Saved({"n": 3}, {"l": [1, 2] if place else [1]})
        return not heard

    first, second = Saved({"n": 1}, {"l": [1]}), Saved({"n": 2}, {"l": [1, 2]})

    place = 0
    while run_virtual(main(tmp_path / str(place), place)):
        place += 1
    assert place > 8


def test_a_write_that_fails_after_disposal_is_reported(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        await session.save("k", "n", 1)
        reached, go_on = threading.Event(), threading.Event()
        disk = Disk()

        def on_call(number: int, name: str) -> None:
            if name == "replace":
                reached.set()
                assert go_on.wait(20)
                raise OSError(28, "No space left on device")

        disk.on_call = on_call
        with disk.watched():
            saving = session.save("k", "n", 2).subscribe()
            await until(reached.is_set)
            saving.dispose()
            go_on.set()
            await until(lambda: not WORKERS.outstanding)
        assert await session.load("k", "n") == 1

    with collect_dropped() as dropped:
        run_virtual(main())
    assert [type(error) for error in dropped] == [SessionStorageError]


def test_a_write_disposed_before_it_begins_does_not_begin(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        session.save("k", "n", 1).subscribe().dispose()
        await session.save("other", "n", 1)
        assert await session.keys() in (["other"], ["k", "other"])
        await session.delete("k")
        for number in range(20):
            session.save("k", "n", number).subscribe().dispose()
            await session.save("k", "n", "after")
            assert await session.load("k", "n") == "after"

    run_virtual(main())


def test_cancelling_the_task_that_awaits_leaves_it_whole(tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path)
        for number in range(20):
            saving = session.save_all("k", {"n": number}, {"l": list(range(number))}).as_task()
            for _ in range(number):
                await asyncio.sleep(0)
            saving.cancel()
            await asyncio.wait([saving])
            await until(lambda: not WORKERS.outstanding)
            found = await session.load_all("k")
            assert found == Saved() or found.lists["l"] == list(range(found.values["n"]))

    run_virtual(main())


def test_file_work_is_never_done_on_the_loop(tmp_path: Path):
    async def main() -> set[str]:
        session = JsonSession(tmp_path)
        threads: set[str] = set()
        disk = Disk()
        disk.on_call = lambda number, name: threads.add(threading.current_thread().name)
        with disk.watched():
            await session.save_all("k", {"n": 1}, {"l": [1]})
            await session.load_all("k")
            await session.keys()
            await session.remove("k", "n")
            await session.delete("k")
        return threads

    assert run_virtual(main()) == {"agentscope-rx-engine"}
