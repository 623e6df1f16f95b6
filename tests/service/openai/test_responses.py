"""`POST /v1/responses` with OpenAI's own client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.errors import ContextOverflowError
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models import ChatResponse
from agentscope_rx.service import AgentHost
from agentscope_rx.testing import ScriptedModel, call
from tests.service.openai.endpoint import FLAT, asking


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"Sun in {city}."


def friday(*script: Any, **options: Any) -> ReActAgent:
    return ReActAgent("friday", ScriptedModel(*script), **options)


def sent(model: ScriptedModel, request: int) -> list[tuple[str, str]]:
    return [(message.role.value, message.text) for message in model.requests[request].messages]


def test_a_whole_response() -> None:
    usage = ChatUsage(10, 2, cached_tokens=4, reasoning_tokens=1)
    answer = ChatResponse((ThinkingBlock("Hm."), TextBlock("Hello.")), usage=usage)
    with asking(friday(answer)) as client:
        made = client.responses.create(model="friday", input="hi")
    assert (made.output_text, made.status, made.model) == ("Hello.", "completed", "friday")
    assert [item.type for item in made.output] == ["reasoning", "message"]
    assert made.usage is not None
    assert (made.usage.input_tokens, made.usage.output_tokens, made.usage.total_tokens) == (10, 2, 12)
    assert made.usage.input_tokens_details.cached_tokens == 4
    assert made.usage.output_tokens_details.reasoning_tokens == 1


def test_a_stream_ends_as_the_whole_response() -> None:
    agent = friday(
        [ThinkingBlock("Hm."), TextBlock("Let me look."), call("weather", city="Rome")], "Sun.", tools=[weather]
    )
    with asking(agent) as client, client.responses.stream(model="friday", input="Rome?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "Let me look.\n\nSun."
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert deltas == final.output_text


def test_each_response_continues_the_one_that_it_names() -> None:
    model = ScriptedModel("Hi Ann.", "You are Ann.", "You are Ann, I think.")
    with asking(ReActAgent("friday", model)) as client:
        first = client.responses.create(model="friday", input="I am Ann.")
        for _ in range(2):
            # twice after the same one: neither sees the other
            made = client.responses.create(model="friday", input="Who am I?", previous_response_id=first.id)
            assert made.previous_response_id == first.id
    history = [("user", "I am Ann."), ("assistant", "Hi Ann."), ("user", "Who am I?")]
    assert sent(model, 1) == sent(model, 2) == history


def test_instructions_are_for_one_response() -> None:
    model = ScriptedModel("one", "two")
    with asking(ReActAgent("friday", model)) as client:
        first = client.responses.create(model="friday", input="1", instructions="Be short.")
        client.responses.create(model="friday", input="2", previous_response_id=first.id)
    assert ("system", "Be short.") in sent(model, 0)
    assert sent(model, 1) == [("user", "1"), ("assistant", "one"), ("user", "2")]


@pytest.mark.parametrize("stream", [False, True])
def test_a_clients_tool_is_answered_by_its_next_request(stream: bool) -> None:
    model = ScriptedModel([call("weather", city="Rome"), call("pick", floor=2)], "Room 7.")
    with asking(ReActAgent("friday", model, tools=[weather])) as client:
        if stream:
            with client.responses.stream(model="friday", input="A room.", tools=[FLAT]) as events:  # type: ignore[list-item]
                made: Any = events.get_final_response()
        else:
            made = client.responses.create(model="friday", input="A room.", tools=[FLAT])  # type: ignore[list-item]
        [asked] = made.output
        assert (asked.type, asked.name, json.loads(asked.arguments)) == ("function_call", "pick", {"floor": 2})
        result: Any = {"type": "function_call_output", "call_id": asked.call_id, "output": "7"}
        made = client.responses.create(
            model="friday",
            input=[result],
            previous_response_id=made.id,
            tools=[FLAT],  # type: ignore[list-item]
        )
    assert made.output_text == "Room 7."
    results = [result.text for message in model.requests[1].messages for result in message.tool_results]
    assert results == ["Sun in Rome.", "7"]


def test_a_conversation_in_the_request() -> None:
    model = ScriptedModel("Room 7.")
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "A room."}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "pick", "arguments": '{"floor": 2}'},
        {"type": "function_call_output", "call_id": "c1", "output": "7"},
    ]
    with asking(ReActAgent("friday", model)) as client:
        made = client.responses.create(model="friday", input=items, store=False)
        assert made.output_text == "Room 7."
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="friday", input="?", previous_response_id=made.id)
    assert [result.text for message in model.requests[0].messages for result in message.tool_results] == ["7"]


def test_an_output_with_a_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    text: Any = {"format": {"type": "json_schema", "name": "number", "schema": schema}}
    with asking(friday(call("generate_response", n=3))) as client:
        made = client.responses.create(model="friday", input="?", text=text)
    assert json.loads(made.output_text) == {"n": 3}


def test_a_run_at_its_limit_is_incomplete() -> None:
    agent = friday(call("weather", city="Rome"), "So far: sun.", tools=[weather], max_iters=1)
    with asking(agent) as client:
        made = client.responses.create(model="friday", input="?")
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"


def test_a_failed_run_before_and_after_its_first_text() -> None:
    with asking(friday(ContextOverflowError("too long", status=400))) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            client.responses.create(model="friday", input="?", stream=True)
        assert refused.value.code == "context_length_exceeded"
    with asking(friday(["Hel", ValueError("inside")])) as client:
        kinds: list[str] = []
        stream = client.responses.create(model="friday", input="?", stream=True)
        with pytest.raises(openai.APIError, match="The service failed"):
            kinds.extend(event.type for event in stream)
        assert kinds[-1] == "response.failed"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_cannot_answer_in_a_persons_place(stream: bool) -> None:
    @tool(requires_approval=True)
    def wipe() -> str:
        """Wipe."""
        raise AssertionError

    agent = friday([TextBlock("Now."), call("wipe")], "Wiped.", tools=[wipe])
    with asking(agent) as client:
        ids: list[str] = []

        def ask() -> None:
            made: Any = client.responses.create(model="friday", input="?", stream=stream)
            ids.extend(event.response.id for event in made if event.type == "response.created")

        with pytest.raises(openai.APIError, match="a person's answer"):
            ask()
        assert len(ids) == stream
        for id in ids:
            with pytest.raises(openai.NotFoundError):
                client.responses.create(model="friday", input="?", previous_response_id=id)


def test_a_deleted_response_cannot_be_continued() -> None:
    with asking(friday("one", "two")) as client:
        made = client.responses.create(model="friday", input="1")
        client.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError) as missing:
            client.responses.create(model="friday", input="2", previous_response_id=made.id)
        assert missing.value.code == "previous_response_not_found"
        with pytest.raises(openai.NotFoundError):
            client.responses.delete(made.id)


def test_kept_responses_are_bounded() -> None:
    with asking(friday(*["ok"] * 4), max_stored=2) as client:
        ids = [client.responses.create(model="friday", input="1").id for _ in range(3)]
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="friday", input="2", previous_response_id=ids[0])
        client.responses.create(model="friday", input="2", previous_response_id=ids[2])


def test_another_process_continues_a_stored_response(tmp_path: Path) -> None:
    model = ScriptedModel("Hi Ann.", "Ann.")
    with asking(AgentHost(ReActAgent("friday", model), sessions=tmp_path)) as client:
        first = client.responses.create(model="friday", input="I am Ann.")
    with asking(AgentHost(ReActAgent("friday", model), sessions=tmp_path)) as client:
        client.responses.create(model="friday", input="Who am I?", previous_response_id=first.id)
    assert sent(model, 1) == [("user", "I am Ann."), ("assistant", "Hi Ann."), ("user", "Who am I?")]


def test_a_response_of_another_user_is_unknown() -> None:
    host = AgentHost(friday("one", "two"), user_of=lambda request: request.headers["x-user"])
    with asking(host) as client:
        ann: Any = {"x-user": "ann"}
        made = client.responses.create(model="friday", input="1", extra_headers=ann)
        with pytest.raises(openai.NotFoundError):
            client.responses.create(
                model="friday", input="2", previous_response_id=made.id, extra_headers={"x-user": "bob"}
            )
        client.responses.create(model="friday", input="2", previous_response_id=made.id, extra_headers=ann)


@pytest.mark.parametrize(
    "body",
    [
        {"input": [{"type": "web_search_call"}]},
        {"input": [{"role": "user", "content": [{"type": "video"}]}]},
        {"input": []},
        {"input": [{"role": "assistant", "content": "hi"}]},
        {"text": {"format": "json"}},
        {"text": {"format": {"type": "xml"}}},
        {"conversation": "c"},
        {"background": True},
        {"input": [{"type": "function_call_output", "call_id": "x", "output": "7"}]},
    ],
)
def test_bad_requests_have_openais_form(body: dict[str, Any]) -> None:
    with asking(friday()) as client, pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(**{"model": "friday", "input": "hi", **body})
    assert raised.value.type == "invalid_request_error"
