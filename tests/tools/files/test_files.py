"""What the file tools say and do: reading, writing, editing, searching; encodings; many at once; races."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shutil
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agentscope_rx import Toolkit
from agentscope_rx.errors import ConfigurationError, ToolError, WorkspaceError
from agentscope_rx.messages import ImageBlock, ToolResultBlock, ToolResultKind
from agentscope_rx.tools.files import FileTools, Workspace, files, search, workspace
from agentscope_rx.tools.files.edit import changes, replaced
from agentscope_rx.tools.files.encoding import decoded, style_of
from agentscope_rx.tools.files.globs import DenyList, Glob
from tests.tools.calling import use
from tests.tools.fence import SECRET, Fence


@pytest.fixture(params=[True, False], ids=["by parts", "by resolving"])
def tools(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FileTools:
    monkeypatch.setattr(workspace, "HAS_DIR_FD", request.param)
    return FileTools(tmp_path)


def refused(call: Callable[[], object]) -> ToolError:
    with pytest.raises(ToolError) as caught:
        call()
    return caught.value


def grepped(tools: FileTools, *arguments: object, **options: object) -> str:
    *_, last = tools.grep(*arguments, **options)
    return last


# --- as a model sees them ---------------------------------------------------------------------------------------------


def test_a_model_works_with_them(tmp_path: Path):
    toolkit = Toolkit([FileTools(tmp_path)])
    assert toolkit.names == (
        "read_file", "list_directory", "glob", "grep", "write_file", "edit_file", "move_file", "delete_file",
    )  # fmt: skip

    def call(name: str, **input: object) -> ToolResultBlock:
        return toolkit.call(use(name, **input)).run()

    assert call("write_file", path="src/a.py", content="one\ntwo\n").text == "Made 'src/a.py': 2 lines."
    assert call("read_file", path="src/a.py").text == "     1\tone\n     2\ttwo"
    assert "-two\n+three" in call("edit_file", path="src/a.py", old_string="two", new_string="three").text
    assert call("grep", pattern="thr.e").text == "src/a.py:2: three"
    failed = call("read_file", path="../x")
    assert failed.kind is ToolResultKind.FAILED and failed.metadata["error_type"] == "WorkspaceError"


def test_what_needs_approval(tmp_path: Path):
    def asked(**options: object) -> list[str]:
        toolkit = Toolkit([FileTools(tmp_path, **options)])
        return [each.name for each in toolkit if each.requires_approval]

    assert asked() == ["move_file", "delete_file"]
    assert asked(requires_approval=True) == ["write_file", "edit_file", "move_file", "delete_file"]
    assert asked(requires_approval=False) == []
    assert asked(requires_approval=["read_file"]) == ["read_file"]
    with pytest.raises(ConfigurationError, match="'rm'"):
        asked(requires_approval=["rm"])


def test_read_only_tools_do_not_write(tmp_path: Path):
    tools = FileTools(tmp_path, read_only=True)
    assert Toolkit([tools]).names == ("read_file", "list_directory", "glob", "grep")
    assert "read-only" in str(refused(lambda: tools.write_file("x", "y")))
    assert not os.listdir(tmp_path)


def test_a_workspace_that_cannot_work_is_not_made(tmp_path: Path):
    for options in ({"max_read": 0}, {"max_write": True}, {"deny": "*.py"}):
        with pytest.raises(ConfigurationError):
            Workspace(tmp_path, **options)
    with pytest.raises(ConfigurationError, match="not an existing folder"):
        Workspace(tmp_path / "nothing")


# --- reading ----------------------------------------------------------------------------------------------------------


def test_reading_on(tools: FileTools, tmp_path: Path):
    (tmp_path / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    text, offset = "", 1
    while offset:
        answer = tools.read_file("n.txt", offset)
        assert len(answer) <= files.MAX_TEXT + 200
        lines = [line for line in answer.split("\n") if "\t" in line]
        text += "".join(line.partition("\t")[2] + "\n" for line in lines)
        offset = int(answer.rpartition("offset=")[2].rstrip(".)")) if "offset=" in answer else 0
    assert text == (tmp_path / "n.txt").read_text()
    assert tools.read_file("n.txt", -1).startswith("  5000\tline 5000")
    assert tools.read_file("n.txt", 2, 1) == "     2\tline 2\n(Lines 2 to 2 of 5000. Read on with offset=3.)"
    assert "has 5000 lines" in str(refused(lambda: tools.read_file("n.txt", 5001)))
    (tmp_path / "wide.txt").write_text("x" * 300_000)
    assert "298000 more characters" in tools.read_file("wide.txt")
    (tmp_path / "empty.txt").touch()
    assert tools.read_file("empty.txt") == "The file 'empty.txt' is empty."


def test_a_picture_is_a_picture(tools: FileTools, tmp_path: Path):
    data = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
    (tmp_path / "p.png").write_bytes(data)
    text, image = tools.read_file("p.png")
    assert isinstance(image, ImageBlock) and image.source.media_type == "image/png"
    assert "p.png" in text.text


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"\x7fELF\0\0", "a program"),
        (b"%PDF-1.7\0", "a PDF"),
        (b"PK\x03\x04\0", "zip"),
        (bytes(range(256)), "256 bytes"),
    ],
)
def test_what_is_no_text_is_said_to_be_so(tools: FileTools, tmp_path: Path, data: bytes, hint: str):
    (tmp_path / "b").write_bytes(data)
    assert hint in str(refused(lambda: tools.read_file("b")))
    assert hint in str(refused(lambda: tools.edit_file("b", "a", "b")))


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"), max_size=60)


@given(
    TEXT,
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "latin-1", "cp1252"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_decoded_encodes_to_the_same_bytes(text: str, encoding: str, newline: str):
    try:
        data = text.replace("\n", newline).encode(encoding)
    except UnicodeEncodeError:
        assume(False)
        raise
    try:
        found, style = decoded(data, "x")
    except WorkspaceError:
        return
    assert style.encode(found) == data
    if encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        assert found == text.replace("\n", newline)


@given(st.binary(max_size=80))
def test_any_bytes_are_text_or_not(data: bytes):
    try:
        text, style = decoded(data, "x")
    except WorkspaceError:
        return
    assert style.encode(text) == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_edit_keeps_how_a_file_is_written(tools: FileTools, tmp_path: Path, encoding: str, newline: str):
    before = "café\nnaïve one\nlast\n".replace("\n", newline)
    (tmp_path / "t.txt").write_bytes(before.encode(encoding))
    answer = tools.read_file("t.txt")
    assert "naïve one" in answer
    assert ("Encoding" in answer) == (encoding != "utf-8" or newline != "\n")
    tools.edit_file("t.txt", "café\nnaïve one", "thé\nnaïve two")
    assert (tmp_path / "t.txt").read_bytes() == "thé\nnaïve two\nlast\n".replace("\n", newline).encode(encoding)
    tools.write_file("t.txt", "neu\nß\n")
    assert (tmp_path / "t.txt").read_bytes() == "neu\nß\n".replace("\n", newline).encode(encoding)


def test_what_an_encoding_does_not_have(tools: FileTools, tmp_path: Path):
    (tmp_path / "t.txt").write_bytes("café".encode("cp1252"))
    assert "has no '😀'" in str(refused(lambda: tools.edit_file("t.txt", "caf", "😀")))
    assert (tmp_path / "t.txt").read_bytes() == "café".encode("cp1252")
    assert "UTF-8 now" in tools.write_file("t.txt", "😀")
    assert (tmp_path / "t.txt").read_text() == "😀"


def test_sizes_are_bounded(tmp_path: Path):
    tools = FileTools(Workspace(tmp_path, max_read=100, max_write=50, max_total=120))
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert "too large: 1,099,511,627,776 bytes" in str(refused(lambda: tools.read_file("huge")))
    assert "too large" in str(refused(lambda: tools.edit_file("huge", "a", "b")))
    assert grepped(tools, "a").endswith("Files searched: 0, not text or not readable: 1.")
    assert "at most 50 may be written" in str(refused(lambda: tools.write_file("x", "x" * 51)))
    tools.write_file("x", "x" * 50)
    tools.write_file("x", "y" * 50)
    error = refused(lambda: tools.write_file("y", "z" * 50))
    assert isinstance(error, WorkspaceError) and error.reason == "quota"
    assert sorted(os.listdir(tmp_path)) == ["huge", "x"]
    assert tools.workspace.written == 100


# --- writing ----------------------------------------------------------------------------------------------------------


def test_writing_keeps_the_mode(tools: FileTools, tmp_path: Path):
    (tmp_path / "run.sh").write_text("echo 1\n")
    (tmp_path / "run.sh").chmod(0o750)
    tools.edit_file("run.sh", "1", "2")
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750
    tools.write_file("run.sh", "echo 3\n")
    assert stat.S_IMODE((tmp_path / "run.sh").stat().st_mode) == 0o750
    (tmp_path / "run.sh").chmod(0o444)
    for call in (lambda: tools.write_file("run.sh", "x"), lambda: tools.edit_file("run.sh", "3", "4")):
        error = refused(call)
        assert isinstance(error, WorkspaceError) and error.reason == "permission"
    (tmp_path / "run.sh").chmod(0o644)
    (tmp_path / "set").write_text("x")
    (tmp_path / "set").chmod(0o4755)
    tools.write_file("set", "y")
    assert stat.S_IMODE((tmp_path / "set").stat().st_mode) == 0o755


def test_a_write_that_fails_leaves_nothing(tools: FileTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "x").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert "No space left" in str(refused(lambda: tools.write_file("x", "new")))
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"
    assert tools.workspace.written == 0


def test_a_hard_link_is_not_written_through(fence: Fence):
    os.link(fence.outside / "secret.txt", fence.base / "outside" / "same.txt")
    os.link(fence.outside / "secret.txt", fence.root / "hard.txt")
    fence._before = fence._snapshot()
    FileTools(fence.root).write_file("hard.txt", "mine")
    assert (fence.outside / "secret.txt").read_text() == SECRET
    assert (fence.root / "hard.txt").read_text() == "mine"
    # one name less for what is outside, and nothing else
    fence._before = fence._snapshot()


def test_a_file_changed_meanwhile_is_not_overwritten(tools: FileTools, tmp_path: Path):
    (tmp_path / "x").write_text("one")

    def change(data: bytes) -> bytes:
        (tmp_path / "x").write_text("theirs")
        return data + b"!"

    error = refused(lambda: tools.workspace.update("x", change))
    assert isinstance(error, WorkspaceError) and error.reason == "changed"
    assert (tmp_path / "x").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["x"]


def test_moving_and_deleting(tools: FileTools, tmp_path: Path):
    tools.write_file("a/x.txt", "1")
    tools.write_file("b.txt", "2")
    assert "exists already" in str(refused(lambda: tools.move_file("a/x.txt", "b.txt")))
    assert "into itself" in str(refused(lambda: tools.move_file("a", "a/b")))
    assert "not empty" in str(refused(lambda: tools.delete_file("a")))
    assert "cannot be deleted" in str(refused(lambda: tools.delete_file(".")))
    assert "no file or folder" in str(refused(lambda: tools.delete_file("nothing")))
    tools.move_file("a", "c/d")
    tools.delete_file("c/d/x.txt")
    tools.delete_file("c/d")
    assert sorted(os.listdir(tmp_path)) == ["b.txt", "c"]


def test_a_move_takes_nothing_denied_along(tmp_path: Path):
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    tools = FileTools(tmp_path)
    assert "out of bounds" in str(refused(lambda: tools.move_file("sub", "other")))
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "x").touch()
    tools = FileTools(Workspace(tmp_path, deny=["g/hooks/x"]))
    assert "out of bounds" in str(refused(lambda: tools.move_file("hooks", "g/hooks")))


# --- editing ----------------------------------------------------------------------------------------------------------


@given(TEXT, TEXT, TEXT, st.booleans())
def test_an_edit_changes_its_piece_and_nothing_else(text: str, old: str, new: str, every: bool):
    """Laws: once, or every time, or an error; what is before and behind stays; the same edit back gives the text."""
    try:
        edited, count = replaced(text, old, new, every=every, path="x")
    except ToolError:
        assert not old or old == new or text.count(old) != 1
        return
    assert edited == text.replace(old, new)
    assert count == text.count(old) and (every or count == 1)
    if count == 1:
        at = text.index(old)
        assert edited == text[:at] + new + text[at + len(old) :]
    assert len(changes(text, edited).split("\n")) <= 90


def test_what_an_edit_says_when_it_cannot(tools: FileTools, tmp_path: Path):
    (tmp_path / "a.py").write_text("def f():\n    return 1\n\ndef g():\n    return 1\n")

    def said(old: str, new: str = "x", **options: bool) -> str:
        return str(refused(lambda: tools.edit_file("a.py", old, new, **options)))

    assert "2 times, at lines 2, 5" in said("return 1")
    assert "differs in white space only from lines 1 to 2" in said("def f():\n  return 1")
    assert "closest lines are:\n1: def f():" in said("def ff():")
    assert "No line is similar" in said("zzzzzz")
    assert "empty" in said("")
    assert "the same" in said("f", "f")
    assert tools.edit_file("a.py", "return 1", "return 2", replace_all=True).startswith("Edited 'a.py': 2 places.")


@pytest.mark.parametrize("dir_fd", [True, False])
def test_edits_at_once_lose_nothing(tmp_path: Path, dir_fd: bool, monkeypatch: pytest.MonkeyPatch):
    """Parallel tools, over two workspaces and two spellings of one file."""
    monkeypatch.setattr(workspace, "HAS_DIR_FD", dir_fd)
    count = 24
    (tmp_path / "n.txt").write_text("".join(f"[{n}] old\n" for n in range(count)))
    toolkits = [Toolkit([FileTools(tmp_path)]), Toolkit([FileTools(Workspace(tmp_path))])]
    calls = [
        use("edit_file", str(n), path=["n.txt", "./n.txt"][n % 2], old_string=f"[{n}] old", new_string=f"[{n}] new")
        for n in range(count)
    ]
    threads = [
        threading.Thread(target=lambda half=half: toolkits[half].call_all(calls[half::2]).run()) for half in (0, 1)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (tmp_path / "n.txt").read_text() == "".join(f"[{n}] new\n" for n in range(count))
    assert os.listdir(tmp_path) == ["n.txt"]


# --- finding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("*.py", ["a.py"], ["b/a.py", "a.pyc"]),
        ("**/*.py", ["a.py", "b/a.py", "b/c/a.py"], ["a.txt"]),
        ("src/**", ["src/a", "src/b/c"], ["a", "other/src/a"]),
        ("**", ["a", "a/b"], []),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a", "b", "a/b/c"]),
        ("*.{js,ts}", ["a.js", "a.ts"], ["a.py"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "c"]),
        ("[ab]?", ["ax", "by"], ["cx", "a"]),
        ("./a", ["a"], ["b"]),
    ],
)
def test_globs(pattern: str, fits: list[str], not_: list[str]):
    glob = Glob(pattern)
    assert [path for path in [*fits, *not_] if glob.matches(path.split("/"))] == fits


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../*", "~/x", "C:/x", "", "x" * 501, "{a,b}" * 7])
def test_globs_that_are_refused(tools: FileTools, pattern: str):
    assert str(refused(lambda: tools.glob(pattern)))


def test_a_glob_cannot_stall():
    assert not Glob("**/" * 40 + "x").matches(["a"] * 250)
    assert not Glob("*a" * 100 + "b").matches(["a" * 250])


def test_denied_in_any_spelling():
    rules = DenyList([".git", "build/*.key", "/private"])
    for path in (".git", "a/.GIT/x", "build/a.KEY", "private/x", "Private"):
        assert rules.denies(path.split("/")), path
    for path in (".github", "a/build/x.key", "a/private", "git"):
        assert not rules.denies(path.split("/")), path


def test_finding(tools: FileTools, tmp_path: Path):
    for path in ("a.py", "src/b.py", "src/deep/c.py", ".hidden/d.py", "node_modules/e.py", "src/.f.py", ".env"):
        tools.workspace.root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"x = '{path}'\nneedle here\nend\n")
    assert tools.glob("**/*.py") == "a.py\nsrc/b.py\nsrc/deep/c.py"
    assert tools.glob("*.py", "src") == "src/b.py"
    assert "Try '**/c.py'" in tools.glob("c.py")
    assert tools.list_directory() == "a.py  (27)\nsrc/"
    assert grepped(tools, "needle", glob="c.py") == "src/deep/c.py:2: needle here"
    assert grepped(tools, "NEEDLE", "a.py", ignore_case=True, context=1) == (
        "a.py-1- x = 'a.py'\na.py:2: needle here\na.py-3- end"
    )
    assert grepped(tools, "^n.*e$", "src").startswith("src/b.py:2: needle here\nsrc/deep/c.py:2:")
    assert "No line matches 'kiwi'. Files searched: 3" in grepped(tools, "kiwi")
    hidden = FileTools(Workspace(tmp_path, hidden=True, deny=(), skip=()))
    assert len(hidden.glob("**/*.py").split("\n")) == 6


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "no regular expression"),
        ("", "empty"),
        ("a\nb", "line break"),
        ("x" * 1001, "longer"),
        ("(" * 500 + ")" * 500, "nested"),
        (r"(a)\1", "a backreference"),
        ("(?<=a)b", "look-around"),
    ],
)
def test_patterns_that_are_refused(tools: FileTools, pattern: str, why: str):
    assert why in str(refused(lambda: grepped(tools, pattern)))


@pytest.mark.parametrize(
    ("pattern", "line"),
    [("(a|aa)+$", "a" * 60 + "b"), ("(?:(?:a{500}){500}){500}x", "a" * 100), ("(.*)*=(.*)*=", "x" * 5000)],
)
def test_no_pattern_can_stall_or_fill_memory(tools: FileTools, tmp_path: Path, pattern: str, line: str, monkeypatch):
    (tmp_path / "x").write_text(line)
    monkeypatch.setattr(search.Search.__init__, "__kwdefaults__", {"ignore_case": False, "context": 0, "seconds": 0.5})
    said = ""
    try:
        grepped(tools, pattern)
    except ToolError as error:
        said = str(error)
    assert not said or "expands to more than" in said


def test_lines_are_searched_as_far_as_the_pattern_allows(tools: FileTools, tmp_path: Path):
    """The engine cannot be interrupted, so that a line and a pattern that are both large are not searched whole."""
    (tmp_path / "x").write_text("ab" * 100_000 + "z\n" + "short z\n")
    before = time.thread_time()
    assert grepped(tools, "(a|b)*a(a|b){4000}c|z") == ("x:2: short z\n(lines searched to character 4,995 only: 1.)")
    assert time.thread_time() - before < 5
    assert grepped(tools, "z").startswith("x:1: ...abab")
    late = search.Search("(a|b)*a(a|b){4000}c", seconds=0)
    late.file("x", lambda: b"ab" * 5_000 + b"\nx")
    assert "stopped after 0 s" in late.result()


LINES = st.text(st.sampled_from("abAB .\u00e9"), max_size=12)
PIECES = ["a", "b", ".", " ", "^", "$", "[ab]", "[^a]", "(?:a|b)", "a*", "b+", ".*?", r"\b", r"\s", "é"]


@given(st.lists(LINES, max_size=6), st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.booleans())
def test_lines_match_as_in_python(lines: list[str], pieces: list[str], ignore_case: bool):
    """Law: the engine finds the lines that Python's `re` finds, of these patterns."""
    pattern = "".join(pieces)
    found = search.Search(pattern, ignore_case=ignore_case)
    found.file("x", lambda: "".join(f"{line}\n" for line in lines).encode())
    expected = [line for line in lines if re.search(pattern, line, re.IGNORECASE if ignore_case else 0)]
    assert found.matched == len(expected)


