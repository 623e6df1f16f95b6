"""The steps of the tutorial run in order, in one empty folder, and print what the pages show."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.pages import TUTORIAL, PageRunner, blocks_of
from tests.docs.words import measure
from tests.support.openai_server import openai_server

STEPS = sorted(TUTORIAL.glob("[0-9]*.md"))
MOST_WORDS = 250
MOST_WORDS_IN_ALL = 2300


def test_the_steps_print_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # the model's answers stand in the programs: a model of this machine, or a key, must not be in the way
    for name in ("AGENTSCOPE_RX_MODEL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with openai_server() as server:
        for page in STEPS:
            PageRunner(page, tmp_path, server).run()
    assert not server.requests
    assert sorted(path.name for path in tmp_path.glob("*.py")) == [
        "advise.py", "ask.py", "decide.py", "desk.py", "leave.py", "model.py", "rules.py", "service.py", "shop.py",
        "test_desk.py", "trouble.py", "watch.py",
    ]  # fmt: skip


def test_there_are_ten_short_steps():
    words = {page.name: measure(page.read_text(encoding="utf-8")).words for page in TUTORIAL.glob("*.md")}
    assert len(STEPS) == 10
    assert max(words.values()) <= MOST_WORDS
    assert sum(words.values()) <= MOST_WORDS_IN_ALL


@pytest.mark.parametrize("page", STEPS, ids=lambda page: page.name)
def test_each_block_is_a_file_or_a_command(page: Path):
    for block in blocks_of(page.read_text(encoding="utf-8")):
        assert block.language == "console" or "." in block.title
        if block.title.endswith(".py"):
            ast.parse(block.text)
