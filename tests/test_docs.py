"""The code of README and docs runs as printed, against a real server on loopback in place of the provider."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import tomllib
import types
from pathlib import Path

import pytest

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from tests.support.openai_server import openai_server

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
NOT_EVERYWHERE = {"embeddings"}
"""Extras of the development environment whose packages not every Python has wheels for."""
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    blocks = BLOCK.findall(page.read_text())
    if not blocks:
        return
    monkeypatch.chdir(tmp_path)
    with openai_server() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        # a module of its own: tools look up their annotations there
        module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
        monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
        for number, block in enumerate(blocks):
            code = compile(block, f"{page.name}[{number}]", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            try:
                result = eval(code, module.__dict__)
                if inspect.iscoroutine(result):
                    asyncio.run(_finish(result))
            except MissingExtraError as error:
                if error.extra not in NOT_EVERYWHERE:
                    raise
                pytest.skip(f"{error.package} is not installed")
            except ConfigurationError as error:
                if "bwrap" not in str(error):
                    raise
                pytest.skip(str(error))


async def _finish(coroutine) -> None:
    await coroutine


def _anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_links_lead_to_a_page_and_a_heading(page: Path):
    for target, anchor in LINK.findall(page.read_text()):
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(linked), f"{page.name} links to {target}#{anchor}"


def test_the_readme_links_to_every_page():
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text())}
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= linked


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_tables_are_whole(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for table in re.findall(r"^(?:\|.*\n)+", text, re.M):
        rows = [re.sub(r"`[^`]*`|\\\|", "", row) for row in table.splitlines()]
        assert re.fullmatch(r"[|:\- ]+", rows[1]), f"{page.name}: no head above {table.splitlines()[0]}"
        assert len({row.count("|") for row in rows}) == 1, f"{page.name}: rows of {table.splitlines()[0]}"


def test_the_architecture_page_has_every_room():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = next(each for each in settings["tool"]["importlinter"]["contracts"] if each["type"] == "layers")["layers"]
    rooms = {room.strip() for layer in layers for room in re.split(r"[:|]", layer)} - {"__main__"}
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert {room for room in rooms if f"`{room}/`" not in page and f"`{room}.py`" not in page} == set()
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page)
    assert not [path for path in paths if "/" in path.rstrip("/") and not (ROOT / "agentscope_rx" / path).exists()]
