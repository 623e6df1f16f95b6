"""W68, W71: any text is a key and a name, the same for every implementation, and leads nowhere but below the root."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentscope_rx.session import JsonSession, Saved
from agentscope_rx.session.manifest import LONGEST, code_of, file_name, is_shortened, text_of
from tests.session.stores import EACH, Make

AWKWARD = [
    ".",
    "..",
    "../..",
    "../../etc/passwd",
    "/",
    "/etc/passwd",
    "~",
    "~root",
    "a/b",
    "a\\b",
    "C:\\x",
    "\\\\server\\share",
    "\x00",
    "a\x00b",
    "a\nb",
    "-rf",
    "con",
    "CON",
    "nul.txt",
    "com1",
    "a.",
    "a ",
    " a",
    "a:b",
    "*?<>|\"'`$()",
    "%2e%2e",
    "=2e=2e",
    "=",
    "manifest",
    "manifest.json",
    "manifest.json.tmp",
    "lock",
    "state.1",
    "state.1.json",
    "Ann",
    "ann",
    "ANN",
    "é",
    "e\u0301",
    "ſ",
    "s",
    "ß",
    "ss",
    "İ",
    "日本語",
    "😀",
    "\ud83d\ude00",
    "\ud800",
    "\udfff",
    "x" * 99,
    "x" * 100,
    "x" * 101,
    "x" * 255,
    "x" * 256,
    "x" * 5000,
    "x" * 4999 + "y",
    "X" * 5000,
    "日" * 3000,
    "../" * 2000,
    "x" * 30 + "=h" + "0" * 64,
    "x" * 30 + "=h" + "0" * 65,
]
texts = st.text(st.characters(exclude_categories=()), min_size=1, max_size=60) | st.sampled_from(AWKWARD)
texts |= st.text("aA./\\=-_:\x00 é", min_size=1, max_size=8) | st.text("aB.", min_size=90, max_size=130)


@given(texts)
@settings(max_examples=100)
def test_a_file_name_is_safe_on_every_file_system(text: str):
    name = file_name(text)
    assert name == name.lower() and name.isascii()
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_=") and 0 < len(name) <= LONGEST
    assert not name.startswith("-") and os.path.basename(name) == name
    assert name not in ("con", "prn", "aux", "nul", "com1", "lpt9")
    assert text_of(code_of(text)) == text
    assert is_shortened(name) is (len(code_of(text)) > LONGEST)


@given(texts, texts)
@settings(max_examples=100)
def test_two_texts_have_two_names(one: str, other: str):
    assume(one != other)
    assert file_name(one) != file_name(other)


@given(st.text("=0123456789abcdefhx-_A./", max_size=8) | st.text())
@settings(max_examples=100)
def test_what_is_no_name_of_ours_stands_for_nothing(name: str):
    text = text_of(name)
    assert text is None or code_of(text) == name


@EACH
def test_all_awkward_texts_at_once(make: Make, tmp_path: Path):
    root = tmp_path / "outer" / "root"
    session = make(root)
    for number, key in enumerate(AWKWARD):
        session.save_all(key, {"n": number, key: [number]}, {f"{key} list": [number]}).run()
    assert session.keys().run() == sorted(AWKWARD)
    for number, key in enumerate(AWKWARD):
        expected = Saved({"n": number, key: [number]}, {f"{key} list": [number]})
        assert session.load_all(key).run() == expected
        assert session.exists(key).run() is True
    for key in AWKWARD[::2]:
        assert session.delete(key).run() is True
    assert session.keys().run() == sorted(AWKWARD[1::2])
    assert session.load_list(AWKWARD[1], f"{AWKWARD[1]} list").run() == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) in ([], ["outer"])


@EACH
def test_all_names_are_awkward_in_one_session(make: Make, tmp_path: Path):
    session = make(tmp_path / "root")
    values = {name: number for number, name in enumerate(AWKWARD)}
    session.save_all("k", values).run()
    assert session.load_all("k").run() == Saved(values, {})
    for name in AWKWARD:
        assert session.remove("k", name).run() is True
    assert session.keys().run() == []
    if isinstance(session, JsonSession):
        assert list((tmp_path / "root").iterdir()) == []


@given(texts, texts)
def test_nothing_happens_outside_of_the_root(tmp_path: Path, key: str, name: str):
    assume(key.strip() and name.strip())
    root = tmp_path / "root"
    (tmp_path / "bystander.json").write_text("mine")
    session = JsonSession(root)
    session.save_all(key, {name: 1}).run()
    inside = set(root.rglob("*"))
    assert all(path.resolve().is_relative_to(root.resolve()) for path in inside) and len(inside) == 4
    assert session.keys().run() == [key]
    assert session.load_all(key).run() == Saved({name: 1}, {})
    assert session.delete(key).run() is True
    assert {path.name for path in tmp_path.iterdir()} == {"root", "bystander.json"}
    assert list(root.iterdir()) == [] and (tmp_path / "bystander.json").read_text() == "mine"


def test_what_else_lies_in_the_root_is_left_alone(tmp_path: Path):
    session = JsonSession(tmp_path)
    session.save("k", "n", 1).run()
    for name in (".git", "Ann", "=zz", "=41=4", "notes.txt", "x" * 30 + "=h" + "0" * 64, "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "k" / "mine.txt").write_text("text")
    (tmp_path / "k" / "sub.1.json.d").mkdir()
    assert session.keys().run() == ["k"]
    assert session.delete("k").run() is True
    assert sorted(path.name for path in (tmp_path / "k").iterdir()) == ["mine.txt", "sub.1.json.d"]
    assert session.keys().run() == [] and session.exists("k").run() is False
    session.save("k", "n", 2).run()
    assert session.load("k", "n").run() == 2
