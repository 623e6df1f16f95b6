"""The evaluation of the embedded model: its questions can be answered, and its checks tell right from wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentscope_rx.cli.arguments import EPILOG
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.models import ChatModel
from agentscope_rx.testing import ScriptedModel, call
from benchmarks.local_questions import FOLDER, ask, faults, rules_alone
from benchmarks.local_table import HELD_OUT, READ, SEARCH, TUNED, Question

PORT = next(question for question in TUNED if "port" in question.text)
PATH = "config/settings.toml"


def test_two_halves_of_twenty_share_nothing() -> None:
    assert len(TUNED) == len(HELD_OUT) == 20
    assert len({question.text for question in TUNED + HELD_OUT}) == 40
    assert {question.tool for question in TUNED} == {question.tool for question in HELD_OUT}
    assert {question.tool for question in TUNED} == {tool.name for tool in builtin_tools(FOLDER).schemas()}


@pytest.mark.parametrize(
    "question", [each for each in TUNED + HELD_OUT if each.tool == READ], ids=lambda each: each.text
)
def test_the_file_holds_the_fact(question: Question) -> None:
    path = re.sub(r"\\", "", question.arguments)
    assert re.search(question.fact, (FOLDER / path).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (ScriptedModel(call(READ, path=PATH), "The port is 8080."), []),
        (ScriptedModel(call(READ, path=PATH), "The port is 80."), ["fact", "numbers made up: 80"]),
        (ScriptedModel(call(READ, path=PATH), "The port is 8080, or 9090."), ["numbers made up: 9090"]),
        (ScriptedModel(call(READ, path="README.md"), "8080"), ["arguments", "numbers made up: 8080"]),
        (ScriptedModel(call(SEARCH, pattern="port"), "8080"), ["tools ['search_files']"]),
        (ScriptedModel("8080"), ["tools []", "numbers made up: 8080"]),
    ],
)
def test_the_checks(model: ChatModel, wrong: list[str]) -> None:
    assert faults(PORT, ask(PORT, model)) == wrong


def test_what_the_docs_say_of_the_rules_alone() -> None:
    assert (rules_alone(TUNED), rules_alone(HELD_OUT)) == (15, 13)
    root = Path(__file__).parent.parent
    assert "| 20 held out | 16 | 13 |" in (root / "docs" / "models.md").read_text()
    assert "| 20 that were tuned on | 20 | 15 |" in (root / "docs" / "models.md").read_text()
    assert "answers 16, the rules with no model in\nthem 13" in (root / "README.md").read_text()
    assert "it answers 16, the rules without any model 13" in EPILOG