def test_searches_are_bounded(tools: FileTools, tmp_path: Path):
    (tmp_path / "a.txt").write_text(f"{'x' * 1000}needle{'y' * 1000}\n" + "needle\n" * 1000)
    lines = grepped(tools, "needle").split("\n")
    assert len(lines) == search.MAX_MATCHES + 1
    assert "needle" in lines[0] and len(lines[0]) < 400
    assert "only the first 200 matches" in lines[-1]


def test_a_search_can_be_left_halfway(tmp_path: Path):
    for n in range(600):
        (tmp_path / f"{n}").write_text("x")
    search = FileTools(tmp_path).grep("y+")
    assert next(search) == "500 files searched"
    search.close()


@pytest.mark.parametrize("portable", [True, False])
def test_names_that_look_like_others_are_themselves(tmp_path: Path, portable: bool):
    """A folder named ' ' is not the root: a walk into it ends."""
    for folder in (" ", "x ", "x", " ..", "~", "..."):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "in.txt").write_text(f"in {folder!r}")
        (tmp_path / folder / "in.txt ").write_text("not in.txt")
    tools = FileTools(Workspace(tmp_path, portable=portable))
    found = tools.glob("**").split("\n")
    assert len(found) == len(set(found))
    assert {path for path in found if path.startswith("x")} >= {"x/in.txt", "x/in.txt "}
    lines = grepped(tools, "in").split("\n")
    assert "x/in.txt:1: in 'x'" in lines
    assert ("x /in.txt:1: in 'x '" in lines) is not portable
    assert all("not in.txt" in line for line in lines if line.startswith("x/in.txt :"))


