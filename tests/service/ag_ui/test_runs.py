"""Runs over AG-UI, as a client sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors.model import RateLimitError
from agentscope_rx.messages import ChatUsage, ImageBlock, TextBlock, ThinkingBlock
from agentscope_rx.messages.sources import Base64Source
from agentscope_rx.models import ChatResponse, ExecutionConfig, GenerateOptions
from agentscope_rx.service import AgentHost
from agentscope_rx.testing import ScriptedModel, call
from tests.service.ag_ui.endpoint import PICK, kinds, of, said, talking


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sun in {city}."


def friday(*script: Any, **options: Any) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), **options)


def test_an_answer() -> None:
    with talking(friday("Hello, Ann.")) as client:
        events = client.say("I am Ann.")
    assert kinds(events) == [
        "RUN_STARTED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert events[0]["protocolVersion"] == "1.0"
    assert events[-1]["outcome"] == {"type": "success"}
    assert [message["content"] for message in client.messages] == ["I am Ann.", "Hello, Ann."]


def test_thinking_is_a_reasoning_message() -> None:
    with talking(friday([ThinkingBlock("Hm."), TextBlock("Yes.")])) as client:
        events = client.say("?")
    thought = [event for event in events if event["type"].startswith("REASONING")]
    assert kinds(thought) == [
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
    ]
    assert thought[2]["delta"] == "Hm."
    assert said(events) == "Yes."


def test_a_call_with_its_result() -> None:
    agent = friday([TextBlock("Let me look."), call("weather", city="Rome")], "It is sunny.", tools=[weather])
    with talking(agent) as client:
        events = client.say("Rome?")
    [start], [result] = of(events, "TOOL_CALL_START"), of(events, "TOOL_CALL_RESULT")
    assert start["toolCallName"] == "weather"
    assert json.loads(client.call(start["toolCallId"])["function"]["arguments"]) == {"city": "Rome"}
    assert (result["toolCallId"], result["content"]) == (start["toolCallId"], "Sun in Rome.")
    # the call belongs to the message that was said with it
    assert [message["role"] for message in client.messages] == ["user", "assistant", "tool", "assistant"]
    assert events[-1]["outcome"] == {"type": "success"}


def test_a_call_without_arguments_has_an_object() -> None:
    @tool
    def now() -> str:
        """The time."""
        return "noon"

    with talking(friday(call("now"), "Noon.", tools=[now])) as client:
        events = client.say("?")
    assert "".join(event["delta"] for event in of(events, "TOOL_CALL_ARGS")) == "{}"


def test_a_result_with_an_image() -> None:
    @tool
    def draw() -> list[TextBlock | ImageBlock]:
        """Draw."""
        return [TextBlock("here"), ImageBlock(Base64Source("image/png", "aGk="))]

    with talking(friday(call("draw"), "Done.", tools=[draw])) as client:
        events = client.say("?")
    [result] = of(events, "TOOL_CALL_RESULT")
    source = {"type": "data", "value": "aGk=", "mimeType": "image/png"}
    assert result["content"] == [{"type": "text", "text": "here"}, {"type": "image", "source": source}]


def test_a_failed_call_says_so() -> None:
    @tool
    def boom() -> str:
        """Fail."""
        raise ValueError("broken")

    with talking(friday(call("boom"), "Sorry.", tools=[boom])) as client:
        events = client.say("?")
    [result] = of(events, "TOOL_CALL_RESULT")
    assert "broken" in result["content"]
    assert result["metadata"] == {"error": "failed"}


def test_usage_is_that_of_the_whole_run() -> None:
    first = ChatResponse((call("weather", city="Rome"),), usage=ChatUsage(10, 2))
    last = ChatResponse((TextBlock("Sun."),), usage=ChatUsage(20, 3, cached_tokens=5, reasoning_tokens=1))
    with talking(friday(first, last, tools=[weather])) as client:
        [usage] = client.say("?")[-1]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (30, 5, 35)
    assert (usage["cachedInputTokens"], usage["reasoningTokens"]) == (5, 1)


def test_agents_by_name() -> None:
    host = AgentHost({"a": friday("from a"), "b/c": friday("from b")})
    with talking(host) as client:
        assert said(client.say("hi", "/ag-ui/a")) == "from a"
        assert said(client.say("hi", "/ag-ui/b/c")) == "from b"
        for path, words in (("/ag-ui", "names no agent"), ("/ag-ui/x", "There is no agent 'x'")):
            response = client.post(client.body(), path)
            assert response.status_code == 404
            assert words in response.json()["error"]["message"]


def test_an_error_ends_the_run() -> None:
    with talking(friday(["Hel", ValueError("inside")])) as client:
        events = client.say("?")
    assert kinds(events)[-1] == "RUN_ERROR"
    assert said(events) == "Hel"
    assert "inside" not in json.dumps(events)


def test_an_error_of_the_model_hides_its_words() -> None:
    with talking(friday(RateLimitError("secret-account is over", status=429))) as client:
        events = client.say("?")
    assert (kinds(events)[-1], events[-1]["code"]) == ("RUN_ERROR", "RateLimitError")
    assert "secret" not in json.dumps(events)


def test_a_limit_cancels_the_run() -> None:
    agent = friday(call("weather", city="Rome"), "So far: sun.", tools=[weather], max_iters=1)
    with talking(agent) as client:
        events = client.say("?")
    assert events[-1]["outcome"] == {"type": "cancelled"}
    assert said(events) == "So far: sun."


@pytest.mark.parametrize("name", ["weather", "pick"])
def test_a_clients_tool_with_a_bad_name_is_refused(name: str) -> None:
    tools = [{**PICK, "name": name}, PICK]
    with talking(friday(tools=[weather])) as client:
        response = client.post(client.body("?", tools=tools))
        assert response.status_code == 422
        assert response.json()["error"]["type"] == "InvalidInputError"


def test_a_discarded_attempt_is_taken_back() -> None:
    again = GenerateOptions(
        execution_config=ExecutionConfig(max_attempts=2, initial_backoff=0.001, after_content="restart")
    )
    model = ScriptedModel(["Hel", RateLimitError("later", status=429)], "Hello.")
    with talking(ReActAgent("friday", model, generate_options=again)) as client:
        events = client.say("?")
    assert kinds(events)[-1] == "RUN_FINISHED"
    assert [message["content"] for message in client.messages] == ["?", "Hello."]
