"""The code reviewer over a git diff, as JSON, stopped by Ctrl-C, and at a limit."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx import UsageLimits
from agentscope_rx.testing import HANG, ScriptedModel, ScriptedRequest
from tests.test_examples import EXAMPLES, run

REVIEW = "code_reviewer/review.py"


def test_a_diff_has_the_changed_files_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
        subprocess.run(["git", "-C", tmp_path, *name, *arguments], check=True, capture_output=True, timeout=60)

    (tmp_path / "old.py").write_text("try:\n    x = 1\nexcept:\n    x = 2\n")
    # (a name that git would quote, and a form feed, which begins no line)
    (tmp_path / "né.py").write_bytes(b"x = 1\x0c # \xe9\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    (tmp_path / "né.py").write_bytes(b"x = 1\x0c # \xe9\ny = sum([x]) / len([x])\n")

    run(REVIEW, str(tmp_path), "--diff", "HEAD", "--json")
    (finding,) = map(json.loads, capfd.readouterr().out.splitlines())
    assert (finding["path"], finding["line"], finding["kind"]) == ("né.py", 2, "bug")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing is no folder."),
        ([".", "--diff", "HEAD"], "warning: Not a git repository. Use --no-index to compare two paths outside a"),
        ([".", "--json"], "There is nothing to review."),
    ],
)
def test_without_sources_it_says_why_in_a_line(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "folder.py").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(SystemExit) as ended:
        run(REVIEW, *arguments)
    assert str(ended.value).startswith(said) and "\n" not in str(ended.value)


def test_it_says_how_many_files_it_takes(tmp_path: Path, module: dict[str, Any], capfd: pytest.CaptureFixture[str]):
    for number in range(3):
        (tmp_path / f"{number}.py").write_text("x = 1\n")
    of_folder = module["Sources"].of_folder
    of_folder.__globals__["MAX_FILES"] = 2
    assert [*of_folder(tmp_path).texts] == ["0.py", "1.py"]
    assert capfd.readouterr().err == "The first 2 of 3 files are reviewed.\n"


def test_many_files_are_reviewed_in_batches(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for number in range(10):
        (tmp_path / f"{number}.py").write_text("x = 1\n")
    run(REVIEW, str(tmp_path))
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(": 0 findings")] == [
        f"{number}.py: 0 findings" for number in range(10)
    ]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The module, to change its parts; its functions see the changes."""
    monkeypatch.syspath_prepend(EXAMPLES / "code_reviewer")
    monkeypatch.setattr(sys, "argv", ["review.py"])
    known = set(sys.modules)
    module = runpy.run_path(str(EXAMPLES / REVIEW), run_name="review")["main"].__globals__
    for name in ("rules", "sources"):
        if name not in known:
            sys.modules.pop(name, None)
    return module


def test_ctrl_c_reports_what_was_found(module: dict[str, Any], capfd: pytest.CaptureFixture[str]):
    inner = module["rules"]().turns[0][0]

    def slow(request: ScriptedRequest) -> Any:
        calls = [each for message in request.messages for each in message.tool_calls]
        if request.messages[1].text == "Review report.py" and len(calls) == 2:
            # the second reviewer has reported, and never ends
            os.kill(os.getpid(), signal.SIGINT)
            return [HANG]
        if request.messages[1].text == "Review shipping.py":
            return [HANG]
        return inner(request)

    module["rules"] = lambda: ScriptedModel(slow, repeat=True)
    module["main"]()
    lines = capfd.readouterr().out.splitlines()
    assert "  lead           stops; Ctrl-C once more stops at once" in lines
    assert "  lead           The review was stopped. (interrupted)" in lines
    assert "report.py: 3 findings" in lines
    assert "shipping.py: not reviewed" in lines


def test_a_limit_ends_reviewers_not_the_report(module: dict[str, Any], capfd: pytest.CaptureFixture[str]):
    module["UsageLimits"] = lambda **limits: UsageLimits(**limits | {"model_calls": 3})
    module["main"]()
    lines = capfd.readouterr().out.splitlines()
    for name in ("orders.py", "report.py", "shipping.py"):
        assert f"  {name:14} Agent 'reviewer' has reached its limit of 1 for model_calls." in lines
        assert f"{name}: not reviewed" in lines
