"""A run whose loop shuts down: its subscriber hears of it, memory is whole."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import reactivex

from agentscope_rx import ExecutionConfig, ReActAgent, tool
from agentscope_rx.errors import ModelError
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.reactive import Flow, SourceCancelledError, from_callable
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.virtual_time import virtual_loop
from tests.agent.parts import agent, assert_whole, remembered

let_go = threading.Event()


@tool
def blocking() -> str:
    """Runs on a worker thread."""
    let_go.wait(20)
    return "too late"


@tool
def never() -> object:
    """Waits for something that never comes."""
    return reactivex.never()


@tool
async def asleep() -> str:
    """Runs as a task, which the loop cancels."""
    await asyncio.sleep(3600)
    return "too late"


@tool
async def tidy() -> str:
    """The same, with something to put away."""
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0)
    return "too late"


@tool
async def flaky() -> str:
    """Fails, and is tried again in an hour."""
    raise OSError("busy")


class Remote(InMemoryMemory):
    """Writes take a while."""

    def add(self, messages):
        async def write() -> None:
            await asyncio.sleep(0.01)
            await super(Remote, self).add(messages)

        return from_callable(write)


IN_AN_HOUR = ExecutionConfig(
    max_attempts=3, initial_backoff=3600.0, max_backoff=3600.0, retry_on=lambda error: True, total_timeout=None
)

WAITS: dict[str, Callable[[], ReActAgent]] = {
    "sync tool": lambda: agent(ScriptedModel(call("blocking"), "next"), tools=[blocking]),
    "async tool": lambda: agent(ScriptedModel(call("asleep"), "next"), tools=[asleep]),
    "async tool with clean-up": lambda: agent(ScriptedModel(call("tidy"), "next"), tools=[tidy]),
    "reactive tool": lambda: agent(ScriptedModel(call("never"), "next"), tools=[never]),
    "tool's backoff": lambda: agent(
        ScriptedModel(call("flaky"), "next"), tools=[flaky], tool_execution_config=IN_AN_HOUR
    ),
    "model's backoff": lambda: agent(
        ScriptedModel(ModelError("overloaded"), "next"), tools=[], model_execution_config=IN_AN_HOUR
    ),
    "memory that takes its time": lambda: agent(ScriptedModel(call("never"), "next"), tools=[never], memory=Remote()),
}


@pytest.fixture(autouse=True)
def threads_are_let_go():
    let_go.clear()
    yield
    let_go.set()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, virtual_loop], ids=["real", "virtual"])
@pytest.mark.parametrize("waits", WAITS)
def test_a_run_hears_that_its_loop_shuts_down(waits: str, loop_factory):
    friday = WAITS[waits]()
    heard: list[object] = []

    async def leave_behind() -> object:
        subscription = friday.stream("go").subscribe(
            lambda event: heard.append(event.type), heard.append, lambda: heard.append("|")
        )
        for _ in range(50):
            await asyncio.sleep(0.001)
        return subscription

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        kept = runner.run(leave_behind())
        assert friday.running
    assert type(heard[-1]) is SourceCancelledError
    assert "error" not in heard and "post_call" not in heard
    # repaired and free at once, not only by the next call
    assert not friday.conversation().flag._lost and friday.conversation().flag._run is None
    assert_whole(friday)
    assert [r.kind for m in remembered(friday) for r in m.tool_results] in ([], ["interrupted"])
    assert friday.call("again").run().text == "next"
    assert_whole(friday)
    del kept


def test_a_retry_that_the_loop_ends_is_not_made():
    model = ScriptedModel(ModelError("overloaded"), "next")
    friday = agent(model, tools=[], model_execution_config=IN_AN_HOUR)

    async def ask() -> Flow[object]:
        friday.call("go").subscribe(on_error=lambda error: None)
        await asyncio.sleep(0.01)

    asyncio.run(ask())
    assert model.unplayed == 1
