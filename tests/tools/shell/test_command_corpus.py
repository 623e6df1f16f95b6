"""Commands of the corpus, and random ones: what is not allowed never runs, and the result says why."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Toolkit
from agentscope_rx.errors import CommandDeniedError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.tools.shell import ShellTool
from agentscope_rx.tools.shell.shell_words import split_command
from tests.tools.calling import use
from tests.tools.fence import SECRET, Fence
from tests.tools.shell.command_corpus import COMMANDS, HARMLESS, RULES


def test_the_corpus_is_large():
    assert len(set(COMMANDS)) >= 200


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
