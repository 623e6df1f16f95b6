"""The kits refuse arguments that they cannot work with, and say what to give instead; no rule is broken by these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat_map, just
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import (
    RuleBrokenError,
    ScriptedModel,
    check_chat_model,
    check_hook,
    check_memory,
    check_operator,
    check_publisher,
    check_session,
    check_tool,
)

MODEL = ScriptedModel("fine", repeat=True)


def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sunny in {city}"


@pytest.mark.parametrize(
    ("check", "given", "says"),
    [
        (check_memory, InMemoryMemory(), "a function that returns a new Memory at each call"),
        (check_session, InMemorySession(), "a function that returns a new Session at each call"),
        (check_chat_model, MODEL, "a function that returns a new ChatModel at each call"),
        (check_publisher, just(1), "a function that returns a new Observable at each call"),
        (check_operator, just(1), r"takes an operator, such as ops\.scan"),
        (check_hook, 3, "takes a hook, or a function without parameters"),
        (check_hook, weather, r"of an event a hook by @hook\(PreReasoningEvent\)"),
        (check_hook, lambda: weather, "must return a new hook, not <function weather"),
        (check_tool, weather, r"'weather' needs arguments for a call that succeeds: .* with \['city'\]"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(check: Callable[[Any], object], given: object, says: str):
    with pytest.raises(ConfigurationError, match=says):
        check(given)


def test_the_other_arguments_of_kits_are_checked_too():
    with pytest.raises(ConfigurationError, match=r"^failing must be a function"):
        check_publisher(lambda: just(1), failing=just(2))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^hanging must be a function"):
        check_chat_model(lambda: MODEL, hanging=MODEL)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^unsupported takes names of options"):
        check_chat_model(lambda: MODEL, unsupported=["tmperature"])


class Local(InMemoryMemory):
    """A memory whose adds take place when they are made."""

    def add(self, messages: Sequence[Msg], marks: Collection[str] = ()) -> Flow[None]:
        self._messages.extend(messages)
        return just(None)


def test_a_report_names_what_a_lambda_makes():
    assert check_memory(lambda: InMemoryMemory()).subject == "InMemoryMemory"
    assert check_memory(lambda: InMemoryMemory(), name="mine").subject == "mine"
    with pytest.raises(RuleBrokenError, match=r"^Local breaks rule cold"):
        check_memory(lambda: Local())


def test_a_report_names_a_local_class_and_an_operator():
    class Inner(InMemoryMemory): ...

    assert check_memory(Inner).subject == "Inner"
    assert check_operator(concat_map(lambda value: value)).subject == "concat_map"
