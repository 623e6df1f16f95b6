"""What the commands `list` and `check` print.

A list is a table at a terminal, else lines with tabs. Findings are a line each, as FILE:LINE: error: ..., or JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentscope_rx.cli.exit_codes import ANSWERED, FAILED, note
from agentscope_rx.console.wording import counted, one_line

if TYPE_CHECKING:
    from agentscope_rx.skills.checks import Finding


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows; a table needs rich."""
    if sys.stdout.isatty() and _print_table(headings, rows):
        return
    for row in rows:
        print("\t".join(row))


def print_findings(findings: Sequence[Finding], subject: str, *, as_json: bool, strict: bool) -> int:
    """Print what checks have found, and a count behind `subject`; returns the exit status."""
    from agentscope_rx.skills.checks import to_json

    if as_json:
        print(json.dumps([to_json(each) for each in findings], indent=2))
    else:
        for each in findings:
            print(one_line(str(each)))
    errors = sum(each.level == "error" for each in findings)
    note(f"{subject}: {counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')}")
    return FAILED if errors or (strict and findings) else ANSWERED


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Print a table; False without rich."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(*headings)
    for row in rows:
        # as texts: what is in brackets is no markup
        table.add_row(*map(Text, row))
    Console().print(table)
    return True
