"""The evaluation of the embedded model: its questions can be answered, and its checks tell right from wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentscope_rx.cli.arguments import EPILOG
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.events import PostActingEvent
from agentscope_rx.models import ChatModel
from agentscope_rx.models.local import LocalChatModel
from agentscope_rx.models.local.prompt import CANNOT
from agentscope_rx.testing import ScriptedModel, call
from benchmarks.local_questions import FOLDER, answer_of, ask, faults, rules_alone
from benchmarks.local_table import CALCULATE, HELD_OUT, READ, SEARCH, TUNED, Question
from benchmarks.without_model import RulesAlone

PORT = next(question for question in TUNED if "port" in question.text)
PATH = "config/settings.toml"


def test_two_halves_of_twenty_share_nothing() -> None:
    assert len(TUNED) == len(HELD_OUT) == 20
    assert len({question.text for question in TUNED + HELD_OUT}) == 40
    assert {question.tool for question in TUNED} == {question.tool for question in HELD_OUT}
    offered = {tool.name for tool in builtin_tools(FOLDER).schemas()}
    assert {question.tool for question in TUNED} - offered == {CALCULATE}


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
        (ScriptedModel(call(SEARCH, pattern="port"), "8080"), ["tools ['grep']"]),
        (ScriptedModel("8080"), ["tools []", "numbers made up: 8080"]),
    ],
)
def test_the_checks(model: ChatModel, wrong: list[str]) -> None:
    assert faults(PORT, ask(PORT, model)) == wrong


@pytest.mark.parametrize("question", [each for each in TUNED + HELD_OUT if each.tool == CALCULATE])
def test_what_no_tool_can_do_is_said_to_be_so(question: Question) -> None:
    events = ask(question, RulesAlone())
    assert answer_of(events).startswith(CANNOT)
    assert not [event for event in events if isinstance(event, PostActingEvent)]


@pytest.mark.parametrize("question", TUNED + HELD_OUT, ids=lambda each: each.text)
def test_the_rules_answer_or_say_that_they_cannot(question: Question) -> None:
    events = ask(question, RulesAlone())
    assert not faults(question, events) or answer_of(events).startswith(CANNOT)


def test_what_the_docs_say_of_the_rules_alone() -> None:
    assert (rules_alone(TUNED), rules_alone(HELD_OUT)) == (12, 5)
    root = Path(__file__).parent.parent
    rows = [re.sub(r"\s+", " ", line.strip()) for line in (LocalChatModel.__doc__ or "").splitlines()]
    assert "| 20 held out | 5 | 5 | 15 |" in rows
    assert "| 20 that were tuned on | 12 | 12 | 8 |" in rows
    said = "it answers 5 of 20 held-out questions, and the\nrules without a model as many."
    assert said in (root / "README.md").read_text()
    assert "it answers 5, the rules without any model 5; of the\nothers it says that it cannot" in EPILOG
