"""`skills`: list, check and begin skills.

| command                | does                                                                                  |
|------------------------|---------------------------------------------------------------------------------------|
| `skills list`          | prints the skills of the workspace, the user and packages; hidden ones; problems      |
| `skills check PATH...` | prints what is wrong, as FILE:LINE: error: ...; status 1 if there is an error         |
| `skills new NAME`      | makes a folder with a SKILL.md to begin with; replaces nothing                        |

The parts that read YAML are imported when they are used: they need the packages of an extra.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentscope_rx.cli.exit_codes import ANSWERED, note
from agentscope_rx.cli.listing import print_findings, print_rows
from agentscope_rx.console.wording import clean, counted, one_line
from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.hooks import Hook

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from agentscope_rx.skills import FoundSkill, Skills, SkillSource

SHOWN = 100
"""The characters of a description that `list` prints."""

_BODY = """\
# {title}

What to do, step by step. Say when to stop, and what the result looks like.

Move long parts into files in `references`, and programs into files in `scripts`. They are read and run when needed.
"""


def add_skills(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a command line."""
    text = "List, check and begin skills."
    whole = commands.add_parser("skills", help=text[0].lower() + text[1:-1], description=text)
    actions = whole.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="print the skills that are found", description="Print the skills.")
    add_skills_flag(listing)
    listing.add_argument("--workspace", metavar="DIR", default=".", help="the workspace (the working directory)")
    listing.add_argument("--user", metavar="DIR", help="the folder of the user's skills (~/.agentscope/skills)")
    listing.add_argument("--no-packages", action="store_true", help="leave out the skills of installed packages")
    check = actions.add_parser("check", help="print what is wrong with skills", description="Print what is wrong.")
    check.add_argument("path", metavar="PATH", nargs="+", help="a skill, or a folder that holds skills")
    check.add_argument("--strict", action="store_true", help="status 1 for warnings, too")
    new = actions.add_parser("new", help="make a skill to begin with", description="Make a skill to begin with.")
    new.add_argument("name", metavar="NAME", help="its name: a-z, 0-9 and single hyphens")
    new.add_argument("--in", dest="folder", metavar="DIR", default="skills", help="where it is made (skills)")
    new.add_argument("--description", metavar="TEXT", help="what it does, and when to use it")
    for each in (listing, check):
        each.add_argument("--json", action="store_true", help="print JSON")


def add_skills_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--skills`."""
    parser.add_argument(
        "--skills",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder that holds skills, which hide those of the same name elsewhere (repeatable)",
    )


def skills_hooks(folders: Sequence[str]) -> list[Hook]:
    """The hook for the skills in these folders; none without a folder."""
    if not folders:
        return []
    from agentscope_rx.skills import FolderSkills, SkillsHook

    for each in folders:
        if not Path(each).expanduser().is_dir():
            raise ConfigurationError(f"--skills {each}: there is no such folder.")
    return [SkillsHook(*map(FolderSkills, folders), on_problem=lambda error: note(f"skill not used: {error}"))]


def skills(flags: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status."""
    match flags.action:
        case "list":
            return _list(flags)
        case "check":
            return _check(flags)
        case _:
            return _new(flags.name, flags.folder, flags.description)


def _list(flags: argparse.Namespace) -> int:
    from agentscope_rx.skills import FolderSkills, PackageSkills, SkillCatalog, UserSkills, WorkspaceSkills

    sources: list[SkillSource] = [FolderSkills(each) for each in flags.skills]
    sources += [WorkspaceSkills(flags.workspace), UserSkills(flags.user)]
    sources += [] if flags.no_packages else [PackageSkills()]
    found = SkillCatalog(*sources).read()
    if flags.json:
        print(json.dumps(_json(found), indent=2))
        return ANSWERED
    rows: list[tuple[FoundSkill, FoundSkill | None]] = [(each, None) for each in found.by_name.values()]
    rows += found.shadowed
    rows.sort(key=lambda row: (row[0].name, row[1] is not None))
    if rows:
        _print_rows(rows)
    else:
        note("there are no skills")
    for each, _ in rows:
        if each.note:
            note(f"{clean(each.place)}: {one_line(each.note)}")
    for problem in found.problems:
        note(f"not used: {one_line(str(problem))}")
    return ANSWERED


def _print_rows(rows: list[tuple[FoundSkill, FoundSkill | None]]) -> None:
    cells = [
        (
            each.name,
            clean(each.source),
            one_line(each.info.description, SHOWN) if by is None else f"(hidden by that of {clean(by.source)})",
        )
        for each, by in rows
    ]
    print_rows(("name", "from", "description"), cells)


def _json(found: Skills) -> dict[str, object]:
    def row(each: FoundSkill, by: FoundSkill | None = None) -> dict[str, object]:
        return {
            "name": each.name,
            "description": each.info.description,
            "source": each.source,
            "place": each.place,
            "license": each.info.license,
            "compatibility": each.info.compatibility,
            "allowed_tools": list(each.info.allowed_tools),
            "note": each.note,
            **({} if by is None else {"hidden_by": {"source": by.source, "place": by.place}}),
        }

    return {
        "skills": [row(each) for each in found.by_name.values()],
        "hidden": [row(each, by) for each, by in found.shadowed],
        "problems": [{"file": each.file, "line": each.line, "text": each.problem} for each in found.problems],
    }


def _check(flags: argparse.Namespace) -> int:
    from agentscope_rx.skills.checks import check_skills

    checked = [check_skills(path) for path in flags.path]
    subject = counted(sum(len(folders) for folders, _ in checked), "skill")
    findings = [finding for _, found in checked for finding in found]
    return print_findings(findings, subject, as_json=flags.json, strict=flags.strict)


def _new(name: str, folder: str, description: str | None) -> int:
    from agentscope_rx.skills import Skill, save_skill

    if Path(folder, name).exists():
        raise SkillError(str(Path(folder, name)), "it exists already, and nothing was replaced.", skill=name)
    text = description or "What it does, and when to use it: the model chooses it by this text."
    place = save_skill(Skill(name, text, _BODY.format(title=name.replace("-", " ").capitalize())), folder)
    print(f"made {clean(str(place))}")
    return ANSWERED
