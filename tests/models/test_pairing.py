"""What holds of calls and results in a request of any provider, whatever the history is."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.messages import Msg, MsgRole, TextBlock, ToolResultBlock, ToolUseBlock, call_places, results_first
from agentscope_rx.models.anthropic import formatter as anthropic
from agentscope_rx.models.dashscope import formatter as dashscope
from agentscope_rx.models.gemini import formatter as gemini
from agentscope_rx.models.ollama import formatter as ollama
from agentscope_rx.models.openai import formatter as openai
from agentscope_rx.models.openai.profiles import MISTRAL
from agentscope_rx.models.openai.responses.items import input_of
from agentscope_rx.models.wire.chat_turns import turns_of
from agentscope_rx.models.wire.pairing import NO_RESULT, paired

Pair = tuple[str, str]
Wire = tuple[list[Pair | str], str]
"""In the order of the wire: ("call", id), ("result", id), "other"; and all of it as text."""


def _chat(wire: Sequence[Any]) -> Wire:
    seen: list[Pair | str] = []
    for message in wire:
        if message["role"] == "tool":
            seen.append(("result", message["tool_call_id"]))
            continue
        seen.append("other")
        seen += [("call", call["id"]) for call in message.get("tool_calls", ())]
    return seen, json.dumps(wire, default=dict)


def _responses(messages: Sequence[Msg]) -> Wire:
    _, items = input_of(messages)
    kinds = {"function_call": "call", "function_call_output": "result"}
    seen: list[Pair | str] = [
        (kinds[str(item["type"])], str(item["call_id"])) if item.get("type") in kinds else "other"
        for item in items
        # an answer's own words may stand behind its calls
        if item.get("role") != "assistant"
    ]
    return seen, json.dumps(items, default=dict)


def _anthropic(messages: Sequence[Msg]) -> Wire:
    turns = anthropic.format_messages([Msg.user("go"), *messages]).turns
    seen: list[Pair | str] = []
    for turn in turns:
        calls = [("call", part["id"]) for part in turn.content if part["type"] == "tool_use"]
        # words may stand before and after calls in a turn, and results first in the next one
        seen += calls or [
            ("result", part["tool_use_id"]) if part["type"] == "tool_result" else "other" for part in turn.content
        ]
    return seen, json.dumps(turns, default=dict)


def _gemini(messages: Sequence[Msg]) -> Wire:
    contents = gemini.format_messages([Msg.user("go"), *messages]).contents
    seen: list[Pair | str] = []
    for content in contents:
        calls = [("call", p["functionCall"]["id"]) for p in content.parts if "functionCall" in p]  # pyright: ignore
        seen += calls or [
            ("result", p["functionResponse"]["id"]) if "functionResponse" in p else "other"  # pyright: ignore
            for p in content.parts
        ]
    return seen, json.dumps(contents, default=dict)


FORMATTERS: dict[str, Callable[[Sequence[Msg]], Wire]] = {
    "openai": lambda messages: _chat(openai.format_messages(messages)),
    "mistral": lambda messages: _chat(openai.format_messages(messages, MISTRAL)),
    "dashscope": lambda messages: _chat(dashscope.format_turns(turns_of(messages), "text")),
    "ollama": lambda messages: _chat(ollama.format_turns(turns_of(messages))),
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}

# few ids, so that they are used again; two that Anthropic spells alike; one that a new id could be
ids = st.sampled_from(["a", "b", "a.x", "a_x", "a_2"])
calls = ids.map(lambda id: ToolUseBlock(id, "look"))
results = st.tuples(ids, st.integers(0, 99)).map(
    lambda given: ToolResultBlock(given[0], "look", (TextBlock(f"seen-{given[1]}"),))
)
words = st.sampled_from(["hi", "well"]).map(TextBlock)
histories = st.lists(
    st.builds(Msg.assistant, st.lists(calls | results | words, min_size=1, max_size=4), st.sampled_from(["Me", "Peer"]))
    | st.builds(Msg.tool, st.lists(results, min_size=1, max_size=3))
    | st.builds(Msg.user, st.lists(results | words, min_size=1, max_size=2))
    | words.map(lambda block: Msg.system(block.text)),
    max_size=8,
)


@pytest.mark.parametrize("provider", FORMATTERS)
@given(history=histories)
def test_each_call_has_one_result_right_behind_it(provider: str, history: list[Msg]) -> None:
    seen, text = FORMATTERS[provider](history)
    expected: set[str] = set()
    used: set[str] = set()
    for each in seen:
        if isinstance(each, str):
            assert not expected
            continue
        kind, id = each
        if kind == "call":
            assert id not in used
            used.add(id)
            expected.add(id)
        else:
            expected.remove(id)
    assert not expected
    # nothing is lost: a result is a result, or told in words; no call is left out
    assert len(used) == sum(len(message.tool_calls) for message in history)
    for message in history:
        for result in message.tool_results:
            assert result.text in text


@given(histories)
def test_pairing_is_stable_and_leaves_what_is_in_order(history: list[Msg]) -> None:
    once = paired(history)
    again = paired(once)
    assert len(again) == len(once)
    assert all(one is other for one, other in zip(once, again, strict=True))
    assert once == paired(history)


@given(histories)
def test_a_result_answers_a_call_before_it_and_each_call_once(history: list[Msg]) -> None:
    places = call_places(history)
    assert len(set(places.values())) == len(places)
    for (number, at), (called, call) in places.items():
        assert called <= number
        assert history[number].content[at].id == history[called].content[call].id  # pyright: ignore
    assert sorted(map(id, results_first(history))) == sorted(map(id, history))


def _call(id: str) -> Msg:
    return Msg.assistant(ToolUseBlock(id, "look"))


def _result(id: str, text: str) -> Msg:
    return Msg.tool(ToolResultBlock(id, "look", (TextBlock(text),)))


def test_an_id_that_was_answered_earlier_hides_no_open_call() -> None:
    wire = openai.format_messages([_call("a"), _result("a", "one"), _call("a"), Msg.user("and?")])
    assert [(m["role"], m.get("tool_call_id"), m["content"]) for m in wire] == [
        ("assistant", None, None),
        ("tool", "a", "one"),
        ("assistant", None, None),
        ("tool", "a_2", NO_RESULT),
        ("user", None, "and?"),
    ]


def test_a_result_that_has_no_call_is_told() -> None:
    wire = openai.format_messages([_result("a", "one"), _call("b"), _result("b", "two"), _result("b", "three")])
    assert [m["content"] for m in wire] == [
        "Result of look (a), whose call is not in this conversation:\none",
        None,
        "two",
        "Another result of look (b):\nthree",
    ]


def test_a_later_open_call_does_not_hold_up_what_follows() -> None:
    history = [_call("a"), _result("a", "1"), _call("a"), Msg.user("x"), _call("b"), Msg.user("y"), _result("b", "2")]
    assert [m.text or (m.tool_calls or m.tool_results)[0].id for m in results_first(history)] == list("aaaxbby")


def test_a_user_calls_nothing() -> None:
    with pytest.raises(Exception, match="tool_use"):
        openai.format_messages([Msg("user", ToolUseBlock("a", "look"), MsgRole.USER)])
