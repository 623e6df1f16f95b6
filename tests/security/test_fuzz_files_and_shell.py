"""Command lines, rules and paths made of nasty pieces: nothing special gets through, nothing outside is touched."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import CommandDeniedError, ConfigurationError, ToolError, WorkspaceError
from agentscope_rx.tools.files import FileTools, Workspace
from agentscope_rx.tools.files.paths import MAX_NAME, parts_of
from agentscope_rx.tools.shell import Rule
from agentscope_rx.tools.shell.shell_words import split_command
from tests.tools.fence import SECRET, Fence

pytestmark = pytest.mark.fuzz


@pytest.fixture
def fence(tmp_path: Path) -> Iterator[Fence]:
    """A workspace; nothing outside of it has changed when the test is over."""
    fence = Fence(tmp_path)
    yield fence
    fence.check()


# --- command lines ---------------------------------------------------------------------------------------------------

SHELL = st.lists(
    st.sampled_from(
        [*"ab -=/.'\"\\;|&<>$`()*?[]{}~#!\n\r\t1", "'", '"', "$(", "${", "&&", "||", "<<", ">>", "A=", "\\\n"]
    )
    | st.text(max_size=2),
    max_size=25,
).map("".join)
OPERATORS = frozenset(";|&<>()")


@given(SHELL)
def test_no_word_is_one_that_a_shell_would_do_something_with(command: str):
    try:
        words = split_command(command)
    except CommandDeniedError as error:
        str(error).encode()
        return
    assert words[0]
    # the words that a POSIX shell finds, none of which is an operator; quoted again they are the same words
    assert list(words) == shlex.split(command)
    lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>()")
    lexer.commenters = ""
    lexer.wordchars += "".join(set(command) - OPERATORS - set(" \t\n\r'\"\\"))
    assert list(lexer) == list(words)
    assert split_command(shlex.join(words)) == words


words = st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=6), max_size=4)


@given(words)
def test_what_is_quoted_is_what_comes_out(given_words: list[str]):
    assert split_command(shlex.join(["program", *given_words])) == ("program", *given_words)


PATTERN = st.lists(
    st.sampled_from(["git", "log", "*", "-n", "a*", "[ab]", "?", "--x=*", "docs/*.md", "a b", "'", "\\"]), max_size=5
)
ARGUMENT = st.text(st.sampled_from(list("ab*?[]-=/.x \n'")), max_size=6) | st.sampled_from(
    ["git", "log", "-n", "docs/a.md"]
)


@given(PATTERN, st.lists(ARGUMENT, max_size=5))
def test_a_rule_fits_by_whole_arguments_and_names_one_program(pattern: list[str], arguments: list[str]):
    try:
        rule = Rule(" ".join(pattern))
    except ConfigurationError:
        return
    tokens = shlex.split(" ".join(pattern))
    if rule.fits(tuple(arguments)):
        assert arguments[0] == tokens[0]
        assert len(arguments) >= len(tokens) - (tokens[-1] == "*")
        assert len(arguments) <= len(tokens) or tokens[-1] == "*"
        for token, argument in zip(tokens, arguments, strict=False):
            # what has no pattern in it stands for itself alone
            assert re.search(r"[*?\[]", token) or token == argument


# --- paths -----------------------------------------------------------------------------------------------------------

PIECE = st.sampled_from(
    [
        "..", ".", "", "docs", "deep", "link.txt", "up", "away", "inner", "loop", "proc", "abs", "chain", "dangling",
        "nothing_outside", "secret.txt", "root", "index.md", "new", "README.md", "~", "\0", "\\", "..\\", "C:", "con",
        ".git", " ", "..;", "%2e%2e", "\u2025", "\uff0e\uff0e", ".. ", "a" * 300, "\ud800", "\udcff", "é", "\u202e",
        "self", "cwd", "root\n", "file:", "\\\\host", "x.", "device",
    ]
) | st.text(max_size=4)  # fmt: skip
PATH = st.tuples(
    st.sampled_from(["", "", "/", "./", "//", "~/", "\\", "{outside}/", "{root}/../"]), st.lists(PIECE, max_size=7)
).map(lambda given: given[0] + "/".join(given[1]))


@given(PATH, st.booleans())
def test_the_parts_of_a_path_lead_nowhere_else(path: str, portable: bool):
    try:
        parts = parts_of(path, portable=portable)
    except WorkspaceError:
        return
    for part in parts:
        assert part not in ("", ".", "..")
        assert not set(part) & {"/", "\0", os.sep}
        assert len(os.fsencode(part)) <= MAX_NAME
    # (a name that begins with a backslash is one only behind a "./")
    assert parts_of("./" + "/".join(parts), portable=portable) == parts


def ways(tools: FileTools, path: str) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: tools.read_file(path),
        "list": lambda: tools.list_directory(path),
        "glob": lambda: tools.glob("**", path),
        "write": lambda: tools.write_file(path, "x"),
        "edit": lambda: tools.edit_file(path, "see", "x"),
        "move": lambda: tools.move_file("README.md", path),
        "delete": lambda: tools.delete_file(path),
    }


@given(
    st.lists(st.tuples(st.sampled_from(["read", "list", "glob", "write", "edit", "move", "delete"]), PATH), max_size=4),
    st.booleans(),
)
def test_whatever_path_is_given_nothing_outside_is_touched(fence: Fence, steps: list[tuple[str, str]], follow: bool):
    tools = FileTools(Workspace(fence.root, follow_symlinks=follow))
    for name, path in steps:
        try:
            assert SECRET not in str(ways(tools, fence.fill(path))[name]())
        except ToolError as error:
            str(error)
    fence.check()
