"""Names of tools that providers refuse: sent in other letters by every model, and told back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx import GenerateOptions, Msg
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models.options import ToolChoice, ToolSchema
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.models.wire.tool_names import WireNames, wire_name

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAMES = st.text(min_size=1, max_size=90)


@given(st.lists(NAMES, max_size=6, unique=True))
@example(["math.sqrt", "math_sqrt", "math sqrt", wire_name("math.sqrt")])
def test_law_every_name_is_taken_and_told_apart(names: list[str]):
    wire = [wire_name(name) for name in names]
    assert all(NAME.fullmatch(each) for each in wire)
    assert len(set(wire)) == len(names)
    tools = [ToolSchema(name, "", {}) for name in names]
    made = WireNames.of([], tools)
    for name, sent in zip(names, wire, strict=True):
        answer = ChatResponse((ToolUseDelta(0, "a", sent, "{}"),))
        back = answer if made is None else made.back(answer)
        assert back.content[0].name == name  # pyright: ignore


@pytest.mark.parametrize("name", ["get_weather", "a-b", "x" * 64, "report_20260101", "get_deadbeef"])
def test_names_that_are_taken_stay(name: str):
    assert wire_name(name) == name
    assert WireNames.of([Msg.user("x")], [ToolSchema(name, "", {})]) is None


def test_it_is_stable():
    assert wire_name("math.sqrt") == "math_sqrt_x36559d42"


def test_calls_results_and_the_choice_go_with_it():
    use = ToolUseBlock("a", "math.sqrt", {"x": 4})
    messages = [Msg.user("x"), Msg.assistant([use]), Msg.tool(ToolResultBlock.of(use, "2"), "F")]
    made = WireNames.of(messages, [])
    assert made is not None
    sent, wire = made.messages(messages), wire_name("math.sqrt")
    assert sent[0] is messages[0]
    assert [sent[1].tool_calls[0].name, sent[2].tool_results[0].name] == [wire, wire]
    options = GenerateOptions(tool_choice=ToolChoice.specific("math.sqrt"))
    assert made.options(options).tool_choice == ToolChoice.specific(wire)
    assert made.options(GenerateOptions()) == GenerateOptions()
