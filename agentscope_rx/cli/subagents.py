"""`subagents`: list, check and begin declarations of sub-agents.

| command                   | does                                                                               |
|---------------------------|------------------------------------------------------------------------------------|
| `subagents list`          | prints the sub-agents of the workspace and the user; hidden ones; problems         |
| `subagents check PATH...` | prints what is wrong, as FILE:LINE: error: ...; status 1 if there is an error      |
| `subagents new NAME`      | makes a file to begin with; replaces nothing                                       |

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
from agentscope_rx.errors import ConfigurationError, SubAgentFileError
from agentscope_rx.hooks import Hook

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from agentscope_rx.sub_agents import FoundSubAgent, SubAgents, SubAgentSource

SHOWN = 100
"""The characters of a description that `list` prints."""
DESCRIPTION = "What it does, and when to use it: the model chooses it by this text."


def add_subagents(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a command line."""
    text = "List, check and begin declarations of sub-agents."
    whole = commands.add_parser("subagents", help=text[0].lower() + text[1:-1], description=text)
    actions = whole.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="print those that are found", description="Print the sub-agents.")
    add_subagents_flag(listing)
    listing.add_argument("--workspace", metavar="DIR", default=".", help="the workspace (the working directory)")
    listing.add_argument("--user", metavar="DIR", help="the folder of the user's (~/.agentscope/subagents)")
    check = actions.add_parser("check", help="print what is wrong with them", description="Print what is wrong.")
    check.add_argument("path", metavar="PATH", nargs="+", help="a file, or a folder that holds files of sub-agents")
    check.add_argument("--strict", action="store_true", help="status 1 for warnings, too")
    new = actions.add_parser("new", help="make a file to begin with", description="Make a file to begin with.")
    new.add_argument("name", metavar="NAME", help="its name: a-z, 0-9 and single hyphens")
    new.add_argument("--in", dest="folder", metavar="DIR", default="subagents", help="where it is made (subagents)")
    new.add_argument("--description", metavar="TEXT", help="what it does, and when to use it")
    for each in (listing, check):
        each.add_argument("--json", action="store_true", help="print JSON")


def add_subagents_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--subagents`."""
    parser.add_argument(
        "--subagents",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder with files of sub-agents, which hide those of the same name elsewhere (repeatable)",
    )


def subagents_hooks(folders: Sequence[str]) -> list[Hook]:
    """The hook for the sub-agents in these folders; none without a folder."""
    if not folders:
        return []
    from agentscope_rx.sub_agents import FolderSubAgents, SubagentsHook

    for each in folders:
        if not Path(each).expanduser().is_dir():
            raise ConfigurationError(f"--subagents {each}: there is no such folder.")
    sources = [FolderSubAgents(each) for each in folders]
    return [SubagentsHook(*sources, on_problem=lambda error: note(f"sub-agent not used: {error}"))]


def subagents(flags: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status."""
    match flags.action:
        case "list":
            return _list(flags)
        case "check":
            return _check(flags)
        case _:
            return _new(flags.name, flags.folder, flags.description)


def _list(flags: argparse.Namespace) -> int:
    from agentscope_rx.sub_agents import FolderSubAgents, SubAgentCatalog, UserSubAgents, WorkspaceSubAgents

    sources: list[SubAgentSource] = [FolderSubAgents(each) for each in flags.subagents]
    sources += [WorkspaceSubAgents(flags.workspace), UserSubAgents(flags.user)]
    found = SubAgentCatalog(*sources).read()
    if flags.json:
        print(json.dumps(_json(found), indent=2))
        return ANSWERED
    rows: list[tuple[FoundSubAgent, FoundSubAgent | None]] = [(each, None) for each in found.by_name.values()]
    rows += found.shadowed
    rows.sort(key=lambda row: (row[0].name, row[1] is not None))
    if rows:
        print_rows(("name", "from", "description"), [_cells(*row) for row in rows])
    else:
        note("there are no sub-agents")
    for problem in found.problems:
        note(f"not used: {one_line(str(problem))}")
    return ANSWERED


def _cells(each: FoundSubAgent, by: FoundSubAgent | None) -> tuple[str, str, str]:
    shown = one_line(each.declared.description, SHOWN) if by is None else f"(hidden by that of {clean(by.source)})"
    return each.name, clean(each.source), shown


def _json(found: SubAgents) -> dict[str, object]:
    def row(each: FoundSubAgent, by: FoundSubAgent | None = None) -> dict[str, object]:
        declared = each.declared
        return {
            "name": each.name,
            "description": declared.description,
            "source": each.source,
            "place": each.place,
            "tools": None if declared.tools is None else list(declared.tools),
            "without_tools": list(declared.without_tools),
            "model": declared.model if isinstance(declared.model, str) else None,
            "max_iters": declared.max_iters,
            "spawns": declared.spawns,
            "workspace": declared.workspace,
            **({} if by is None else {"hidden_by": {"source": by.source, "place": by.place}}),
        }

    return {
        "subagents": [row(each) for each in found.by_name.values()],
        "hidden": [row(each, by) for each, by in found.shadowed],
        "problems": [{"file": each.file, "line": each.line, "text": each.problem} for each in found.problems],
    }


def _check(flags: argparse.Namespace) -> int:
    from agentscope_rx.sub_agents.checks import check_sub_agents

    checked = [check_sub_agents(path) for path in flags.path]
    subject = counted(sum(len(files) for files, _ in checked), "sub-agent")
    findings = [finding for _, found in checked for finding in found]
    return print_findings(findings, subject, as_json=flags.json, strict=flags.strict)


def _new(name: str, folder: str, description: str | None) -> int:
    from agentscope_rx.sub_agents.declaration_file import starting_text

    text = starting_text(name, description or DESCRIPTION)
    place = Path(folder, f"{name}.md")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SubAgentFileError(str(place), "it exists already, and nothing was replaced.", sub_agent=name) from None
    except OSError as error:
        raise SubAgentFileError(str(place), f"it cannot be written: {error.strerror or error}.") from None
    print(f"made {clean(str(place))}")
    return ANSWERED
