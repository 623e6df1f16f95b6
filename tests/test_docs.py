"""The code of README and docs runs as printed, against a real server on loopback in place of the provider."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import types
from pathlib import Path

import pytest

from agentscope_rx.errors import MissingExtraError
from tests.support.openai_server import openai_server

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
NOT_EVERYWHERE = {"embeddings"}
"""Extras of the development environment whose packages not every Python has wheels for."""
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


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


async def _finish(coroutine) -> None:
    await coroutine


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
