"""What the commands `list` print: a table at a terminal, else lines with tabs."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the rows; a table needs rich."""
    if sys.stdout.isatty() and _print_table(headings, rows):
        return
    for row in rows:
        print("\t".join(row))


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
