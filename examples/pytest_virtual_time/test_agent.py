"""Tests of an agent in virtual time: slow models, timeouts and retries, tested exactly and without waiting.

Look at: `@pytest.mark.virtual`, which runs a test on a loop whose clock jumps; the assertions about `loop.time()`: they
are exact; and `verify`, which checks a stream step by step. A task, timer or open response that is left fails the test.

    python -m pytest examples/pytest_virtual_time -v       five minutes of timeouts, in less than a second

The model is scripted, because a test must not depend on what a real one says today. (`RecordedModel` plays a run with a
real one: see docs/guides/testing.md.)
"""

from __future__ import annotations

import asyncio

import pytest
from tenacity import wait_fixed

from agentscope_rx import ExecutionConfig, GenerateReason, ReActAgent, tool
from agentscope_rx.errors import ModelTimeoutError
from agentscope_rx.events import PostActingEvent, PostCallEvent, PreCallEvent, ReasoningChunkEvent
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, verify

ONE_MINUTE = ExecutionConfig(timeout=60, max_attempts=1)


@tool
async def weather(city: str) -> str:
    """Current weather of a city."""
    await asyncio.sleep(90)
    return f"Sunny in {city}"


@pytest.mark.virtual
async def test_a_slow_tool_and_a_slow_model():
    model = ScriptedModel([Delay(30), call("weather", city="Paris")], ["It is ", Delay(2), "sunny."])
    agent = ReActAgent("Friday", model, tools=[weather])

    reply = await agent.call("Weather?")

    assert reply.text == "It is sunny."
    assert asyncio.get_running_loop().time() == 30 + 90 + 2
    # what the model was asked the second time
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]
    model.assert_complete()


@pytest.mark.virtual
async def test_a_model_that_hangs_is_a_timeout():
    agent = ReActAgent("Friday", ScriptedModel(["One moment ", HANG]), model_execution_config=ONE_MINUTE)

    with pytest.raises(ModelTimeoutError):
        await agent.call("Weather?")

    assert asyncio.get_running_loop().time() == 60
    # the question stays, the broken answer does not
    assert [message.text for message in await agent.memory.get()] == ["Weather?"]


@pytest.mark.virtual
async def test_a_timeout_is_tried_again():
    twice = ExecutionConfig(timeout=60, max_attempts=2, wait=wait_fixed(5))
    agent = ReActAgent("Friday", ScriptedModel([HANG], "Sunny."), model_execution_config=twice)

    assert (await agent.call("Weather?")).text == "Sunny."
    assert asyncio.get_running_loop().time() == 60 + 5


def test_a_user_interrupts_an_answer():
    agent = ReActAgent("Friday", ScriptedModel(call("weather", city="Paris"), ["It is ", HANG]), tools=[weather])
    record = (
        verify(agent.stream("Weather?"))
        .expect_next_of(PreCallEvent)
        .expect_eventually(PostActingEvent)
        .expect_eventually(ReasoningChunkEvent)
        .expect_no_event(for_=200)
        .then_interrupt(agent, "That is enough.")
        .expect_eventually(PostCallEvent)
        .expect_completed()
        .run()
    )
    end = record.values[-1]
    assert isinstance(end, PostCallEvent)
    assert end.message.generate_reason is GenerateReason.INTERRUPTED
    assert record.signals[-1].at == 90 + 200
