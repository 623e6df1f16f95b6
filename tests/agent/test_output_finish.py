"""`finish="tool"`: the model answers by a tool, and plain text counts as its call (AgentScope Python up to 1.0.7)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from agentscope_rx import GenerateReason, StructuredOutput, fold, tool
from agentscope_rx.agent.structured_output.finish import FinishShape
from agentscope_rx.errors import ConfigurationError, StructuredOutputError
from agentscope_rx.events import MemoryEvent, OutputChunkEvent
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel, call
from agentscope_rx.tools import InvalidArgumentsError
from tests.agent.parts import agent, assert_whole, events_of, remembered, types


class Weather(BaseModel):
    city: str
    degrees: int = 20


class Answer(BaseModel):
    response: int


def finishing(*turns, **options):
    return agent(ScriptedModel(*turns), finish="tool", **options)


def test_the_finish_tool_is_always_offered_and_ends_the_run():
    """python-agentscope.md §1.7."""
    friday = finishing([call("weather", city="Rome")], ["So. ", call("generate_response", response="It is sunny.")])
    events = run_virtual(events_of(friday, "Weather?"))
    reply = fold(events).message
    assert reply is not None
    assert reply.text == "It is sunny."
    assert reply.generate_reason is GenerateReason.MODEL_STOP
    assert not reply.has_structured
    assert list(remembered(friday)) == list(fold(events).history)
    assert [message.role for message in remembered(friday)] == ["user", "assistant", "tool", "assistant"]
    assert all(request.tools[-1].name == "generate_response" for request in friday.model.requests)  # pyright: ignore
    assert [event.type for event in events if isinstance(event, (MemoryEvent, OutputChunkEvent))] == ["memory"]


def test_plain_text_counts_as_its_call():
    friday = finishing("It is sunny.")
    events = run_virtual(events_of(friday, "Weather?"))
    assert "pre_acting" not in types(events)
    assert remembered(friday)[-1].text == "It is sunny."
    assert remembered(friday)[-1].generate_reason is GenerateReason.MODEL_STOP


def test_it_takes_an_output_beside_the_words():
    friday = finishing(
        "Sunny.",
        call("generate_response", response="Sunny in Rome.", city=3),
        call("generate_response", response="Sunny in Rome.", city="Rome"),
    )
    reply = run_virtual(friday.call("Weather?", output=Weather))
    assert reply.text == "Sunny in Rome."
    assert reply.structured() == {"city": "Rome"}
    assert reply.structured(Weather) == Weather(city="Rome")
    assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
    assert_whole(friday)
    requests = friday.model.requests  # pyright: ignore
    assert requests[1].options.tool_choice.tool == "generate_response"


def test_text_is_enough_where_nothing_else_is_required():
    class Loose(BaseModel):
        mood: str | None = None

    reply = run_virtual(finishing("Fine.").call("How are you?", output=Loose))
    assert reply.text == "Fine."
    assert reply.structured(Loose) == Loose()


def test_a_wrong_call_is_an_error_that_the_model_sees():
    friday = finishing(call("generate_response"), call("generate_response", response="There."))
    assert run_virtual(friday.call("?")).text == "There."
    told = friday.model.requests[1].messages[-1]  # pyright: ignore
    assert "response: is required and was not given" in told.tool_results[0].text
    assert len(remembered(friday)) == 2


def test_what_is_asked_for_fails_as_ever():
    with pytest.raises(StructuredOutputError):
        run_virtual(finishing(*["Sunny."] * 2).call("?", output=StructuredOutput(Weather, max_retries=1)))


def test_rounds_that_are_used_up_end_in_a_summary():
    friday = finishing(call("weather", city="Rome"), "In short.", max_iters=1)
    assert run_virtual(friday.call("?")).generate_reason is GenerateReason.MAX_ITERATIONS


def test_what_cannot_be():
    with pytest.raises(ConfigurationError, match="finish must be"):
        agent(ScriptedModel(), finish="never")
    with pytest.raises(ConfigurationError, match="gives the output by a tool"):
        finishing().call("?", output=StructuredOutput(Weather, mode="prompted"))

    @tool
    async def generate_response(x: int) -> int:
        """A user's own."""
        return x

    with pytest.raises(ConfigurationError, match="named 'generate_response'"):
        finishing(tools=[generate_response])


@pytest.mark.parametrize(
    ("asked", "fields", "given", "value"),
    [
        (None, ["response"], {"response": "hi"}, None),
        (Weather, ["response", "city", "degrees"], {"response": "hi", "city": "Rome"}, {"city": "Rome"}),
        (list[int], ["response", "output"], {"response": "hi", "output": [1]}, [1]),
        (Answer, ["response", "output"], {"response": "hi", "output": {"response": 3}}, {"response": 3}),
        ({"type": "integer"}, ["response", "output"], {"response": "hi", "output": 3}, 3),
        (dict[str, int], ["response"], {"response": "hi", "a": 3}, {"a": 3}),
    ],
)
def test_the_shape(asked: object, fields: list[str], given: dict[str, object], value: object):
    shape = FinishShape(asked)
    assert list(shape.properties) == fields
    read = shape.read(given, "x")
    assert (shape.value(read), shape.text(read)) == (value, "hi")
    with pytest.raises(InvalidArgumentsError, match="response: must be of type string; given 3"):
        shape.read({**given, "response": 3}, "x")
