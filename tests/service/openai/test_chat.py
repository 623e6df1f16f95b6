"""Chat Completions, as OpenAI's own client sees it."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors.model import RateLimitError
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models import ChatResponse
from agentscope_rx.testing import ScriptedModel, call
from tests.service.openai.endpoint import TOOL, asking, user


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sun in {city}."


def friday(*script: Any, **options: Any) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), **options)


def texts(chunks: list[Any]) -> str:
    return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)


def test_a_whole_answer() -> None:
    with asking(friday("Hello, Ann.")) as client:
        made = client.chat.completions.create(model="friday", messages=[user("I am Ann.")])
    [choice] = made.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello, Ann.", "stop")
    assert (made.object, made.model) == ("chat.completion", "friday")


def test_a_stream_has_the_same_text() -> None:
    with asking(friday("Hello, Ann.")) as client:
        chunks = list(client.chat.completions.create(model="friday", messages=[user("hi")], stream=True))
    assert texts(chunks) == "Hello, Ann."
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [each.choices[0].finish_reason for each in chunks][-1] == "stop"
    assert {each.id for each in chunks} == {chunks[0].id}


def test_the_history_is_that_of_the_request() -> None:
    model = ScriptedModel("Ann.")
    history = [{"role": "system", "content": "Be short."}, user("I am Ann."), {"role": "assistant", "content": "Hi."}]
    with asking(ReActAgent("friday", model, sys_prompt="You are Friday.")) as client:
        client.chat.completions.create(model="friday", messages=[*history, user("Who am I?")])  # type: ignore[list-item]
    sent = [(message.role.value, message.text) for message in model.requests[0].messages]
    assert sent == [
        ("system", "You are Friday."),
        ("system", "Be short."),
        ("user", "I am Ann."),
        ("assistant", "Hi."),
        ("user", "Who am I?"),
    ]


def test_own_tools_run_inside() -> None:
    agent = friday([TextBlock("Let me look."), call("weather", city="Rome")], "It is sunny.", tools=[weather])
    with asking(agent) as client:
        made = client.chat.completions.create(model="friday", messages=[user("Rome?")])
    assert made.choices[0].message.tool_calls is None
    assert made.choices[0].message.content == "Let me look.\n\nIt is sunny."


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_is_apart_from_the_answer(stream: bool) -> None:
    with asking(friday([ThinkingBlock("Hm."), TextBlock("Yes.")])) as client:
        made: Any = client.chat.completions.create(model="friday", messages=[user("?")], stream=stream)
        if stream:
            chunks = list(made)
            thought = "".join(getattr(each.choices[0].delta, "reasoning_content", None) or "" for each in chunks)
            said = texts(chunks)
        else:
            thought, said = made.choices[0].message.reasoning_content, made.choices[0].message.content
    assert (thought, said) == ("Hm.", "Yes.")


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_that_of_the_whole_run(stream: bool) -> None:
    first = ChatResponse((call("weather", city="Rome"),), usage=ChatUsage(10, 2))
    last = ChatResponse((TextBlock("Sun."),), usage=ChatUsage(20, 3, cached_tokens=5, reasoning_tokens=1))
    with asking(friday(first, last, tools=[weather])) as client:
        if stream:
            options: Any = {"stream": True, "stream_options": {"include_usage": True}}
            *_, made = list(client.chat.completions.create(model="friday", messages=[user("?")], **options))
            assert made.choices == []
        else:
            made = client.chat.completions.create(model="friday", messages=[user("?")])
    assert (made.usage.prompt_tokens, made.usage.completion_tokens, made.usage.total_tokens) == (30, 5, 35)
    assert made.usage.prompt_tokens_details.cached_tokens == 5
    assert made.usage.completion_tokens_details.reasoning_tokens == 1


def test_a_clients_tool_is_answered_by_its_next_request() -> None:
    model = ScriptedModel([call("weather", city="Rome"), call("pick", floor=2)], "Room 7, in the sun.")
    with asking(ReActAgent("friday", model, tools=[weather])) as client:
        messages: list[Any] = [user("A room.")]
        made = client.chat.completions.create(model="friday", messages=messages, tools=[TOOL])
        [choice] = made.choices
        assert choice.finish_reason == "tool_calls"
        [asked] = choice.message.tool_calls or []
        assert (asked.function.name, json.loads(asked.function.arguments)) == ("pick", {"floor": 2})
        messages += [choice.message, {"role": "tool", "tool_call_id": asked.id, "content": "7"}]
        made = client.chat.completions.create(model="friday", messages=messages, tools=[TOOL])
    assert made.choices[0].message.content == "Room 7, in the sun."
    # the result of the agent's own call was kept
    assert "Sun in Rome." in [result.text for message in model.requests[1].messages for result in message.tool_results]


def test_a_streamed_call_of_a_clients_tool() -> None:
    agent = friday(call("pick", floor=2), "Done.")
    with (
        asking(agent) as client,
        client.chat.completions.stream(model="friday", messages=[user("A room.")], tools=[TOOL]) as stream,
    ):
        final = stream.get_final_completion()
    [asked] = final.choices[0].message.tool_calls or []
    assert json.loads(asked.function.arguments) == {"floor": 2}
    assert final.choices[0].finish_reason == "tool_calls"


def test_results_without_a_kept_conversation() -> None:
    """After a restart the messages of the request are the conversation."""
    model = ScriptedModel("Room 7.")
    asked = {"id": "call_1", "type": "function", "function": {"name": "pick", "arguments": '{"floor": 2}'}}
    messages: list[Any] = [
        user("A room."),
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "call_1", "content": "7"},
    ]
    with asking(ReActAgent("friday", model)) as client:
        made = client.chat.completions.create(model="friday", messages=messages, tools=[TOOL])
    assert made.choices[0].message.content == "Room 7."
    assert [result.text for message in model.requests[0].messages for result in message.tool_results] == ["7"]


def test_parked_conversations_are_bounded() -> None:
    agent = friday(*[call("pick", floor=2)] * 5)
    with asking(agent, max_parked=2) as client:
        for _ in range(5):
            client.chat.completions.create(model="friday", messages=[user("A room.")], tools=[TOOL])


@pytest.mark.parametrize("stream", [False, True])
def test_an_output_with_a_schema(stream: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    format: Any = {"type": "json_schema", "json_schema": {"name": "number", "schema": schema}}
    with asking(friday(call("generate_response", n=3))) as client:
        made: Any = client.chat.completions.create(
            model="friday", messages=[user("?")], response_format=format, stream=stream
        )
        text = texts(list(made)) if stream else made.choices[0].message.content
    assert json.loads(text) == {"n": 3}


def test_the_models_are_the_agents() -> None:
    with asking(friday()) as client:
        assert [each.id for each in client.models.list()] == ["friday"]
        assert client.models.retrieve("friday").id == "friday"
        with pytest.raises(openai.NotFoundError, match="There is no agent 'gpt'"):
            client.models.retrieve("gpt")


def test_an_error_of_the_model_has_a_status() -> None:
    error = RateLimitError("secret-account is over", status=429)
    for stream in (False, True):
        with asking(friday(error)) as client, pytest.raises(openai.RateLimitError) as raised:
            client.chat.completions.create(model="friday", messages=[user("?")], stream=stream)
        assert "secret" not in str(raised.value)


def test_an_error_after_text_is_raised_from_the_stream() -> None:
    with asking(friday(["Hel", ValueError("inside")])) as client:
        stream = client.chat.completions.create(model="friday", messages=[user("?")], stream=True)
        assert next(stream).choices[0].delta.content == "Hel"
        with pytest.raises(openai.APIError, match="The service failed"):
            next(stream)


def test_an_approval_cannot_be_given_here() -> None:
    @tool(requires_approval=True)
    def wipe() -> str:
        """Wipe."""
        raise AssertionError

    agent = friday(call("wipe"), tools=[wipe])
    with asking(agent) as client, pytest.raises(openai.ConflictError) as raised:
        client.chat.completions.create(model="friday", messages=[user("?")])
    assert raised.value.code == "approval_required"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"tool_choice": "required", "tools": [TOOL]}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type"),
    ],
)
def test_what_is_not_here_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with asking(friday()) as client, pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="friday", messages=[user("?")], **body)
    assert (raised.value.param, raised.value.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "robot", "content": "hi"}],
        [{"role": "assistant", "content": "hi"}],
        [{"role": "tool", "tool_call_id": "x", "content": "hi"}],
    ],
)
def test_bad_messages_are_bad_requests(messages: list[Any]) -> None:
    with asking(friday()) as client, pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model="friday", messages=messages)
    assert raised.value.type == "invalid_request_error"


@pytest.mark.parametrize("schema", [{"type": "strin"}, {"type": "array"}, 3])
def test_a_tool_that_no_model_takes_is_a_bad_request(schema: Any) -> None:
    made: Any = {"type": "function", "function": {"name": "pick", "parameters": schema}}
    with asking(friday()) as client, pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(model="friday", messages=[user("?")], tools=[made])


def test_sampling_parameters_are_left_to_the_agent() -> None:
    with asking(friday("ok")) as client:
        made = client.chat.completions.create(
            model="friday", messages=[user("?")], temperature=0.1, max_tokens=5, user="u", seed=1, stop=["x"]
        )
    assert made.choices[0].message.content == "ok"
