"""`JsonSession`: the tail of a list is saved at the cost of its items; folders of format 1 are read and go on."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import SessionDamagedError
from agentscope_rx.session import JsonSession, ListTail, Saved
from agentscope_rx.session.durable import locked
from agentscope_rx.session.entry import encode
from agentscope_rx.session.folder import Folder
from tests.session.disk import Disk

ITEMS: list[object] = [{"id": f"{number:08x}", "text": "Hello! " * 20} for number in range(10_000)]


def cost_of_a_tail(root: Path, count: int) -> tuple[list[str], int, int]:
    """The calls of `os`, the bytes and the Python calls of a save of two items behind that many."""
    session = JsonSession(root)
    version = session.save_list("k", "memory", ITEMS[:count]).run() or session.load_all("k", []).run().version
    folder = Folder(root, "k")
    entries = encode("k", {}, {"memory": ListTail(ITEMS[:2], count)})
    calls = 0

    def note(frame: Any, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    disk = Disk()
    with disk.watched(), locked(folder.path):
        sys.setprofile(note)
        try:
            folder.write(entries, version)
        finally:
            sys.setprofile(None)
    return [call.name for call in disk.calls], disk.written, calls


def test_a_tail_costs_the_same_behind_10_and_10000_items(tmp_path: Path):
    few, few_bytes, few_calls = cost_of_a_tail(tmp_path / "few", 10)
    many, many_bytes, many_calls = cost_of_a_tail(tmp_path / "many", 10_000)
    assert many == few and 0 <= many_bytes - few_bytes < 20, "numbers of more digits"
    assert abs(many_calls - few_calls) < 20


def test_a_tail_reads_nothing_of_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    session = JsonSession(tmp_path)
    session.save_list("k", "l", [1, 2]).run()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "_entry", lambda *args: pytest.fail("it was read"))
        session.save_all("k", {}, {"l": ListTail([3])}).run()
        session.save_all("k", {}, {"l": ListTail([4, 5], 3)}).run()
        version = session.load_all("k", []).run().version
        assert session.save_all("k", {}, {"l": ListTail([])}).run() == version
    assert session.load_list("k", "l").run() == [1, 2, 3, 4, 5]
    assert (tmp_path / "k" / "l.1.jsonl").read_bytes() == b"1\n2\n3\n4\n5\n"


def test_a_cut_writes_the_list_again(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save_list("k", "l", [1, 2, 3]).run()
    session.save_all("k", {}, {"l": ListTail(["x"], 1)}).run()
    assert session.load_list("k", "l").run() == [1, "x"]
    session.save_all("k", {}, {"l": ListTail(["y"])}).run()
    assert session.load_list("k", "l").run() == [1, "x", "y"]


@pytest.mark.parametrize("place", [0, 3, 5])
def test_damage_before_an_appended_tail_is_found(tmp_path: Path, place: int):
    session = JsonSession(tmp_path)
    session.save_list("k", "l", [1, 2, 3]).run()
    file = tmp_path / "k" / "l.1.jsonl"
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    session.save_all("k", {}, {"l": ListTail([4])}).run()
    with pytest.raises(SessionDamagedError, match="has changed since it was written"):
        session.load_list("k", "l").run()


def test_a_tail_behind_a_file_that_is_too_short_is_refused(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save_list("k", "l", [1, 2, 3]).run()
    (tmp_path / "k" / "l.1.jsonl").write_bytes(b"1\n")
    with pytest.raises(SessionDamagedError, match="ends after 2 of 6 bytes"):
        session.save_all("k", {}, {"l": ListTail([4])}).run()
    session.save_list("k", "l", [1, 2, 3, 4]).run()
    assert session.load_list("k", "l").run() == [1, 2, 3, 4]


# -- format 1


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def old_folder(root: Path) -> str:
    """A session as the library wrote it before lists had chains; returns its version."""
    memory, state = b'"one"\n"two"\n', b'{"turn":1}\n'
    body = {
        "key": "k",
        "generation": 3,
        "entries": {
            "memory": {"kind": "list", "file": "memory.1.jsonl", "size": 12, "items": 2, "sha256": digest(memory)},
            "state": {"kind": "value", "file": "state.3.json", "size": 11, "items": 1, "sha256": digest(state)},
        },
    }
    sha256 = digest(json.dumps(body, sort_keys=True).encode())
    folder = root / "k"
    folder.mkdir(parents=True)
    (folder / "memory.1.jsonl").write_bytes(memory)
    (folder / "state.3.json").write_bytes(state)
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "sha256": sha256, "session": body}, indent=1))
    return f"3-{sha256[:16]}"


def manifest(root: Path) -> Any:
    return json.loads((root / "k" / "manifest.json").read_text())


def test_a_folder_of_format_1_is_read_and_keeps_its_version(tmp_path: Path):
    version = old_folder(tmp_path)
    before = manifest(tmp_path)
    session = JsonSession(tmp_path)
    saved = session.load_all("k").run()
    assert saved == Saved({"state": {"turn": 1}}, {"memory": ["one", "two"]}) and saved.version == version
    # what is the same is not written, so the folder stays as it is
    assert session.save_all("k", {"state": {"turn": 1}}, {"memory": ["one", "two"]}, expected=version).run() == version
    assert manifest(tmp_path) == before


@pytest.mark.parametrize("items", [["one", "two", "three"], ListTail(["three"]), ListTail(["three"], 2)])
def test_the_next_write_to_a_list_gives_it_a_chain(tmp_path: Path, items: Any):
    version = old_folder(tmp_path)
    session = JsonSession(tmp_path)
    session.save_all("k", {}, {"memory": items}, expected=version).run()
    assert session.load_list("k", "memory").run() == ["one", "two", "three"]
    now = manifest(tmp_path)
    assert now["format"] == 2 and now["session"]["entries"]["memory"]["chained"] is True
    assert now["session"]["entries"]["memory"]["file"] == "memory.1.jsonl", "it was appended to"
    session.save_all("k", {}, {"memory": ListTail(["four"])}).run()
    assert session.load_list("k", "memory").run() == ["one", "two", "three", "four"]


def test_a_write_beside_a_list_of_format_1_leaves_it(tmp_path: Path):
    old_folder(tmp_path)
    session = JsonSession(tmp_path)
    session.save("k", "state", {"turn": 2}).run()
    now = manifest(tmp_path)
    assert now["format"] == 2 and "chained" not in now["session"]["entries"]["memory"]
    assert session.load_all("k").run() == Saved({"state": {"turn": 2}}, {"memory": ["one", "two"]})


def test_damage_of_a_list_of_format_1_is_found_before_a_tail(tmp_path: Path):
    old_folder(tmp_path)
    (tmp_path / "k" / "memory.1.jsonl").write_bytes(b'"one"\n"tvo"\n')
    session = JsonSession(tmp_path)
    for operation in (session.save_all("k", {}, {"memory": ListTail(["three"])}), session.load_list("k", "memory")):
        with pytest.raises(SessionDamagedError, match="has changed since it was written"):
            operation.run()
