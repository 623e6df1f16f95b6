"""Operators around a flow that leave the thread of the run: what they stand around runs on the run's loop."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler

from agentscope_rx import tool
from agentscope_rx.hooks import around
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call
from tests.agent.parts import agent

KINDS = ["call", "reasoning", "acting", "summarizing", "model", "tool"]


@pytest.mark.parametrize("operator", [ops.observe_on, ops.subscribe_on])
def test_operators_that_change_threads_come_back_to_the_loop(operator):
    def away(source):
        return source.pipe(operator(NewThreadScheduler()), ops.do_action(lambda item: None))

    loops: set[asyncio.AbstractEventLoop] = set()

    @tool
    async def where() -> str:
        """Where it runs."""
        loops.add(asyncio.get_running_loop())
        return "here"

    model = ScriptedModel(["Look: ", Delay(0.001), call("where")], ["Sun", Delay(0.001), "ny."])
    friday = agent(model, tools=[where], hooks=[around(kind, away) for kind in KINDS])

    async def main() -> None:
        assert (await friday.call("hi")).text == "Sunny."
        assert loops == {asyncio.get_running_loop()}

    # (a call of a loop from another thread is an error then)
    asyncio.run(main(), debug=True)


def test_a_stopped_operator_on_another_thread_leaves_nothing():
    def away(source):
        return source.pipe(ops.subscribe_on(NewThreadScheduler()))

    async def main() -> None:
        for kind in KINDS:
            model = ScriptedModel(["one", HANG])
            friday = agent(model, hooks=[around(kind, away)])
            async for event in friday.stream("hi"):
                if event.type == "reasoning_chunk":
                    break
            await friday.idle()
            assert len(model.closed) == 1 and not friday.running

    asyncio.run(main(), debug=True)
