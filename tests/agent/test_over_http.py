"""An agent driven over a real HTTP server: it streams, calls tools, is interrupted, disposed and called again."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest

from agentscope_rx import GenerateReason, ReActAgent
from agentscope_rx.events import PostCallEvent, ReasoningChunkEvent
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.wire.tool_names import wire_name
from agentscope_rx.tools import tool_from_schema
from tests.agent.parts import assert_whole, events_of, remembered, weather
from tests.support.openai_server import OpenAIServer, openai_server


@pytest.fixture
def server():
    with openai_server() as server:
        yield server


def friday(server: OpenAIServer) -> ReActAgent:
    return ReActAgent("Friday", OpenAIChatModel("test", base_url=server.base_url, api_key="k"), tools=[weather])


def test_it_streams_and_calls_tools(server):
    agent = friday(server)
    events = asyncio.run(events_of(agent, "Weather in Paris?"))
    assert isinstance(events[-1], PostCallEvent)
    assert events[-1].message.text.strip() == "You said: Sunny in Paris"
    assert events[-1].usage.input_tokens == 22 and events[-1].usage.output_tokens == 14
    assert sum(isinstance(event, ReasoningChunkEvent) for event in events) > 6
    replayed = server.requests[1]["messages"][-2]["tool_calls"][0]["function"]
    assert json.loads(replayed["arguments"]) == {"city": "Paris"}
    assert_whole(agent)


def test_a_name_that_providers_refuse_goes_there_and_back(server):
    described = ToolSchema("weather.get", "Current weather.", weather.parameters)
    model = OpenAIChatModel("test", base_url=server.base_url, api_key="k")
    agent = ReActAgent("Friday", model, tools=[tool_from_schema(described, lambda city: f"Sunny in {city}")])
    assert agent.call("Weather in Paris?").run().text.strip() == "You said: Sunny in Paris"
    assert remembered(agent)[1].tool_calls[0].name == remembered(agent)[2].tool_results[0].name == "weather.get"
    assert server.requests[0]["tools"][0]["function"]["name"] == wire_name("weather.get")
    assert server.requests[1]["messages"][-2]["tool_calls"][0]["function"]["name"] == wire_name("weather.get")
    assert_whole(agent)


def test_interrupting_a_silent_model_closes_its_response(server):
    agent = friday(server)

    async def main():
        async for event in agent.stream("please hang"):
            if isinstance(event, ReasoningChunkEvent):
                assert agent.interrupt("enough")
        return event.message

    reply = asyncio.run(main())
    assert reply.text == "enough" and reply.generate_reason is GenerateReason.INTERRUPTED
    assert [m.text for m in remembered(agent)] == ["please hang", "One moment ", "enough"]
    assert server.noticed.wait(5) and server.left == 1
    assert agent.call("Weather?").run().text.startswith("You said")


def test_disposal_closes_the_response_and_the_next_call_works(server):
    agent = friday(server)
    seen = []
    subscription = agent.stream("please hang").subscribe(seen.append)
    server.hanging.wait()
    subscription.dispose()
    assert server.noticed.wait(5) and server.left == 1
    assert agent.call("Weather?").run().text.startswith("You said")
    assert_whole(agent)


def test_a_cancelled_task_closes_the_response(server):
    agent = friday(server)

    async def main():
        reply = agent.call("please hang").as_task()
        await asyncio.to_thread(server.hanging.wait)
        reply.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reply
        await agent.idle()

    asyncio.run(main())
    assert server.noticed.wait(5) and server.left == 1


def test_one_agent_under_run_two_loops_and_threads(server):
    agent = friday(server)
    assert agent.call("a").run().text
    for word in ("b", "c"):
        assert asyncio.run(_call(agent, word)).text
    replies = []
    thread = threading.Thread(target=lambda: replies.append(agent.call("d").run()))
    thread.start()
    thread.join()
    assert replies[0].text
    assert_whole(agent)


async def _call(agent: ReActAgent, word: str):
    return await agent.call(word)


def test_two_runs_are_wanted_at_once_from_threads(server):
    agents = [friday(server) for _ in range(8)]
    replies = []
    threads = [threading.Thread(target=lambda a=a: replies.append(a.call("hi").run())) for a in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 8
