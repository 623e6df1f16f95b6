"""Every end of a request to OpenAI's API: no run is left, and the model's source is closed."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai import OpenAI
from reactivex import operators as ops

from agentscope_rx import ExecutionConfig, GracefulShutdown, ReActAgent
from agentscope_rx.errors import RateLimitError
from agentscope_rx.events import ReasoningChunkEvent
from agentscope_rx.messages import TextBlock, ThinkingBlock
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.service import AgentHost, openai_routes, protocol_app
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import tool
from tests.service.openai.endpoint import asking, serving, user
from tests.service.serving import PATIENCE, RawClient, Served, Speaker, served

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "friday", "messages": [user("hi")]},
    RESPONSES: {"model": "friday", "input": "hi"},
}


def until_idle(server: Served, host: AgentHost) -> None:
    server.await_(_idle(host))


async def _idle(host: AgentHost) -> None:
    for run in tuple(host.runs._live):
        await run.idle()
    assert host.runs.statistics().live == 0


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_stops_its_run(path: str, stream: bool) -> None:
    model = Speaker(["Hel"], hang=True)
    host = AgentHost(ReActAgent("friday", model))
    with serving(host) as server:
        with RawClient(server.port) as client:
            client.send("POST", path, {**BODIES[path], "stream": stream})
            if stream:
                client.read_until(b"Hel")
            assert model.asked.wait(PATIENCE)
        assert model.closed.wait(PATIENCE)
        until_idle(server, host)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_a_slow_client_slows_the_model(path: str) -> None:
    words = [f"{at:06}" + "." * 2000 for at in range(2000)]
    model = Speaker(words)
    host = AgentHost(ReActAgent("friday", model))
    with serving(host) as server, RawClient(server.port) as client:
        client.send("POST", path, {**BODIES[path], "stream": True})
        client.read_until(words[0].encode())
        before = -1
        while before != model.read:
            before = model.read
            server.on_loop(lambda: None)
        assert model.read < 1000
        client.read_until(words[-1].encode())
    assert model.read == len(words)


@pytest.mark.parametrize("stream", [False, True])
def test_an_interrupted_agent_answers(stream: bool) -> None:
    model = Speaker(["Hel"], hang=True)
    agent = ReActAgent("friday", model)
    host = AgentHost(agent)
    with serving(host) as server, RawClient(server.port) as client:
        client.send("POST", CHAT, {**BODIES[CHAT], "stream": stream})
        assert model.asked.wait(PATIENCE)
        server.on_loop(lambda: agent.interrupt("I was stopped."))
        client.read_until(b"I was stopped.")
        client.read_until(b'"stop"')
        until_idle(server, host)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("stream", [False, True])
def test_a_host_that_ends_tells_its_clients(path: str, stream: bool) -> None:
    model = Speaker(["Hel"], hang=True)
    host = AgentHost(ReActAgent("friday", model))
    with serving(host) as server, RawClient(server.port) as client:
        client.send("POST", path, {**BODIES[path], "stream": stream})
        assert model.asked.wait(PATIENCE)
        if stream:
            client.read_until(b"Hel")
        server.await_(host.runs.aclose())
        seen = client.read_until(b"shutting down")
        assert stream or b" 503 " in seen
    assert model.closed.wait(PATIENCE)


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_that_drains_too_slowly_is_cut_off(stream: bool) -> None:
    model = Speaker(["Hel"], hang=True)
    host = AgentHost(ReActAgent("friday", model), shutdown=GracefulShutdown(timeout=0.01))
    with serving(host) as server, RawClient(server.port) as client:
        client.send("POST", CHAT, {**BODIES[CHAT], "stream": stream})
        assert model.asked.wait(PATIENCE)
        if stream:
            client.read_until(b"Hel")
        server.on_loop(lambda: host.drain().subscribe())
        client.read_until(b"Shutting down")
    assert model.closed.wait(PATIENCE)


def test_several_clients_at_once() -> None:
    with asking(ReActAgent("friday", ScriptedModel("Hello.", repeat=True))) as client:
        streams = [client.chat.completions.create(**BODIES[CHAT], stream=True) for _ in range(5)]
        for stream in reversed(streams):
            assert "".join(each.choices[0].delta.content or "" for each in stream) == "Hello."


def test_a_wrong_token_is_an_authentication_error() -> None:
    host = AgentHost(ReActAgent("friday", ScriptedModel("Hello.", repeat=True)))
    token = "0123456789abcdef"
    with served(protocol_app(host, openai_routes(host), token=token)) as server:
        for key, right in ((token, True), ("wrong", False)):
            with OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
                if right:
                    client.chat.completions.create(**BODIES[CHAT])
                else:
                    with pytest.raises(openai.AuthenticationError, match="requires its token"):
                        client.chat.completions.create(**BODIES[CHAT])


# --- an agent whose model is another agent ----------------------------------------------------------------------------


def outer(server: Served, **options: Any) -> ReActAgent:
    model = OpenAIChatModel("friday", base_url=f"{server.url}/v1", api_key="none")
    return ReActAgent("outer", model, **options)


def test_an_agent_is_the_model_of_another() -> None:
    @tool
    def pick(floor: int) -> str:
        """Pick a room."""
        return f"Room {floor}07."

    script = ScriptedModel(call("pick", floor=2), [ThinkingBlock("Hm."), TextBlock("It is room 207.")])
    host = AgentHost(ReActAgent("friday", script))
    with serving(host) as server:
        agent = outer(server, tools=[pick])
        reply = agent.call("A room.").run()
        assert reply.text == "It is room 207."
        # the inner agent has seen the result of the outer one's tool
        results = [result.text for message in script.requests[1].messages for result in message.tool_results]
        assert results == ["Room 207."]
        until_idle(server, host)


def test_the_errors_of_the_inner_agent_are_typed() -> None:
    host = AgentHost(ReActAgent("friday", ScriptedModel(RateLimitError("too fast", status=429), repeat=True)))
    with serving(host) as server:
        model = OpenAIChatModel("friday", base_url=f"{server.url}/v1", api_key="none")
        with pytest.raises(RateLimitError):
            ReActAgent("outer", model, model_execution_config=ExecutionConfig(max_attempts=1)).call("hi").run()


def test_the_stream_of_the_inner_agent_is_a_stream() -> None:
    host = AgentHost(ReActAgent("friday", ScriptedModel(["Hel", "lo."])))
    with serving(host) as server:
        events = outer(server).stream("hi").pipe(ops.to_list()).run()
    assert [each.text for each in events if isinstance(each, ReasoningChunkEvent) and each.text] == ["Hel", "lo."]
