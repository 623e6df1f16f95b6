"""The evaluation of the embedded model: its questions can be answered, and its checks tell right from wrong."""

from __future__ import annotations

import re

import pytest

from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.model import ChatModel
from agentscope_rx.testing import ScriptedModel, call
from benchmarks.local_questions import FOLDER, ask, faults
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
