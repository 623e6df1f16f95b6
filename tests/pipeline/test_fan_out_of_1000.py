"""A fan-out of a thousand agents: one fails, one hangs, one is disposed of, one is interrupted; linear costs."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from typing import Any

import pytest

from agentscope_rx import Agent, Msg, ReActAgent
from agentscope_rx.pipeline import FanOutPipeline, FunctionAgent, StepResult, fanout_pipeline
from agentscope_rx.reactive import SourceCancelledError
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual
from tests.pipeline.parts import assert_whole, remembered

N = 1000


class Cancelled(FunctionAgent):
    """A member whose own work other code cancels."""

    def __init__(self, name: str) -> None:
        super().__init__(self.work, name)
        self.begun: asyncio.Future[asyncio.Task[Any]] = asyncio.get_running_loop().create_future()
        self.ended = False

    async def work(self, message: Msg) -> str:
        task = asyncio.current_task()
        assert task is not None
        self.begun.set_result(task)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.5)
            self.ended = True
        return "never"


def team(n: int = N) -> list[ReActAgent]:
    turns: dict[int, Any] = {17: ValueError("broken"), 500: [HANG], 700: [HANG]}
    return [ReActAgent(f"a{i}", ScriptedModel(turns.get(i, [Delay(1 + i % 7), f"r{i}"]))) for i in range(n)]


def assert_outcomes(outcomes: tuple[StepResult, ...]) -> None:
    assert [each.member for each in outcomes] == [f"a{i}" for i in range(N)]
    for number, each in enumerate(outcomes):
        if number == 17:
            assert each.error is not None and each.error.text == "ValueError: broken"
        elif number == 900:
            assert each.error is not None and not each.interrupted
            assert (each.error.kind, each.error.error_type) == ("cancelled", "SourceCancelledError")
            assert isinstance(each.error.__cause__, SourceCancelledError)
        elif number == 500:
            assert each.error is not None and (each.error.kind, each.elapsed) == ("timeout", 60)
        elif number == 700:
            assert each.interrupted and each.value.text == "stop it"
        else:
            assert each.ok and each.value.text == f"r{number}", number


@pytest.mark.spec("W76")
@pytest.mark.parametrize("at_most", [None, 50])
def test_one_fails_one_hangs_one_is_disposed_of(at_most: int | None):
    async def main() -> None:
        cancelled = Cancelled("a900")
        agents: list[Agent] = list(team())
        agents[900] = cancelled

        async def interrupt() -> None:
            # with at_most=50 they begin after others have ended
            await asyncio.sleep(20 if at_most is None else 100)
            assert agents[700].interrupt("stop it")
            (await cancelled.begun).cancel()

        outcomes, _ = await asyncio.gather(
            fanout_pipeline(agents, "go", at_most=at_most, timeout=60).as_task(), interrupt()
        )
        assert_outcomes(outcomes)
        for agent in agents:
            assert not agent.running
        assert cancelled.ended and len(asyncio.all_tasks()) == 1

    run_virtual(main())


def test_a_thousand_are_disposed_of_at_once():
    async def main() -> None:
        agents = team()
        pipeline = FanOutPipeline(agents, timeout=60)
        task = pipeline.call("go").as_task()
        await asyncio.sleep(3.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await pipeline.idle()
        await assert_whole(pipeline.conversation(), remembered(pipeline))
        for agent in agents:
            await agent.idle()
            await assert_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


def test_a_thousand_are_interrupted_at_once():
    async def main() -> None:
        agents = team()
        pipeline = FanOutPipeline(agents, timeout=60)
        task = pipeline.call("go").as_task()
        await asyncio.sleep(3.5)
        pipeline.interrupt()
        assert (await task).text == "I was interrupted in step 1 (a0, a1, a2 and 997 more)."
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())


def test_nothing_of_the_agents_stays():
    kept: list[weakref.ref[Agent]] = []

    async def main() -> None:
        agents = team(40)
        kept.extend(weakref.ref(agent) for agent in agents)
        await fanout_pipeline(agents, "go", timeout=60)

    run_virtual(main())
    gc.collect()
    assert [ref for ref in kept if ref() is not None] == []


def calls_of(n: int) -> int:
    """The Python calls of a fan-out of so many agents."""
    agents = [ReActAgent(f"a{i}", ScriptedModel("x")) for i in range(n)]
    pipeline = FanOutPipeline(agents)
    found = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call"

    async def main() -> None:
        await pipeline.call("go")

    sys.setprofile(profile)
    try:
        run_virtual(main())
    finally:
        sys.setprofile(None)
    return found


def test_costs_are_linear():
    few, many = calls_of(50), calls_of(400)
    assert many < 8 * few * 1.1, (few, many)
