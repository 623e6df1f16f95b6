"""The adversarial corpus: whatever is tried, nothing outside is touched or told, and the model is told why."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Toolkit
from agentscope_rx.errors import CommandDeniedError, ToolError, WorkspaceError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.tools.files import FileTools, Workspace, workspace
from agentscope_rx.tools.shell import ShellTool
from agentscope_rx.tools.shell.shell_words import split_command
from tests.tools.builtin.corpus import COMMANDS, HARMLESS, PATHS, RULES
from tests.tools.builtin.fence import SECRET, Fence
from tests.tools.calling import use


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
    assert len(set(PATHS)) + len(set(COMMANDS)) >= 400


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


@pytest.mark.parametrize(("command", "why"), COMMANDS, ids=lambda each: repr(each)[:40])
def test_commands(fence: Fence, command: str, why: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANARY", SECRET)
    toolkit = Toolkit([ShellTool(fence.root, RULES)])
    result = toolkit.call(use("run_command", command=command)).run()
    assert result.kind is ToolResultKind.REJECTED, result.text
    assert re.search(why, result.text), result.text
    assert len(result.text) < 1000
    assert SECRET not in result.text


@pytest.mark.parametrize(("command", "output"), HARMLESS, ids=lambda each: repr(each)[:40])
def test_commands_that_look_worse_than_they_are(fence: Fence, command: str, output: str):
    result = Toolkit([ShellTool(fence.root, RULES)]).call(use("run_command", command=command)).run()
    assert result.kind is None, result.text
    assert output in result.text
    assert result.metadata["exit_code"] == 0


@pytest.mark.parametrize("cwd", ["..", "/", "away", "docs/deep", "~", "README.md", "nothing", ".git", "pipe", "a\0b"])
def test_a_command_runs_inside_only(fence: Fence, cwd: str):
    (fence.root / ".git").mkdir()
    result = Toolkit([ShellTool(fence.root, RULES)]).call(use("run_command", command="ls", cwd=cwd)).run()
    assert result.kind in (ToolResultKind.FAILED, ToolResultKind.REJECTED), result.text


def test_the_environment_is_not_handed_on(fence: Fence, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CANARY", SECRET)
    toolkit = Toolkit([ShellTool(fence.root, ["env"], env={"MINE": "given"})])
    text = toolkit.call(use("run_command", command="env")).run().text
    assert SECRET not in text
    assert "MINE=given" in text
    (home,) = re.findall(r"^HOME=(.*)$", text, re.MULTILINE)
    assert not Path(home).is_relative_to(fence.root) and not Path(home).exists()


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


SHELL = st.text(st.sampled_from(list("abl s'\"\\;|&<>$`()*?[]{}~#!=-/.\n\t1é\0")), max_size=30)


@given(SHELL)
def test_what_is_parsed_is_what_posix_says(command: str):
    """Law: a command that is not denied has the words that `shlex` finds in it, and nothing special unquoted."""
    try:
        words = split_command(command)
    except CommandDeniedError:
        return
    assert list(words) == shlex.split(command)
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>()")
    lexer.commenters = ""
    lexer.wordchars += "".join(set(command) - set(";|&<>() \t\n'\"\\"))
    assert list(lexer) == list(words)


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8), min_size=1, max_size=5))
def test_what_is_quoted_is_never_denied(words: list[str]):
    """Law: split_command(quoted(words)) == words, for words that begin with the name of a program."""
    words = ["program", *words]
    assert split_command(shlex.join(words)) == tuple(words)
