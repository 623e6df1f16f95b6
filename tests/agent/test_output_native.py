"""The native mode against a real server on loopback that speaks Chat Completions: what goes over the wire and back."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel

from agentscope_rx import ReActAgent, fold
from agentscope_rx.events import OutputChunkEvent
from agentscope_rx.models import OpenAIChatModel
from tests.agent.parts import events_of, remembered, weather
from tests.support.openai_server import OpenAIServer, chunk


class Day(BaseModel):
    name: str
    degrees: float | None = None


class Forecast(BaseModel):
    days: list[Day]
    mood: Literal["good", "bad"] = "good"


@dataclass
class Point:
    x: int
    y: int = 0


class Told(OpenAIServer):
    """Answers with these texts, in pieces of five letters, one after the other."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self._texts = iter(texts)

    async def _answer(self, body, reader):
        text = next(self._texts)
        for start in range(0, len(text), 5):
            yield chunk(content=text[start : start + 5])
        yield chunk(finish_reason="stop")
        yield json.dumps({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
        yield "[DONE]"


def friday(server: OpenAIServer, **options: object) -> ReActAgent:
    model = OpenAIChatModel("test", base_url=server.base_url, api_key="k", native_output=True)
    return ReActAgent("Friday", model, "You are Friday.", tools=[weather], **options)  # pyright: ignore


def test_a_strict_schema_goes_out_and_a_typed_value_comes_back():
    answer = '{"days": [{"name": "Monday", "degrees": null}, {"name": "Tuesday", "degrees": 4}], "mood": null}'
    with Told(answer) as server:
        agent = friday(server)
        events = asyncio.run(events_of(agent, "Weather?", output=Forecast))
    reply = fold(events).message
    assert reply is not None
    assert reply.structured(Forecast) == Forecast(days=[Day(name="Monday"), Day(name="Tuesday", degrees=4)])
    assert reply.structured() == {"days": [{"name": "Monday", "degrees": None}, {"name": "Tuesday", "degrees": 4}]}
    assert reply == remembered(agent)[-1]
    sent = server.requests[0]["response_format"]["json_schema"]  # pyright: ignore
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["days", "mood"]
    assert sent["schema"]["$defs"]["Day"]["additionalProperties"] is False
    assert [each["function"]["name"] for each in server.requests[0]["tools"]] == ["weather"]  # pyright: ignore
    values = [event.value for event in events if isinstance(event, OutputChunkEvent)]
    assert values[-1] == json.loads(answer)
    assert {"days": [{"name": "Monda"}]} in values


def test_an_invalid_answer_is_sent_back():
    with Told('{"x": "one"}', '{"x": 1}') as server:
        agent = friday(server)
        reply = agent.call("Where?", output=Point).run()
    assert reply.structured(Point) == Point(1)
    assert reply.usage is not None
    assert reply.usage.input_tokens == 22
    hint = server.requests[1]["messages"][-1]  # pyright: ignore
    assert hint["role"] == "user"
    assert 'x: Input should be a valid integer; given "one"' in hint["content"]
    assert len(remembered(agent)) == 2


@pytest.mark.parametrize(
    ("asked", "answer", "value", "strict"),
    [
        (int, {"response": 3}, 3, True),
        (list[Point], {"response": [{"x": 1, "y": None}]}, [Point(1)], True),
        (Point | str, {"response": "nowhere"}, "nowhere", True),
        (str | None, {"response": None}, None, True),
        (dict[str, int], {"a": 1}, {"a": 1}, False),
        (Literal["yes", "no"], {"response": "no"}, "no", True),
    ],
)
def test_values_of_every_kind(asked: object, answer: object, value: object, strict: bool):
    with Told(json.dumps(answer)) as server:
        reply = friday(server).call("?", output=asked).run()
    assert reply.structured(asked) == value
    assert server.requests[0]["response_format"]["json_schema"]["strict"] is strict  # pyright: ignore


def test_only_openai_itself_is_taken_to_have_a_native_mode():
    ours = OpenAIChatModel("m", base_url="http://127.0.0.1:1/v1", api_key="k")
    theirs = OpenAIChatModel("m", base_url="https://api.openai.com/v1", api_key="k")
    without = OpenAIChatModel("m", base_url="https://api.openai.com/v1", api_key="k", native_output=False)
    assert ["native" in model.output_modes for model in (ours, theirs, without)] == [False, True, False]
