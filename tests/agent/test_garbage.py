"""A run that is over is gone: with all that belonged to it, at once, and not when the collector comes by."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest
import reactivex.operators as ops

from agentscope_rx import ExecutionConfig, ReActAgent, hook, tool
from agentscope_rx.errors import EmptyResponseError, ModelConnectionError
from agentscope_rx.events import PostReasoningEvent, PreCallEvent, PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.reactive import Scope
from agentscope_rx.testing import ScriptedModel, call
from tests.agent.parts import agent
from tests.support.garbage import left_to_the_collector

TURNS = 5


@hook(PreReasoningEvent)
def plain(event: PreReasoningEvent) -> None:
    """Answers at once."""


@hook(PostReasoningEvent)
async def later(event: PostReasoningEvent) -> None:
    """Answers later."""
    await asyncio.sleep(0)


@hook(ReasoningChunkEvent)
def chunks(event: ReasoningChunkEvent) -> None:
    """Looks at every piece."""


@tool
def blocking() -> str:
    """Runs on a thread."""
    return "done"


@tool
async def counted():
    """Says how far it is."""
    yield "1"
    yield "2"


def flaky() -> object:
    failures = iter(range(100))

    @tool
    async def unreliable() -> str:
        """Fails every other time."""
        if next(failures) % 2 == 0:
            raise OSError("busy")
        return "done"

    return unreliable


def helper() -> ReActAgent:
    return ReActAgent("Helper", ScriptedModel(call("counted"), "told", repeat=True), tools=[counted])


SOON = ExecutionConfig(timeout=10, max_attempts=3, initial_backoff=0.001, max_backoff=0.001, retry_on=lambda e: True)

AGENTS: dict[str, Callable[[], ReActAgent]] = {
    "plain": lambda: agent(ScriptedModel(*([call("weather", city="Rome")] * TURNS), "done")),
    "two calls": lambda: agent(
        ScriptedModel(*([[call("counted"), call("blocking")]] * TURNS), "done"), tools=[counted, blocking]
    ),
    "hooks": lambda: agent(
        ScriptedModel(*([call("weather", city="Rome")] * TURNS), "done"), hooks=[plain, later, chunks]
    ),
    "retries": lambda: agent(
        ScriptedModel(*([call("unreliable")] * TURNS), "done"), tools=[flaky()], tool_execution_config=SOON
    ),
    "model retries": lambda: agent(
        ScriptedModel(*([ModelConnectionError("busy")] * 2), call("weather", city="Rome"), "done"),
        model_execution_config=SOON,
    ),
    "sub-agents": lambda: agent(
        ScriptedModel(*([call("call_helper", message="go")] * TURNS), "done"), tools=[helper().as_tool()]
    ),
    "summary": lambda: agent(ScriptedModel(*([call("weather", city="Rome")] * TURNS), "done"), max_iters=TURNS),
}


async def awaited(friday: ReActAgent) -> None:
    await friday.call("go")


async def subscribed(friday: ReActAgent) -> None:
    ended = asyncio.get_running_loop().create_future()
    friday.stream("go").subscribe(lambda event: None, ended.set_exception, lambda: ended.set_result(None))
    await ended


async def pulled(friday: ReActAgent) -> None:
    async for _ in friday.stream("go"):
        pass


async def left(friday: ReActAgent) -> None:
    async for event in friday.stream("go"):
        if event.type in ("post_acting", "post_reasoning"):
            break
    await asyncio.sleep(0.005)


async def taken(friday: ReActAgent) -> None:
    assert await friday.stream("go").pipe(ops.take(1))
    await asyncio.sleep(0.005)


async def disposed(friday: ReActAgent) -> None:
    running = friday.stream("go").subscribe(lambda event: None)
    for _ in range(8):
        await asyncio.sleep(0)
    running.dispose()
    await asyncio.sleep(0.005)


async def interrupted(friday: ReActAgent) -> None:
    async for event in friday.stream("go"):
        if event.type in ("pre_acting", "retry"):
            friday.interrupt()


async def failed(friday: ReActAgent) -> None:
    with pytest.raises(RuntimeError):
        await friday.stream("go").pipe(ops.map(fail_at_the_end))


def fail_at_the_end(event: object) -> None:
    if getattr(event, "type", "") == "post_call":
        raise RuntimeError


WAYS: list[Callable[[ReActAgent], Awaitable[None]]] = [awaited, subscribed, pulled, left, taken, disposed, interrupted]


@pytest.mark.parametrize("way", [*WAYS, failed], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", AGENTS)
def test_nothing_of_a_run_is_left_however_it_ended(kind: str, way: Callable[[ReActAgent], Awaitable[None]]):
    fridays = [AGENTS[kind](), AGENTS[kind]()]
    left_over = iter(fridays)
    assert left_to_the_collector(lambda: way(next(left_over))) == Counter()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_scope_and_the_subscription_of_a_run_go_with_it(way: Callable[[ReActAgent], Awaitable[None]]):
    scopes: list[ref[Scope]] = []

    class Noting(Hook):
        kinds = (PreCallEvent,)

        def on_event(self, event: PreCallEvent) -> None:
            run = friday.conversation().flag.run
            assert run is not None
            scopes.append(ref(run.scope))

    friday = agent(ScriptedModel(*([call("weather", city="Rome")] * TURNS), "done"), hooks=[Noting()])

    async def main() -> None:
        gc.collect()
        gc.disable()
        try:
            await way(friday)
            await asyncio.sleep(0)
            assert scopes and [scope() for scope in scopes] == [None] * len(scopes)
        finally:
            gc.enable()

    asyncio.run(main())


def test_a_failed_run_leaves_nothing():
    async def main() -> None:
        # an answer without content
        with pytest.raises(EmptyResponseError):
            await fridays.pop().call("go")

    kept = [agent(ScriptedModel(call("weather", city="Rome"), "")) for _ in range(2)]
    fridays = list(kept)
    assert left_to_the_collector(main) == Counter()


def test_an_agent_that_is_dropped_is_gone_at_once():
    async def main() -> None:
        friday = agent(ScriptedModel(call("weather", city="Rome"), "Sunny."), hooks=[plain])
        await friday.call("go")
        gone = [ref(friday), ref(friday.memory)]
        del friday
        await asyncio.sleep(0)
        assert [each() for each in gone] == [None, None]

    gc.collect()
    gc.disable()
    try:
        asyncio.run(main())
    finally:
        gc.enable()
