"""Links between the pages, and what the pages have to have."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.command_line import PAGE, page_with_tables
from tests.docs.pages import DOCS, PAGES, ROOT, name_of

TEXTS = [
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md")),
]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
FENCES = re.compile(r"^ *```.*?^ *```", re.M | re.S)


def _anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get, and for a page of the reference those of its names."""
    text = FENCES.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=name_of)
def test_links_lead_to_a_page_and_a_heading(page: Path):
    for target, anchor in LINK.findall(FENCES.sub("", page.read_text(encoding="utf-8"))):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        of_reference = anchor and anchor.startswith("agentscope_rx")  # tests/docs/test_site.py looks at these
        assert not anchor or of_reference or anchor in _anchors(linked), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES[1:], ids=name_of)
def test_tables_are_whole(page: Path):
    text = FENCES.sub("", page.read_text(encoding="utf-8"))
    for table in re.findall(r"^(?:\|.*\n)+", text, re.M):
        rows = [re.sub(r"`[^`]*`|\\\|", "", row) for row in table.splitlines()]
        assert re.fullmatch(r"[|:\- ]+", rows[1]), f"{page.name}: no head above {table.splitlines()[0]}"
        assert len({row.count("|") for row in rows}) == 1, f"{page.name}: rows of {table.splitlines()[0]}"


def test_the_architecture_page_has_every_room():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")["layers"]
    rooms = {room.strip() for layer in layers for room in re.split(r"[:|]", layer)} - {"__main__"}
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert {room for room in rooms if f"`{room}/`" not in page and f"`{room}.py`" not in page} == set()
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page)
    assert not [path for path in paths if "/" in path.rstrip("/") and not (ROOT / "agentscope_rx" / path).exists()]


def test_the_page_of_the_command_line_has_every_option():
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_tables(page) == page, "Write it anew: python -m tests.docs.command_line"