def test_large_and_deep_trees(tmp_path: Path):
    for n in range(10_000):
        (tmp_path / f"{n:05}.txt").touch()
    deep = tmp_path / "z"
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "end.txt").write_text("the end")
    tools = FileTools(tmp_path)
    lines = tools.list_directory().split("\n")
    assert len(lines) == files.MAX_ENTRIES + 1 and "and 9501 more" in lines[-1]
    assert tools.glob("z/**/end.txt") == "z/" + "d/" * 100 + "end.txt"
    assert len(tools.glob("*.txt").split("\n")) == files.MAX_ENTRIES + 1
    assert grepped(tools, "the end").endswith("end.txt:1: the end")
    assert "more than 256 parts" in str(refused(lambda: tools.write_file("d/" * 300 + "x", "x")))


# --- links, and races -------------------------------------------------------------------------------------------------


def test_links_inside_are_followed_if_asked_for(fence: Fence):
    tools = FileTools(Workspace(fence.root, follow_symlinks=True))
    (fence.root / "docs" / "back").symlink_to("../docs/../README.md")
    (fence.root / "whole").symlink_to(fence.root / "docs")
    assert "Bananas" in tools.read_file("docs/back")
    assert "Bananas" in tools.read_file("inner/back")
    assert "see hooks" in tools.read_file("whole/index.md")
    tools.edit_file("inner/index.md", "hooks", "hooks!")
    assert "hooks!" in (fence.root / "docs" / "index.md").read_text()
    assert (fence.root / "inner").is_symlink()
    error = refused(lambda: tools.read_file("loop"))
    assert "circle" in str(error)


