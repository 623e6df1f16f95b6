"""Calls that the server itself refuses (`tool_use_failed`): told to the model, twice on end at most."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import BadRequestError
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.models import ExecutionConfig, OpenAIChatModel

Serve = Callable[..., Any]
WRITTEN = '<function=weather>{"city": "Rome"'
REFUSED = {
    "error": {
        "message": "Failed to call a function. See 'failed_generation' for more details.",
        "type": "invalid_request_error",
        "code": "tool_use_failed",
        "failed_generation": WRITTEN,
    }
}


@tool
def search(query: str) -> str:
    """Searches."""
    return "found"


@tool
def weather(city: str) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


def script(*answers: str) -> Callable[[Any], Any]:
    """A server that gives these answers, one for each request: "400", "event", or a text."""
    left = list(answers)

    async def answer(reply: Any) -> None:
        kind = left.pop(0)
        if kind == "400":
            reply.json(400, REFUSED)
        elif kind == "event":
            reply.start()
            reply.send({"choices": [{"index": 0, "delta": {"content": "Let me see. "}}]})
            reply.send_bytes(f"event: error\ndata: {json.dumps(REFUSED)}\n\n".encode())
            reply.end()
        else:
            reply.start()
            reply.send({"choices": [{"index": 0, "delta": {"content": kind}, "finish_reason": "stop"}]}, "[DONE]")
            reply.end()

    return answer


def agent(server: Any) -> ReActAgent:
    model = OpenAIChatModel(
        "m", api_key="k", base_url=server.url, profile="groq", execution_config=ExecutionConfig(max_attempts=1)
    )
    return ReActAgent("Friday", model, tools=[search, weather])


@pytest.mark.parametrize("kind", ["400", "event"])
def test_the_model_sees_why_and_tries_again(serve: Serve, kind: str) -> None:
    server = serve(script(kind, kind, "It is sunny."))
    friday = agent(server)
    assert friday.call("weather in Rome?").run().text == "It is sunny."
    told = [result for message in friday.memory.get().run() for result in message.tool_results]
    assert [result.kind for result in told] == [ToolResultKind.INVALID_ARGUMENTS] * 2
    assert all(result.name == "weather" and WRITTEN in result.text for result in told)
    assert "Failed to call a function" in told[0].text
    sent = server.asked[-1].body["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "tool"]
    assert WRITTEN in sent[-1]["content"]


def test_the_third_on_end_is_an_error(serve: Serve) -> None:
    server = serve(script("400", "400", "400"))
    with pytest.raises(BadRequestError, match="Failed to call a function"):
        agent(server).call("weather in Rome?").run()
    assert len(server.asked) == 3


def test_a_new_question_counts_anew(serve: Serve) -> None:
    server = serve(script("400", "400", "Sunny.", "400", "Cloudy."))
    friday = agent(server)
    assert [friday.call(question).run().text for question in ("Rome?", "Oslo?")] == ["Sunny.", "Cloudy."]


def test_without_tools_it_is_an_error(serve: Serve) -> None:
    server = serve(script("400"))
    model = OpenAIChatModel("m", api_key="k", base_url=server.url, execution_config=ExecutionConfig(max_attempts=1))
    with pytest.raises(BadRequestError):
        ReActAgent("Friday", model).call("hi").run()
