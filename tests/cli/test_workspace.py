"""No path leads out of a workspace; what is in it can be listed, read and searched."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ToolError
from agentscope_rx.cli import files
from agentscope_rx.cli.files import FileTools
from agentscope_rx.tools.files import workspace
from agentscope_rx.tools.files.workspace import Workspace as AnyWorkspace

SECRET = "the secret outside"


def Workspace(root: str | Path) -> AnyWorkspace:
    """As the command line makes it."""
    return AnyWorkspace(root, deny=(), portable=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a secret, with links that lead there, and to places inside."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Index\nsee hooks\n")
    (root / "README.md").write_text("# Read me\nBananas are yellow.\n")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "away").symlink_to(tmp_path / "outside")
    (root / "docs" / "deep").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to("docs")
    (root / "loop").symlink_to("loop")
    return root


@pytest.fixture(params=[True, False], ids=["by parts", "by resolving"])
def tools(root: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FileTools:
    monkeypatch.setattr(workspace, "BY_PARTS", request.param)
    return FileTools(Workspace(root))


def _said(look: Callable[[], str]) -> str:
    """What a look gives, or why it is denied."""
    try:
        return look()
    except ToolError as error:
        return str(error)


PARTS = [
    "..",
    ".",
    "",
    "docs",
    "deep",
    "link.txt",
    "up",
    "away",
    "inner",
    "loop",
    "secret.txt",
    "root",
    "index.md",
    "~",
]


@given(st.lists(st.sampled_from(PARTS), max_size=6), st.sampled_from(["", "/", "./", "//"]))
def test_no_path_reaches_the_secret(tools: FileTools, parts: list[str], start: str) -> None:
    path = start + "/".join(parts)
    for look in (tools.read_file, tools.list_files, lambda path: list(tools.search_files("secret", path))):
        assert SECRET not in _said(lambda: str(look(path)))  # noqa: B023


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_a_denial(tools: FileTools, path: str) -> None:
    for look in (tools.read_file, tools.list_files):
        assert _said(lambda: look(path))  # noqa: B023


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "absolute"),
        ("../secret.txt", "'..'"),
        ("docs/../README.md", "'..'"),
        ("link.txt", "'link.txt' is a symbolic link"),
        ("inner/index.md", "'inner' is a symbolic link"),
        ("docs/deep/secret.txt", "'docs/deep' is a symbolic link"),
        ("loop", "link"),
        ("nothing.md", "no file or folder 'nothing.md'"),
        ("README.md/x", "is a file, not a folder"),
        ("docs", "is a folder"),
        ("a\0b", "cannot be opened"),
        ("x" * 300, "cannot be opened"),
    ],
)
def test_every_denial_says_why(tools: FileTools, path: str, why: str) -> None:
    with pytest.raises(ToolError, match=why):
        tools.read_file(path)


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race: the part is looked at, then replaced, then opened."""
    look = os.stat

    def replaced(path: object, *arguments: object, **options: object) -> os.stat_result:
        found = look(path, *arguments, **options)
        if path == "docs":
            (root / "docs" / "index.md").unlink()
            (root / "docs" / "deep").unlink()
            (root / "docs").rmdir()
            (root / "docs").symlink_to(tmp_path / "outside")
        return found

    place = Workspace(root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", replaced)
        with pytest.raises(ToolError):
            place.read("docs/secret.txt", 1000)


def test_descriptors_are_closed(root: Path) -> None:
    tools = FileTools(Workspace(root))
    before = len(os.listdir("/dev/fd"))
    for path in ("README.md", "docs", "link.txt", "docs/deep/secret.txt", "docs/nothing", "../x", "docs/index.md"):
        for look in (tools.read_file, tools.list_files):
            try:
                look(path)
            except ToolError:
                continue
    assert len(os.listdir("/dev/fd")) == before


def test_what_is_neither_file_nor_folder_is_denied_and_does_not_block(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(ToolError, match="neither a file nor a folder"):
                FileTools(Workspace(".")).read_file(name)


# --- what the tools say -----------------------------------------------------------------------------------------------


def test_listing(tools: FileTools, root: Path) -> None:
    for name in (".git", "node_modules", "__pycache__", "empty"):
        (root / name).mkdir()
    (root / ".env").write_text("KEY=1")
    assert tools.list_files().split("\n") == [
        "README.md",
        "away (a link, not followed)",
        "docs/",
        "empty/",
        "inner (a link, not followed)",
        "link.txt (a link, not followed)",
        "loop (a link, not followed)",
        "up (a link, not followed)",
    ]
    assert tools.list_files("docs") == "docs/deep (a link, not followed)\ndocs/index.md"
    assert tools.list_files("empty") == "The folder 'empty' is empty."
    with pytest.raises(ToolError, match="is a file"):
        tools.list_files("README.md")


def test_a_long_listing_is_cut(tools: FileTools, root: Path) -> None:
    (root / "many").mkdir()
    for n in range(files.MAX_ENTRIES + 5):
        (root / "many" / f"{n:04}").touch()
    lines = tools.list_files("many").split("\n")
    assert len(lines) == files.MAX_ENTRIES + 1
    assert lines[-1] == "... and 5 more"


def test_reading_lines(tools: FileTools, root: Path) -> None:
    (root / "n.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert tools.read_file("n.txt").count("\n") == 9
    assert tools.read_file("n.txt:9-") == "line 9\nline 10\n(Lines 9 to 10 of 10.)"
    assert tools.read_file("n.txt:2-3") == "line 2\nline 3\n(Lines 2 to 3 of 10.)"
    assert tools.read_file("n.txt:4") == tools.read_file("n.txt:4:") == "line 4\n(Lines 4 to 4 of 10.)"
    assert tools.read_file("n.txt:2-99").endswith("(Lines 2 to 10 of 10.)")
    assert tools.read_file("n.txt:0-1").startswith("line 1\n")
    with pytest.raises(ToolError, match="has 10 lines"):
        tools.read_file("n.txt:11")
    with pytest.raises(ToolError, match="ends before it begins"):
        tools.read_file("n.txt:5-4")
    with pytest.raises(ToolError, match="no file or folder"):
        tools.read_file("nothing:5-4")
    with pytest.raises(ToolError, match=r"'\.\.'"):
        tools.read_file("../n.txt:5")
    (root / "n.txt:3").write_text("odd")
    assert tools.read_file("n.txt:3") == "odd"
    (root / "empty.txt").touch()
    assert tools.read_file("empty.txt") == "The file 'empty.txt' is empty."


def test_long_files_are_cut_and_say_where_to_go_on(tools: FileTools, root: Path) -> None:
    (root / "long.txt").write_text("".join(f"{n:>99}\n" for n in range(1, 1001)))
    text, first = "", "1"
    while first:
        answer = tools.read_file(f"long.txt:{first}-")
        assert len(answer) <= files.MAX_TEXT + 100
        body, _, note = answer.rpartition("\n(")
        text += body + "\n"
        first = note.partition("path:")[2].partition("-")[0]
    assert text == (root / "long.txt").read_text()
    (root / "wide.txt").write_text("x" * 50_000 + "\nend\n")
    assert "Read on from line 2 with path:2-" in tools.read_file("wide.txt")


def test_too_large_and_binary_files_are_denied(tools: FileTools, root: Path) -> None:
    with (root / "huge.txt").open("wb") as file:
        file.truncate(files.MAX_BYTES + 1)
    (root / "zeros.bin").write_bytes(b"PNG\0\0\1")
    (root / "odd.bin").write_bytes(bytes(range(1, 32)) + b"\xff\xfe\xfd" * 9)
    with pytest.raises(ToolError, match="too large: 4,194,305 bytes"):
        tools.read_file("huge.txt")
    for name in ("zeros.bin", "odd.bin"):
        with pytest.raises(ToolError, match="not a text file"):
            tools.read_file(name)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tools: FileTools, root: Path, encoding: str) -> None:
    (root / "t.txt").write_text("café\nnaïve\n", encoding=encoding)
    assert tools.read_file("t.txt") == "café\nnaïve"


def _searched(tools: FileTools, pattern: str, path: str = ".") -> list[str]:
    found: Iterator[str] = iter(tools.search_files(pattern, path))
    return list(found)


def test_searching(tools: FileTools, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("bananas")
    (root / "b.bin").write_bytes(b"bananas\0")
    *progress, result = _searched(tools, "BANANA")
    assert result == "README.md:2: Bananas are yellow."
    assert progress == ["README.md: 1 found"]
    assert _searched(tools, "hooks", "docs")[-1] == "docs/index.md:2: see hooks"
    assert _searched(tools, "see", "docs/index.md")[-1] == "docs/index.md:2: see hooks"
    assert _searched(tools, "kiwi") == ["No file has 'kiwi'. Files searched: 2."]
    assert "not as a regular expression" in _searched(tools, "k.*i")[-1]
    with pytest.raises(ToolError, match="empty"):
        _searched(tools, " ")
    with pytest.raises(ToolError, match="no file or folder"):
        _searched(tools, "x", "nothing")


def test_searches_are_bounded(tools: FileTools, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.txt").write_text(f"{'x' * 1000}needle{'y' * 1000}\n" + "needle\n" * 100)
    lines = _searched(tools, "needle")[-1].split("\n")
    assert len(lines) == files.MAX_MATCHES + 1
    assert "needle" in lines[0]
    assert len(lines[0]) < 250
    assert lines[-1] == "... and more. Only the first 50 are shown."
    monkeypatch.setattr(files, "MAX_SEARCHED", 1)
    assert _searched(tools, "see") == ["No file has 'see'. Files searched: 1, and no more."]


def test_a_folder_that_may_not_be_read_is_said_to_be_so(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    place = Workspace(root)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ToolError, match="permission denied"):
        place.read("README.md", 10)


def test_the_root_itself_may_be_reached_by_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "way").symlink_to(root)
    assert "README.md" in FileTools(Workspace(tmp_path / "way")).list_files()


def test_odd_names_are_listed_and_read(root: Path) -> None:
    tools = FileTools(Workspace(root))
    for name, (before, after) in zip("abc", product(" ", "é~*"), strict=True):
        (root / f"{name}{before}{after}.txt").write_text(name)
        assert tools.read_file(f"{name}{before}{after}.txt") == name
