"""File tools with texts and folders made to take long: the work is bounded, whatever a model puts there."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Toolkit, ToolUseBlock
from agentscope_rx.errors import ToolError, WorkspaceError
from agentscope_rx.tools.files import FileTools, Workspace, files, search
from agentscope_rx.tools.files.edit import MAX_DIFF, changes, replaced
from agentscope_rx.tools.files.encoding import Style, line_count, lines_of
from agentscope_rx.tools.files.globs import DenyList
from tests.support.assertions import in_cpu_time

MEGABYTE = 1_000_000
CPU = 0.5
"""Seconds; a fifth of it at most on a quiet machine, and up to ten times as much without the bounds."""

RANDOM = random.Random(1)
BITS = "".join(RANDOM.choices("ab", k=MEGABYTE))
NUMBERS = [str(n) for n in range(4_900)]


def within(call: Callable[[], object], seconds: float = CPU) -> str:
    """What it says, in bounded CPU time of this thread."""

    def said() -> str:
        try:
            return str(call())
        except ToolError as error:
            return str(error)

    return in_cpu_time(said, seconds)


ABSENT = {
    "empty lines": ("\n" * MEGABYTE, "\n" * (MEGABYTE // 2) + "x"),
    "equal lines": ("x\n" * (MEGABYTE // 2), "x\n" * (MEGABYTE // 4) + "y\n"),
    "equal but for space": ("x\n" * (MEGABYTE // 2), " x\n" * 40_000 + "y"),
    "two letters": ("\n".join(["xy" * 100] * 5_000), "xz" * 100),
    "random bits": ("\n".join(BITS[at : at + 199] for at in range(0, MEGABYTE, 199)), "ba" * 90),
    "one line": ("a" * MEGABYTE, "a" * (MEGABYTE // 2) + "b"),
    "a short needle": ("a" * MEGABYTE, "a" * 90 + "b"),
    "a needle from behind": ("a" * MEGABYTE, "b" + "a" * 98),
    "periods": ("ab" * (MEGABYTE // 2), "ab" * 20_000 + "b"),
    "words": ("a " * (MEGABYTE // 2), "a  " * (MEGABYTE // 4)),
    "carriage returns": ("\r" * MEGABYTE, "\r" * (MEGABYTE // 3) + "x"),
    "both": ("\r\n" * (MEGABYTE // 2), "\n" * (MEGABYTE // 3) + "x"),
    "other line ends": ("\u2028" * MEGABYTE, "\u2028" * (MEGABYTE // 2) + "y"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_a_text_that_is_not_there_is_told_in_bounded_time(name: str) -> None:
    text, old = ABSENT[name]
    said = within(lambda: replaced(text, old, "new", every=False, path="x"))
    assert said.startswith("old_string is not in 'x'.")
    assert len(said) < 2_000


def test_an_edit_of_a_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(ABSENT["two letters"][0])
    tools = FileTools(tmp_path)
    assert "not in 'x'" in within(lambda: tools.edit_file("x", ABSENT["two letters"][1], "new"))


def test_many_places_are_told_by_the_first_of_them() -> None:
    said = within(lambda: replaced("a" * MEGABYTE, "a", "b", every=False, path="x"))
    assert f"{MEGABYTE} times, at lines 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ..." in said


def test_what_would_be_too_large_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a" * MEGABYTE)
    tools = FileTools(Workspace(tmp_path, max_write=2 * MEGABYTE))
    with pytest.raises(WorkspaceError, match="would be 1,000,000,000,000 characters") as caught:
        # a terabyte: made first and refused then, it would end the process
        tools.edit_file("x", "a", "b" * MEGABYTE, replace_all=True)
    assert caught.value.reason == "too_large"
    assert (tmp_path / "x").read_text() == "a" * MEGABYTE


CHANGED = {
    "all lines": ("a\n" * (MEGABYTE // 2), "b\n" * (MEGABYTE // 2)),
    "first and last": ("a\n" + "x\n" * (MEGABYTE // 2) + "a", "b\n" + "x\n" * (MEGABYTE // 2) + "b"),
    "every other of two": ("xq\nyq\n" * 2_400, "xq\nzq\n" * 2_400),
    "few kinds": ("\n".join(str(n % 97) for n in range(4_900)), "\n".join(str(n * 7 % 97) for n in range(4_900))),
    "shuffled": ("\n".join(NUMBERS), "\n".join(RANDOM.sample(NUMBERS, len(NUMBERS)))),
    "every other": ("\n".join(NUMBERS), "\n".join(each if int(each) % 2 else f"{each}!" for each in NUMBERS)),
    "one more": ("\n".join(NUMBERS), "\n".join(f"{each}!" if int(each) % 2 else each for each in NUMBERS) + "\nx"),
    "not quite popular": (
        "\n".join(f"{n // 50}-{n % 2}" for n in range(4_900)),
        "\n".join(f"{n // 49}-{n % 3}" for n in range(4_900)),
    ),
    "long lines": ("\n".join(["x" * 1_000] * 1_000), "\n".join(["x" * 999 + "y"] * 1_000)),
    "one line": ("x" * MEGABYTE, "x" * (MEGABYTE - 1) + "y"),
    "carriage returns": ("\r" * MEGABYTE + "a", "\r" * MEGABYTE + "b"),
    "nothing": ("x\n" * (MEGABYTE // 2), "x\n" * (MEGABYTE // 2)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_diff_is_bounded(name: str) -> None:
    before, after = CHANGED[name]
    said = within(lambda: changes(before, after))
    assert len(said.split("\n")) <= MAX_DIFF + 1
    assert (said == "") == (before == after)


def test_too_many_lines_are_compared_in_place() -> None:
    assert changes(*CHANGED["every other"]).startswith("@@ -1 +1 @@\n-0\n+0!\n@@ -3 +3 @@\n-2\n+2!\n")
    assert "too much to compare" in changes(*CHANGED["one more"])


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "dd"]), max_size=12)


@given(LINES, LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_a_diff_leads_from_one_text_to_the_other(old: list[str], new: list[str], end: str, ended: bool) -> None:
    """Law: the lines of a diff, put where its headers say, make the new text of the old one."""
    before, after = (end.join(each) + (end if ended and each else "") for each in (old, new))
    was, now = lines_of(before), lines_of(after)
    made: list[str] = []
    at = 0
    for line in filter(None, changes(before, after).split("\n")):
        if line.startswith("@@"):
            start, _, size = line.split()[1][1:].partition(",")
            upto = int(start) - (size != "0")
            made += was[at:upto]
            at = upto
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert was[at] == line[1:]
            made += was[at : at + 1] if line[0] == " " else []
            at += 1
    assert [*made, *was[at:]] == now


@given(st.text(st.sampled_from("a\r\n\u2028\v"), max_size=12))
def test_lines_are_counted_as_they_are_split(text: str) -> None:
    assert line_count(text) == len(lines_of(text))
    assert lines_of(text) == lines_of(Style(newline="\r\n").lines_ended(text))


# --- folders ----------------------------------------------------------------------------------------------------------


def test_a_listing_of_long_paths_is_bounded(tmp_path: Path) -> None:
    tools = FileTools(tmp_path)
    folder = "/".join(["f" * 200] * 12)
    for n in range(60):
        tools.write_file(f"{folder}/{n}.txt", "")
    for said in (tools.list_directory(folder), tools.glob("**/*.txt")):
        assert len(said) < files.MAX_TEXT + 3_000
        assert "more" in said.split("\n")[-1]


def test_a_tree_without_files_is_walked_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_VISITED", 20)
    for n in range(30):
        (tmp_path / f"{n:02}" / "x").mkdir(parents=True)
    (tmp_path / "zz.txt").write_text("here")
    tools = FileTools(tmp_path)
    assert "only the first 20 folders were visited" in tools.glob("**/*.txt")
    *_, said = tools.grep("here")
    assert "only the first 20 folders were visited" in said


def test_a_walk_that_takes_too_long_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x.txt").write_text("here")
    monkeypatch.setattr(search, "SECONDS", 0.0)
    tools = FileTools(tmp_path)
    assert "stopped after 0 s" in tools.glob("**")


PARTS = st.lists(st.sampled_from(["a", "b", ".git", ".GIT", "secret", "x.key"]), min_size=1, max_size=4)


@given(PARTS, st.lists(st.sampled_from([".git", "a/b", "**/secret", "b/**", "*.key", "a/*/b"]), max_size=3))
def test_a_name_in_a_folder_is_denied_as_its_path_is(parts: list[str], patterns: list[str]) -> None:
    """Law: below a folder that is not denied both ways of asking say the same."""
    deny = DenyList(patterns)
    if deny.denies(parts[:-1]) is None:
        assert (deny.below(parts[:-1])(parts[-1]) is None) == (deny.denies(parts) is None)


# --- names that a model makes up --------------------------------------------------------------------------------------


def test_a_name_of_any_length_is_told_in_bounded_time_and_words() -> None:
    def helo_world(text: str) -> str:
        """Say."""
        return text

    toolkit = Toolkit([helo_world])
    long = "helo_world" * (MEGABYTE // 5)
    assert len(within(lambda: toolkit.call(ToolUseBlock("1", long, {})).run().text)) < 500
    assert len(within(lambda: toolkit.call(ToolUseBlock("1", "helo_world", {"text": "x", long: 1})).run().text)) < 500
    assert "did you mean 'text'" in toolkit.call(ToolUseBlock("1", "helo_world", {"txt": 1})).run().text