def test_a_root_that_was_replaced_is_not_used(fence: Fence):
    """Also where what is there now is a link, or a folder above it is."""
    tools = FileTools(fence.root)
    fence.root.rename(fence.base / "old")
    try:
        assert "no file or folder" in str(refused(lambda: tools.read_file("README.md")))
        fence.root.symlink_to(fence.outside)
        for call in (lambda: tools.read_file("secret.txt"), lambda: tools.write_file("x", "y")):
            assert "secret" not in str(refused(call)).replace("'secret.txt'", "")
        fence.root.unlink()
        fence.root.mkdir()
        assert "replaced" in str(refused(lambda: tools.read_file("README.md")))
        fence.root.rmdir()
    finally:
        (fence.base / "old").rename(fence.root)
    fence._before = {**fence._snapshot(), str(fence.outside): fence._before[str(fence.outside)]}
    assert "Bananas" in tools.read_file("README.md")


def test_no_race_is_won_by_a_link(fence: Fence):
    """A thread swaps a folder and a file for links while everything is tried, thousands of times."""
    root, over = fence.root, threading.Event()
    (root / "swap").mkdir()
    (root / "swap" / "secret.txt").write_text("inside")
    (root / "file.txt").write_text("inside")
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not over.is_set():
            for name, target in (("swap", fence.outside), ("file.txt", fence.base / "secret.txt")):
                try:
                    os.rename(root / name, root / "aside")
                    os.symlink(target, root / name)
                except OSError:
                    # the tools have made it anew in between: that will do
                    pass
                try:
                    os.unlink(root / name)
                    os.rename(root / "aside", root / name)
                except OSError:
                    aside = root / "aside"
                    shutil.rmtree(aside) if aside.is_dir() else aside.unlink(missing_ok=True)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    tools = FileTools(root)
    ways = [
        lambda: tools.read_file("swap/secret.txt"),
        lambda: tools.read_file("file.txt"),
        lambda: tools.write_file("swap/new.txt", "x"),
        lambda: tools.write_file("swap/secret.txt", "inside"),
        lambda: tools.edit_file("swap/secret.txt", "inside", "inside!"),
        lambda: tools.edit_file("file.txt", "inside", "inside"),
        lambda: tools.list_directory("swap"),
        lambda: grepped(tools, "secret", "swap"),
        lambda: tools.delete_file("swap/new.txt"),
        lambda: tools.write_file("swap/secret.txt", "inside"),
    ]
    done = refusals = 0
    try:
        while done < 4_000:
            for way in ways:
                done += 1
                try:
                    assert SECRET not in str(way())
                except ToolError:
                    refusals += 1
    finally:
        over.set()
        thread.join()
    assert swaps > 20 and 0 < refusals < done
    fence.check()


