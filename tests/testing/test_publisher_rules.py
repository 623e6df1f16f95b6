"""The rules of Reactive Streams over every source and operator of the kernel, and over an agent's runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import agentscope_rx.reactive
from agentscope_rx import ReActAgent, tool
from agentscope_rx.agent import RunHandle
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.reactive import defer, from_async_iterable, from_iterable, on_library_loop, on_loop, shield
from agentscope_rx.reactive.kernel.runtime import library_loop
from agentscope_rx.testing import Delay, ScriptedModel, call, check_operator, check_publisher
from tests.reactive.catalogue import ELSEWHERE, NO_FLOWS, OPERATORS, SOURCES, five


def test_each_public_source_and_operator_has_a_case():
    cases = {name.split(",")[0] for name in (*SOURCES, *OPERATORS)}
    assert cases | set(ELSEWHERE) | NO_FLOWS == set(agentscope_rx.reactive.__all__)
    assert not cases & (set(ELSEWHERE) | NO_FLOWS)


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_the_rules(name: str):
    make, given = SOURCES[name]
    check_publisher(make, name=name, **given)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_keeps_the_rules(name: str):
    operator, given = OPERATORS[name]
    check_operator(operator, name=name, **given)


@tool
async def look(city: str) -> AsyncIterator[str]:
    """Looks twice."""
    for _ in range(2):
        await asyncio.sleep(1)
        yield f"Sunny in {city}"


def agent(*turns: Any) -> ReActAgent:
    """An agent with a tool and an answer in two parts; or one that plays these turns."""
    talk = ([Delay(1), call("look", city="Paris")], ["It is ", Delay(1), "sunny."])
    return ReActAgent("Friday", ScriptedModel(*(turns or talk), repeat=True), tools=[look])


def broken() -> ReActAgent:
    return agent(["It is ", ModelConnectionError("lost")])


def started(agent: ReActAgent) -> RunHandle:
    return agent.start("hi", linger=0)


RUNS: dict[str, tuple[Callable[[ReActAgent], Any], dict[str, Any]]] = {
    "call": (lambda agent: agent.call("hi"), {"ahead": 0, "concurrent": False}),
    # one event is ahead: those that a stage has made together come together
    "stream": (lambda agent: agent.stream("hi"), {"ahead": 1, "concurrent": False}),
    # a handle for each subscriber; then one for all, which reports an error that none of them has had
    "start": (lambda agent: defer(lambda: started(agent).events()), {"ahead": 1, "concurrent": False}),
    "start, shared": (lambda agent: started(agent).events(), {"ahead": 1, "hot": True, "failing": None}),
    "start, result": (lambda agent: started(agent).result(), {"hot": True, "failing": None}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_an_agent_keeps_the_rules(name: str):
    begin, given = RUNS[name]
    rules = {"failing": lambda: begin(broken()), **given}
    report = check_publisher(lambda: begin(agent()), name=name, **rules)
    assert {"1.08", "3.05", "3.12"} <= set(report.checked)
    assert ("1.04" in report.checked) is (rules["failing"] is not None)


def test_a_flow_on_the_library_loop_keeps_the_rules():
    check_publisher(
        lambda: on_library_loop(from_iterable(range(3))), ahead=None, name="on_library_loop", real_time=True
    )


def test_a_flow_on_another_loop_keeps_the_rules():
    check_publisher(lambda: on_loop(from_iterable(range(3)), library_loop()), ahead=None, real_time=True)


def test_a_shielded_flow_keeps_the_rules():
    check_publisher(lambda: shield(from_async_iterable(five)), ahead=None, name="shield")
