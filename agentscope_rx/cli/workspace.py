"""`workspace`: make a folder a workspace, and see what a call gets of it.

| command                           | does                                                              |
|-----------------------------------|-------------------------------------------------------------------|
| `workspace init [FOLDER]`         | makes folders and an AGENTS.md; what exists stays as it is        |
| `workspace show [FOLDER]`         | prints the text that a call gets in its system message            |
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from agentscope_rx.cli.exit_codes import ANSWERED, note
from agentscope_rx.console.wording import clean

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_workspace(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a command line."""
    text = "Make a folder a workspace of agents, and see what they get of it."
    whole = commands.add_parser("workspace", help="make and show a workspace of agents", description=text)
    actions = whole.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, help in (
        ("init", "make folders and an AGENTS.md; what exists stays as it is"),
        ("show", "print the text that a call gets in its system message"),
    ):
        action = actions.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.")
        action.add_argument("folder", metavar="FOLDER", nargs="?", default=".", help="the folder (this one)")
        if name == "show":
            action.add_argument("--max-tokens", metavar="N", type=int, help="the budget (8000)")


def workspace(flags: argparse.Namespace) -> int:
    """Run one of the commands and return its exit status."""
    # imported here: the other commands need no tools for files
    from agentscope_rx.workspace import WorkspaceContextHook, init_workspace

    if flags.action == "init":
        made = init_workspace(flags.folder)
        for path in made:
            print(path)
        if not made:
            note("there is nothing to make: all of it exists")
        return ANSWERED
    budget = {} if flags.max_tokens is None else {"max_tokens": flags.max_tokens}
    # (the files of a workspace may hold anything, and a terminal obeys control characters)
    print(clean(WorkspaceContextHook(flags.folder, **budget).context().run()))
    return ANSWERED
