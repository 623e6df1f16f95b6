"""`workspace`: a folder becomes one, and what a call gets of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx.cli.main import main

Captured = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("bare")


def test_init_makes_what_is_missing(capsys: Captured) -> None:
    assert main(["workspace", "init", "garden"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["AGENTS.md", "memory/"]
    assert Path("garden/AGENTS.md").is_file()
    assert main(["workspace", "init", "garden"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "there is nothing to make" in captured.err


def test_show_prints_the_context(capsys: Captured) -> None:
    Path("AGENTS.md").write_text("Be brief.\x1b[31m\n" + "more\n" * 5000)
    assert main(["workspace", "show", "--max-tokens", "300"]) == 0
    out = capsys.readouterr().out
    assert "Be brief.\\x1b[31m\n" in out and "more lines, from line" in out and len(out) < 2000


@pytest.mark.parametrize(
    "arguments", [["show", "none"], ["init", "file/below"], ["show", "--max-tokens", "0"]], ids=lambda each: each[0]
)
def test_what_cannot_be_done_is_a_line_and_a_status(arguments: list[str], capsys: Captured) -> None:
    Path("file").write_text("")
    assert main(["workspace", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1
