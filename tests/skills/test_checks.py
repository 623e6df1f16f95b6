"""`check_skills`: each thing that can be wrong is found, with its file and line; what is right is not."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from agentscope_rx.skills.checks import check_skills
from tests.skills.parts import put, put_skill, skill_text
from tests.support.assertions import in_cpu_time

GOOD = """---
name: good
description: Does good things.
license: MIT
compatibility: Python 3
metadata:
  author: me
allowed-tools: Read
---
# Good

Run `scripts/go.py`, see [the notes](references/notes.md#part), [our page](https://example.com/scripts/none.py),
[mail](mailto:a@b.c) and [above](#good). Use `scripts/<name>.py` for yours, and the files in assets/.

    python scripts/go.py --all

A link is `[text](path.md)`, or [one with a place]({folder}/path.md).

```markdown
[text](other.md)
```
"""


def found(path: Path) -> list[str]:
    return [str(each).removeprefix(f"{path}/") for each in check_skills(path)[1]]


def good(folder: Path) -> Path:
    put(folder, {"SKILL.md": GOOD, "scripts/go.py": "print()\n", "references/notes.md": "x", "scripts/__init__.py": ""})
    return folder


def test_a_good_skill_has_no_findings(tmp_path: Path):
    good(tmp_path / "skills" / "good")
    put_skill(tmp_path / "skills", "other")
    for path, count in (
        (tmp_path / "skills" / "good", 1),
        (tmp_path / "skills" / "good" / "SKILL.md", 1),
        (tmp_path / "skills", 2),
        (tmp_path, 2),
    ):
        folders, findings = check_skills(path)
        assert len(folders) == count and not findings


@pytest.mark.parametrize(
    ("files", "finding"),
    [
        ({"SKILL.md": "x"}, "SKILL.md:1: error: the first line must be '---'"),
        ({"SKILL.md": "---\nname: good\n---\nx"}, "SKILL.md:1: error: the front matter has no 'description'"),
        ({"SKILL.md": skill_text("better")}, "SKILL.md:2: error: the folder is named 'good', and the skill 'better'"),
        ({"SKILL.md": skill_text("good", "d" * 1025)}, "SKILL.md:3: error: 'description' has 1,025 characters"),
        ({"SKILL.md": skill_text("good", body=" \n")}, "SKILL.md:5: error: there are no instructions"),
        ({"SKILL.md": GOOD.replace("license", "version")}, "SKILL.md:4: warning: the format has no key 'version'"),
        ({"SKILL.md": GOOD + "x\n" * 500}, "SKILL.md:10: warning: the instructions have 513 lines"),
        ({"SKILL.md": GOOD + "[a](gone.md)"}, "SKILL.md:22: error: there is no file 'gone.md' in the skill."),
        ({"SKILL.md": GOOD + "see references/gone.md."}, "SKILL.md:22: error: there is no file 'references/gone.md'"),
        ({"SKILL.md": GOOD + "[a](../../x.md)"}, "SKILL.md:22: error: '../../x.md' leads out of the folder"),
        ({"scripts/empty.sh": ""}, "scripts/empty.sh: error: it is empty."),
        ({"scripts/bad.py": "x = 1\ndef (:\n"}, "scripts/bad.py:2: error: this is no valid Python"),
        ({"scripts/nul.py": "x = '\0'\n"}, "scripts/nul.py"),
        ({"scripts/run.pl": "#!/usr/bin/perl\n"}, "scripts/run.pl:1: warning: run_skill_script runs scripts by their"),
        ({"scripts/run.sh": "#!/bin/sh\n"}, "scripts/run.sh:1: warning: it has a #! line and is not executable"),
    ],
)
def test_each_fault_is_found_with_its_line(tmp_path: Path, files: dict[str, str], finding: str):
    put(good(tmp_path / "good"), files)
    findings = found(tmp_path / "good")
    assert findings[0].startswith(finding) and len(findings) == 1 + (".pl" in finding)


def test_an_executable_script_is_fine(tmp_path: Path):
    put(good(tmp_path / "good"), {"scripts/run.sh": "#!/bin/sh\n"})
    os.chmod(tmp_path / "good" / "scripts" / "run.sh", 0o700)
    assert found(tmp_path / "good") == []


def test_links_are_found(tmp_path: Path):
    skill = good(tmp_path / "good")
    (skill / "references" / "passwd").symlink_to("/etc/passwd")
    (tmp_path / "also").symlink_to(skill)
    assert found(skill) == ["references/passwd: error: it is a symbolic link, and links are not followed."]
    findings = check_skills(tmp_path)[1]
    assert str(findings[0]) == f"{tmp_path}/also: error: it is a symbolic link, and links are not followed."


@pytest.mark.parametrize(
    "unit", ["`", "``", "` ", "](", "](a", "](aaa:", "scripts/", "scripts/a<", "[a](b", "```\n", "references/.", "\n"]
)
def test_hostile_instructions_take_bounded_time(tmp_path: Path, unit: str):
    put_skill(tmp_path, "good", body=(unit * 1_000_000)[:1_000_000])
    in_cpu_time(lambda: check_skills(tmp_path / "good"), 10)


def test_a_path_without_skills_is_an_error(tmp_path: Path):
    (tmp_path / "skills").mkdir()
    for path in (tmp_path, tmp_path / "gone"):
        folders, (finding,) = check_skills(path)
        assert not folders and finding.level == "error" and re.search("there is no", finding.text)


def test_a_relative_path_is_checked_by_its_real_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(good(tmp_path / "good"))
    assert check_skills(".") == ((".",), ())
