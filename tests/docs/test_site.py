"""The site is built without a warning, has every public name, and loads nothing from outside."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import agentscope_rx
from tests.docs.pages import DOCS, ROOT

REFERENCE = DOCS / "reference"
SECONDS = 300
INNER = {
    "agentscope_rx.agent.structured_output",
    "agentscope_rx.agent.user",
    "agentscope_rx.guard",
    "agentscope_rx.knowledge.stores.sqlite",
    "agentscope_rx.memory.sql",
    "agentscope_rx.models.wrappers",
    "agentscope_rx.pipeline.hub",
    "agentscope_rx.service.protocols.a2a",
    "agentscope_rx.service.protocols.ag_ui",
    "agentscope_rx.session.redis",
    "agentscope_rx.session.sql",
    "agentscope_rx.session.sqlite",
}
"""Packages whose names users import from the package above, or not at all."""
MODULES = {"agentscope_rx.context"}
"""Modules outside of packages that users import from."""


def public_packages() -> list[str]:
    found = ["agentscope_rx"]
    for module in pkgutil.walk_packages(agentscope_rx.__path__, "agentscope_rx."):
        shown = module.ispkg or module.name in MODULES
        if shown and module.name not in INNER and getattr(importlib.import_module(module.name), "__all__", None):
            found.append(module.name)
    return found


def documented() -> list[str]:
    return sorted(
        name for page in REFERENCE.glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.M)
    )


def test_the_reference_has_every_public_package():
    assert documented() == sorted(public_packages())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """The anchors of a page, and the addresses that a browser loads by itself."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.loaded: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        address = values.get("href" if tag == "link" else "src") if tag not in {"a"} else None
        if address and values.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(address)


@pytest.mark.timeout(SECONDS)
def test_every_public_name_has_its_entry(site: Path):
    ids = {each for page in site.glob("reference/*.html") for each in Page(page).ids}
    names = {f"{package}.{name}" for package in documented() for name in importlib.import_module(package).__all__}
    assert names - ids == set()


@pytest.mark.timeout(SECONDS)
def test_nothing_is_loaded_from_outside(site: Path):
    loaded = {address for page in site.rglob("*.html") for address in Page(page).loaded}
    assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", style.read_text(encoding="utf-8")), style.name


@pytest.mark.timeout(SECONDS)
def test_tables_of_docstrings_are_whole(site: Path):
    pages = sorted(site.glob("reference/*.html"))
    assert [page.name for page in pages if "<p>|" in page.read_text(encoding="utf-8")] == []


@pytest.mark.timeout(SECONDS)
def test_the_search_works_from_a_folder(site: Path):
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="_site/iframe-worker.js"' in page
    assert "IFrameWorker" in (site / "_site/iframe-worker.js").read_text(encoding="utf-8")
    index = (site / "search/search_index.js").read_text(encoding="utf-8")
    found = {each["location"]: each for each in json.loads(index.removeprefix("var __index = "))["docs"]}
    assert "boost" not in found["guides/human-in-the-loop.html"]
    assert found["examples/approval.py.html"]["boost"] < 1
    assert "boost" not in found["examples/index.html"]


@pytest.mark.timeout(SECONDS)
def test_long_signatures_have_a_line_for_each_parameter(site: Path):
    page = re.sub(r"<[^>]+>", "", (site / "reference/agent.html").read_text(encoding="utf-8"))
    assert re.search(r"^ReActAgent\($", page, re.M)
