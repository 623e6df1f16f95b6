"""The tables of docs/reference/command-line.md, made of the parser: `python -m tests.docs.command_line` writes them.

The text between the two markers of the page is generated. The rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from agentscope_rx.cli.arguments import parser
from tests.docs.pages import DOCS

PAGE = DOCS / "reference" / "command-line.md"
BEGIN = "<!-- made by `python -m tests.docs.command_line` -->\n"
END = "<!-- end -->\n"
AGENT_COMMANDS = ("ask", "chat")
"""Commands with the same options, which the page lists once."""


def tables() -> str:
    """Every command with its arguments and options, as Markdown."""
    whole = parser()
    commands = _commands(whole)
    parts = ["## Commands\n", _table("command", _listed(whole))]
    options = [_rows_of(commands[name]) for name in AGENT_COMMANDS]
    shared = [row for row in options[0] if all(row in rows for rows in options)]
    parts += [f"## Options of {' and '.join(f'`{name}`' for name in AGENT_COMMANDS)}\n", _table("option", shared)]
    for name, command in commands.items():
        parts += _section(name, command, [] if name not in AGENT_COMMANDS else shared, "##")
    return "\n".join(parts)


def page_with_tables(page: str) -> str:
    """This page with the tables in their place."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def _section(name: str, command: argparse.ArgumentParser, known: list[tuple[str, str]], level: str) -> Iterator[str]:
    rows = [row for row in _rows_of(command) if row not in known]
    yield f"{level} {name}\n"
    yield f"{' '.join((command.description or '').split())}\n"
    if rows:
        yield _table("argument", rows)
    for inner, each in _commands(command).items():
        yield from _section(f"{name} {inner}", each, [], f"{level}#")


def _commands(whole: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _listed(whole: argparse.ArgumentParser) -> list[tuple[str, str]]:
    (actions,) = (each for each in whole._actions if isinstance(each, argparse._SubParsersAction))
    return [(each.dest, each.help or "") for each in actions._choices_actions]


def _rows_of(command: argparse.ArgumentParser) -> list[tuple[str, str]]:
    formatter = argparse.HelpFormatter(command.prog)
    return [
        (_spelled(action), formatter._expand_help(action) if action.help else "")
        for action in command._actions
        if not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))
    ]


def _spelled(action: argparse.Action) -> str:
    named = action.metavar or ("{" + ",".join(action.choices) + "}" if action.choices else action.dest)
    # a bar cannot stand in the code of a table: GitHub needs a backslash before it, which the site shows
    value = str(named).replace("|", " or ") if action.nargs != 0 else ""
    if not action.option_strings:
        return f"{value} ..." if action.nargs in ("*", "+") else value
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def _table(head: str, rows: list[tuple[str, str]]) -> str:
    lines = [f"| {head} | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in _escaped(rows)]
    return "\n".join(lines) + "\n"


def _escaped(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, meaning.replace("|", r"\|")) for name, meaning in rows]


def main() -> None:
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
