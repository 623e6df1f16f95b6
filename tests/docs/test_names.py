"""The tables of names promise names that are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, name_of

PAGES = [*sorted((DOCS / "coming-from").glob("*.md")), DOCS / "reference" / "agentscope-names.md"]
CODE = re.compile(r"`([^`]*)`")
NAME = re.compile(r"[A-Za-z_]\w*")
THEIRS = {"Deps", "web_"}
"""Words of the examples in the tables."""


@cache
def our_names() -> set[str]:
    """Every identifier and word of the library's code."""
    return {
        name
        for file in (ROOT / "agentscope_rx").rglob("*.py")
        for name in NAME.findall(file.read_text(encoding="utf-8"))
    }


def promised(page: Path) -> set[str]:
    """The names in the columns "here"."""
    found: set[str] = set()
    column: int | None = None
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if "here" in cells:
            column = cells.index("here")
        elif not cells:
            column = None
        elif column is not None:
            found.update(name for code in CODE.findall(cells[column]) for name in NAME.findall(code))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_names_in_tables_are_there(page: Path):
    assert promised(page) - our_names() - THEIRS == set()


def test_the_pages_have_such_tables():
    assert "Approve" in set.intersection(*(promised(page) for page in PAGES if page.name != "index.md"))