CALLS = ("open", "stat", "replace", "mkdir", "unlink", "rmdir", "scandir", "readlink")


@pytest.mark.parametrize("follow", [False, True], ids=["no links", "links inside"])
@pytest.mark.parametrize("way", ["read", "list", "grep", "write", "new", "edit", "move", "move here", "delete"])
def test_a_link_put_before_a_system_call_is_not_followed(
    fence: Fence, way: str, follow: bool, monkeypatch: pytest.MonkeyPatch
):
    """Every race there is, one after the other: before the first call of the system, before the second, ..."""
    root = fence.root
    real = {name: getattr(os, name) for name in CALLS}
    place = Workspace(root, follow_symlinks=follow)
    tools = FileTools(place)
    ways: dict[str, Callable[[], object]] = {
        "read": lambda: tools.read_file("swap/in/secret.txt"),
        "list": lambda: tools.list_directory("swap/in"),
        "grep": lambda: grepped(tools, "secret", "swap"),
        "write": lambda: tools.write_file("swap/in/secret.txt", "x"),
        "new": lambda: tools.write_file("swap/in/new/x.txt", "x"),
        "edit": lambda: tools.edit_file("swap/in/secret.txt", "inside", "x"),
        "move": lambda: tools.move_file("swap/in/secret.txt", "taken.txt"),
        "move here": lambda: tools.move_file("README.md", "swap/in/secret2.txt"),
        "delete": lambda: tools.delete_file("swap/in/secret.txt"),
    }
    targets = {
        "swap": [fence.base / "trap", fence.base / "trap" / "in"],
        "swap/in": [fence.base / "trap" / "in", Path("/proc/self/cwd")],
        "swap/in/secret.txt": [fence.base / "secret.txt", Path("/proc/self/environ")],
    }
    (fence.base / "trap" / "in").mkdir(parents=True)
    (fence.base / "trap" / "in" / "secret.txt").write_text(SECRET)
    fence._before = fence._snapshot()
    for name, leads in targets.items():
        for target in leads:
            at, swapped = 0, True
            while swapped:
                shutil.rmtree(root / "swap", ignore_errors=True)
                for leftover in ("taken.txt", "aside"):
                    shutil.rmtree(root / leftover, ignore_errors=True)
                    (root / leftover).unlink(missing_ok=True)
                (root / "README.md").write_text("Bananas")
                (root / "swap" / "in").mkdir(parents=True)
                (root / "swap" / "in" / "secret.txt").write_text("inside")
                left, swapped = at, False

                def counted(call: str, *arguments: object, **options: object) -> object:
                    nonlocal left, swapped
                    if left == 0 and not swapped:
                        swapped = True
                        with monkeypatch.context() as within:
                            for each, function in real.items():
                                within.setattr(os, each, function)
                            if (root / name).exists():  # noqa: B023
                                os.rename(root / name, root / "aside")  # noqa: B023
                            os.symlink(target, root / name)  # noqa: B023
                    left -= 1
                    return real[call](*arguments, **options)

                with monkeypatch.context() as patch:
                    for each in CALLS:
                        patch.setattr(os, each, functools.partial(counted, each))
                    try:
                        answer = str(ways[way]())
                    except ToolError as error:
                        answer = str(error)
                assert SECRET not in answer
                link = root / name
                link.unlink() if link.is_symlink() else None
                fence.check()
                at += 1
            assert at > 3


