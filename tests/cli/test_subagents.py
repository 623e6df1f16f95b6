"""`subagents list|check|new`, and `--subagents`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentscope_rx.cli.main import main
from agentscope_rx.testing import ScriptedModel, call
from tests.sub_agents.parts import declare

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, beside the working directory."""
    home = bare / "home"
    monkeypatch.setattr(Path, "home", lambda: home)
    return home


def test_list_prints_names_sources_and_problems(capsys: Captured, bare: Path, home: Path) -> None:
    assert main(["subagents", "list"]) == 0
    assert capsys.readouterr() == ("", "agentscope-rx: there are no sub-agents\n")
    declare(bare / "subagents", "finder", description='"Finds a\\eb."')
    declare(home / ".agentscope" / "subagents", "finder")
    declare(home / ".agentscope" / "subagents", "critic")
    (bare / "subagents" / "bad.md").write_text("x")
    assert main(["subagents", "list"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "critic\tuser\tThe critic.\nfinder\tworkspace\tFinds a\\x1bb.\nfinder\tuser\t(hidden by that of workspace)\n"
    )
    assert err == (
        "agentscope-rx: not used: subagents/bad.md, line 1: the first line must be '---', which begins the front "
        "matter.\n"
    )


def test_list_as_json_has_all(capsys: Captured, bare: Path) -> None:
    declare(bare / "more", "a", tools="x, y", model="openai:gpt-5-mini", spawns="true")
    declare(bare / "work" / "subagents", "a")
    (bare / "mine").mkdir()
    (bare / "mine" / "bad.md").write_text("")
    flags = ["--json", "--workspace", "work", "--user", "mine", "--subagents", "more"]
    assert main(["subagents", "list", *flags]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["subagents"] == [
        {
            "name": "a",
            "description": "The a.",
            "source": "more",
            "place": "more/a.md",
            "tools": ["x", "y"],
            "without_tools": [],
            "model": "openai:gpt-5-mini",
            "max_iters": None,
            "spawns": True,
            "workspace": "shared",
        }
    ]
    assert shown["hidden"][0]["hidden_by"] == {"source": "more", "place": "more/a.md"}
    assert shown["problems"] == [{"file": "mine/bad.md", "line": 1, "text": shown["problems"][0]["text"]}]


def test_check_gives_findings_and_a_status(capsys: Captured, bare: Path) -> None:
    declare(bare / "subagents", "good")
    for path in ("subagents", ".", "subagents/good.md"):
        assert main(["subagents", "check", path]) == 0
        assert capsys.readouterr() == ("", "agentscope-rx: 1 sub-agent: 0 errors, 0 warnings\n")
    declare(bare / "subagents", "bad", maxIters=3)
    declare(bare / "subagents", "far", model="sonnet")
    declare(bare / "subagents", "old", name="new")
    assert main(["subagents", "check", "subagents"]) == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "subagents/bad.md:3: error: there is no key 'maxIters'. Did you mean 'max_iters'?"
    assert lines[1].startswith("subagents/far.md:3: error: ") and "sonnet" in lines[1]
    assert lines[2] == (
        "subagents/old.md:3: warning: the file is named 'old', and the sub-agent 'new'. Give both the same name."
    )
    assert err == "agentscope-rx: 4 sub-agents: 2 errors, 1 warning\n"
    assert main(["subagents", "check", "subagents/old.md"]) == 0
    assert main(["subagents", "check", "subagents/old.md", "--strict"]) == 1
    assert main(["subagents", "check", "gone"]) == 1
    capsys.readouterr()
    assert main(["subagents", "check", "subagents/bad.md", "--json"]) == 1
    assert [each["line"] for each in json.loads(capsys.readouterr().out)] == [3]
    (bare / "none").mkdir()
    assert main(["subagents", "check", "none"]) == 1
    assert "there is no file *.md of a sub-agent" in capsys.readouterr().out


def test_new_makes_a_valid_file_and_replaces_nothing(capsys: Captured, bare: Path) -> None:
    assert main(["subagents", "new", "fact-finder"]) == 0
    assert capsys.readouterr().out == "made subagents/fact-finder.md\n"
    assert main(["subagents", "check", ".", "--strict"]) == 0
    text = (bare / "subagents" / "fact-finder.md").read_text()
    assert text.startswith("---\nname: fact-finder\ndescription: ") and "\n# Fact finder\n" in text
    capsys.readouterr()
    assert main(["subagents", "new", "fact-finder"]) == 2
    assert "exists already, and nothing was replaced" in capsys.readouterr().err
    assert (bare / "subagents" / "fact-finder.md").read_text() == text
    assert main(["subagents", "new", "../Bad"]) == 2
    assert "Try 'bad'" in capsys.readouterr().err
    (bare / "file").write_text("")
    assert main(["subagents", "new", "x", "--in", "file/deep", "--description", "It: does."]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_ask_has_the_sub_agents_of_a_folder(capsys: Captured, bare: Path) -> None:
    declare(bare / "mine", "finder", tools="read_file")
    declare(bare / "mine", "odd", tools="no_such")
    model = ScriptedModel(call("agent_spawn", agent="finder", task="Find it."), "It is here.", "Found.")
    assert main(["ask", "Where?", "--subagents", "mine", "-q"], model=model) == 0
    assert "<name>finder</name>" in model.requests[0].messages[0].text
    assert [each.name for each in model.requests[1].tools] == ["read_file"]
    out, err = capsys.readouterr()
    assert out == "Found.\n" and "sub-agent not used: mine/odd.md: tools names 'no_such'" in err
    assert main(["ask", "Where?", "--subagents", "gone"], model=ScriptedModel("x")) == 2
    assert "--subagents gone: there is no such folder" in capsys.readouterr().err
    assert main(["ask", "Where?", "--subagents", "mine", "--agent", "a:b"]) == 2
    assert "leave --subagents out" in capsys.readouterr().err
