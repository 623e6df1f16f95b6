"""`skills list|check|new`, and `--skills`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentscope_rx.cli.main import main
from agentscope_rx.testing import ScriptedModel, call
from tests.skills.parts import put, put_skill

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, beside the working directory."""
    home = bare / "home"
    monkeypatch.setattr(Path, "home", lambda: home)
    return home


def test_list_prints_names_sources_and_problems(capsys: Captured, bare: Path, home: Path) -> None:
    assert main(["skills", "list"]) == 0
    assert capsys.readouterr() == ("", "agentscope-rx: there are no skills\n")
    put_skill(bare / "skills", "trip", description="Plans trips.")
    put_skill(home / ".agentscope" / "skills", "trip", description="Other trips.")
    put_skill(home / ".agentscope" / "skills", "art")
    put(bare / "skills", {"bad/SKILL.md": "x", "other/SKILL.md": '---\nname: odd\ndescription: "a\\eb"\n---\n'})
    assert main(["skills", "list", "--no-packages"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "art\tuser\tDoes things.\nodd\tworkspace\ta\\x1bb\ntrip\tworkspace\tPlans trips.\n"
        "trip\tuser\t(hidden by that of workspace)\n"
    )
    assert err.splitlines() == [
        "agentscope-rx: skills/other: the folder is named 'other', and the skill 'odd'. Give both the same name.",
        "agentscope-rx: not used: skills/bad/SKILL.md, line 1: the first line must be '---', which begins the front "
        "matter.",
    ]


def test_list_as_json_has_all(capsys: Captured, bare: Path, home: Path) -> None:
    put_skill(bare / "more", "trip", description="More.")
    put_skill(bare / "work" / "skills", "trip", description="Plans trips.")
    put(bare / "mine", {"bad/SKILL.md": ""})
    flags = ["--json", "--no-packages", "--workspace", "work", "--user", "mine", "--skills", "more"]
    assert main(["skills", "list", *flags]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["source"], each["description"]) for each in shown["skills"]] == [
        ("trip", "more", "More.")
    ]
    assert shown["hidden"][0]["hidden_by"] == {"source": "more", "place": "more/trip"}
    assert shown["problems"][0]["file"] == "mine/bad/SKILL.md" and shown["problems"][0]["line"] == 1


def test_check_gives_findings_and_a_status(capsys: Captured, bare: Path) -> None:
    put_skill(bare / "skills", "good")
    assert main(["skills", "check", "skills"]) == 0
    assert capsys.readouterr() == ("", "agentscope-rx: 1 skill: 0 errors, 0 warnings\n")
    put_skill(bare / "skills", "bad", body="[x](gone.md)")
    put_skill(bare / "skills", "old", description="x\nversion: 1")
    assert main(["skills", "check", "skills/good", "skills/bad", "skills/old"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "skills/bad/SKILL.md:5: error: there is no file 'gone.md' in the skill.",
        "skills/old/SKILL.md:4: warning: the format has no key 'version': it has no effect here.",
    ]
    assert err == "agentscope-rx: 3 skills: 1 error, 1 warning\n"
    assert main(["skills", "check", "skills/old"]) == 0
    assert main(["skills", "check", "skills/old", "--strict"]) == 1
    capsys.readouterr()
    assert main(["skills", "check", "skills/bad", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {
            "file": "skills/bad/SKILL.md",
            "line": 5,
            "level": "error",
            "text": "there is no file 'gone.md' in the skill.",
        }
    ]


def test_new_makes_a_valid_skill_and_replaces_nothing(capsys: Captured, bare: Path) -> None:
    assert main(["skills", "new", "my-skill"]) == 0
    assert capsys.readouterr().out == "made skills/my-skill\n"
    assert main(["skills", "check", "."]) == 0
    text = (bare / "skills" / "my-skill" / "SKILL.md").read_text()
    assert text.startswith("---\nname: my-skill\ndescription: ") and "\n# My skill\n" in text
    capsys.readouterr()
    assert main(["skills", "new", "my-skill", "--description", "Other."]) == 2
    assert "exists already, and nothing was replaced" in capsys.readouterr().err
    assert (bare / "skills" / "my-skill" / "SKILL.md").read_text() == text
    assert main(["skills", "new", "two", "--in", "deep/er", "--description", "It: does."]) == 0
    assert main(["skills", "list", "--no-packages", "--workspace", "deep", "--skills", "deep/er"]) == 0
    assert capsys.readouterr().out.endswith("two\tdeep/er\tIt: does.\n")
    assert main(["skills", "new", "../Bad"]) == 2
    assert "Try 'bad'" in capsys.readouterr().err


def test_ask_has_the_skills_of_a_folder(capsys: Captured, bare: Path) -> None:
    put_skill(bare / "mine", "trip", body="Book early.\n")
    put(bare / "mine", {"bad/SKILL.md": ""})
    model = ScriptedModel(call("load_skill", name="trip"), "Early.")
    assert main(["ask", "When?", "--skills", "mine", "-q"], model=model) == 0
    assert "<name>trip</name>" in model.requests[0].messages[0].text
    assert "Book early." in model.requests[1].messages[-1].tool_results[0].text
    assert "skill not used: mine/bad/SKILL.md, line 1" in capsys.readouterr().err
    assert main(["ask", "When?", "--skills", "gone"], model=ScriptedModel("x")) == 2
    assert "--skills gone: there is no such folder" in capsys.readouterr().err
    assert main(["ask", "When?", "--skills", "mine", "--agent", "a:b"]) == 2
    assert "leave --skills out" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_the_command(capsys: Captured, shell: str) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "skills" in out and "--no-packages" in out and "--strict" in out


def test_a_terminal_gets_a_table(server, terminal, tmp_path: Path) -> None:
    put_skill(tmp_path / "skills", "trip", description="Plans [bold]trips[/bold].")
    shown = terminal("skills", "list", model=[])
    assert "description" in shown.until("[bold]trips[/bold]")
    assert shown.wait() == 0