def test_a_pipe_put_in_a_files_place_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between the look and the opening."""
    (tmp_path / "x").write_text("x")
    look = os.stat

    def replaced_by_pipe(path: object, *arguments: object, **options: object) -> os.stat_result:
        found = look(path, *arguments, **options)
        if path == "x" and stat.S_ISREG(found.st_mode):
            (tmp_path / "x").unlink()
            os.mkfifo(tmp_path / "x")
        return found

    place = Workspace(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", replaced_by_pipe)
        error = refused(lambda: place.read("x"))
    assert isinstance(error, WorkspaceError) and error.reason == "special"


def test_no_descriptor_is_left(fence: Fence):
    tools = FileTools(fence.root)
    before = len(os.listdir("/dev/fd"))
    for path in (
        "README.md",
        "docs",
        "link.txt",
        "docs/deep/x",
        "nothing/x",
        "../x",
        "pipe",
        "docs/new.txt",
        "x" * 300,
    ):
        for way in (
            lambda: tools.read_file(path),  # noqa: B023
            lambda: tools.write_file(path, "x"),  # noqa: B023
            lambda: tools.list_directory(path),  # noqa: B023
            lambda: grepped(tools, "a+", path),  # noqa: B023
            lambda: tools.move_file(path, "docs/moved"),  # noqa: B023
        ):
            try:
                way()
            except ToolError:
                continue
    assert len(os.listdir("/dev/fd")) == before


def test_styles_are_told():
    assert str(style_of(b"a\r\nb")) == "lines end with CR LF"
    assert str(style_of("a".encode("utf-8-sig"))) == "utf-8 with a mark"


NAMES = st.text("abA.-]\n[!^", min_size=1, max_size=5)
GLOBS = st.lists(
    st.sampled_from([*"abA.*?-^|+$\n", "[a-b]", "[!a]", "[]a]", "[b-a]", "["]), min_size=1, max_size=8
).map("".join)


@given(GLOBS, NAMES)
def test_a_glob_matches_a_name_as_fnmatch_does(pattern: str, name: str):
    """Law: within one name, a translated pattern is what `fnmatch` makes of it."""
    assume(pattern not in (".", "..", "**"))
    assert Glob(pattern).matches([name]) == fnmatch.fnmatchcase(name, pattern)


def test_a_workspace_tells_if_a_path_exists(tmp_path: Path) -> None:
    place = Workspace(tmp_path)
    place.write("docs/a.md", b"a")
    assert place.exists("docs/a.md") and place.exists("docs") and place.exists(".")
    assert not place.exists("docs/b.md") and not place.exists("nothing/a.md")
    with pytest.raises(WorkspaceError, match="out of bounds"):
        place.exists(".env")
