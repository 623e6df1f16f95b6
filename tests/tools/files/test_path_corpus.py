"""Paths of the corpus, and random ones: nothing outside of the workspace is touched or shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ToolError, WorkspaceError
from agentscope_rx.tools.files import FileTools, Workspace, workspace
from tests.tools.fence import SECRET, Fence
from tests.tools.files.path_corpus import PATHS


def ways(tools: FileTools, path: str) -> dict[str, Callable[[], object]]:
    """Every way in which a path can be given to the tools."""
    return {
        "read": lambda: tools.read_file(path),
        "list": lambda: tools.list_directory(path),
        "glob": lambda: tools.glob("**", path),
        "grep": lambda: list(tools.grep("secret", path)),
        "write": lambda: tools.write_file(path, "x"),
        "edit": lambda: tools.edit_file(path, "secret", "x"),
        "move": lambda: tools.move_file(path, "moved.txt"),
        "move here": lambda: tools.move_file("README.md", path),
        "delete": lambda: tools.delete_file(path),
    }


def tried(way: Callable[[], object]) -> tuple[str, ToolError | None]:
    """What a way gives, or why it is refused; any other error fails the test."""
    try:
        return str(way()), None
    except ToolError as error:
        return "", error


def test_the_corpus_is_large():
    assert len(set(PATHS)) >= 200


@pytest.mark.parametrize("dir_fd", [True, False], ids=["by parts", "by resolving"])
@pytest.mark.parametrize(("path", "reasons"), PATHS, ids=lambda each: repr(each)[:40])
def test_paths(fence: Fence, path: str, reasons: str, dir_fd: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace, "HAS_DIR_FD", dir_fd)
    tools = FileTools(fence.root)
    path = fence.fill(path)
    for name, way in ways(tools, path).items():
        answer, error = tried(way)
        if isinstance(error, WorkspaceError):
            assert not reasons or error.reason in reasons.split(), (name, error)
            assert str(error).endswith(".") and len(str(error)) < 1000
        elif error is not None:
            # nothing inside that could be edited
            assert not reasons and "old_string" in str(error), (name, error)
        else:
            assert not reasons, (name, answer)
            assert SECRET not in answer
        fence.check()


@pytest.mark.parametrize(("path", "reasons"), PATHS, ids=lambda each: repr(each)[:40])
def test_paths_where_links_are_followed_inside(fence: Fence, path: str, reasons: str):
    tools = FileTools(Workspace(fence.root, follow_symlinks=True))
    for name, way in ways(tools, fence.fill(path)).items():
        try:
            answer = str(way())
        except Exception as error:
            assert not isinstance(error, OSError), (name, error)  # noqa: PT017
        else:
            assert SECRET not in answer
            assert not reasons or path.startswith("inner"), (name, answer)
        fence.check()


PIECES = [
    "..", ".", "", "docs", "deep", "link.txt", "up", "away", "inner", "loop", "proc", "abs", "pipe", "secret.txt",
    "root",
    "index.md", "~", "\0", "\\", "..\\", "C:", "con", ".git", "new", " ", "%2e%2e", "self", "cwd", "README.md", "é",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=7),
    st.sampled_from(["", "/", "./", "//", "~/", "\\"]),
    st.booleans(),
    st.booleans(),
)
def test_no_path_made_of_nasty_pieces_leads_out(
    fence: Fence, parts: list[str], start: str, follow: bool, portable: bool
):
    tools = FileTools(Workspace(fence.root, follow_symlinks=follow, portable=portable))
    for name, way in ways(tools, start + "/".join(parts)).items():
        if name in ("delete", "move", "move here"):
            continue
        try:
            assert SECRET not in str(way())
        except Exception as error:
            assert not isinstance(error, (OSError, UnicodeError, RecursionError)), (name, error)  # noqa: PT017
    fence.check()
