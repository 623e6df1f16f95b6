"""A forced choice of tools: it holds until the model has met it, unless it is to be repeated."""

from __future__ import annotations

import pytest

from agentscope_rx import GenerateOptions, GenerateReason, hook
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreReasoningEvent
from agentscope_rx.models import ToolChoice
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent

REQUIRED, WEATHER, AUTO = ToolChoice("required"), ToolChoice.specific("weather"), ToolChoice("auto")
ROME = call("weather", city="Rome")


def choices(model: ScriptedModel) -> list[ToolChoice | None]:
    return [request.options.tool_choice for request in model.requests]


@pytest.mark.parametrize("choice", [REQUIRED, WEATHER])
def test_it_is_over_once_it_is_met(choice: ToolChoice) -> None:
    model = ScriptedModel(ROME, call("count", upto=1), "fine", ROME, "again")
    friday = agent(model, generate_options=GenerateOptions(tool_choice=choice, temperature=0.5))
    assert run_virtual(friday.call("hi")).text == "fine"
    assert choices(model) == [choice, None, None]
    assert {request.options.temperature for request in model.requests} == {0.5}
    assert run_virtual(friday.call("hi again")).text == "again"
    assert choices(model)[3:] == [choice, None], "each call of the agent begins with it"


def test_it_holds_while_another_tool_is_called() -> None:
    model = ScriptedModel(call("count", upto=1), ROME, "fine")
    run_virtual(agent(model, generate_options=GenerateOptions(tool_choice=WEATHER)).call("hi"))
    assert choices(model) == [WEATHER, WEATHER, None]


def test_it_is_over_where_the_model_s_own_options_force_it() -> None:
    model = ScriptedModel(ROME, "fine", ROME, "in short")
    model.options = GenerateOptions(tool_choice=REQUIRED)
    assert run_virtual(agent(model).call("hi")).text == "fine"
    assert choices(model) == [REQUIRED, AUTO]
    reply = run_virtual(agent(model, max_iters=1).call("hi"))
    assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.MAX_ITERATIONS)
    assert choices(model)[2:] == [REQUIRED, AUTO]


def test_it_is_repeated_if_asked_for() -> None:
    model = ScriptedModel(ROME, ROME, "in short")
    friday = agent(model, generate_options=GenerateOptions(tool_choice=REQUIRED), repeat_tool_choice=True, max_iters=2)
    assert run_virtual(friday.call("hi")).generate_reason is GenerateReason.MAX_ITERATIONS
    assert choices(model) == [REQUIRED, REQUIRED, None]


def test_what_a_hook_forces_is_the_hook_s_to_end() -> None:
    @hook(PreReasoningEvent)
    def force(event: PreReasoningEvent) -> PreReasoningEvent:
        return event.replace(options=GenerateOptions(tool_choice=REQUIRED if event.iteration < 2 else None))

    model = ScriptedModel(ROME, ROME, "fine")
    run_virtual(agent(model, hooks=[force]).call("hi"))
    assert choices(model) == [REQUIRED, REQUIRED, None]


def test_it_is_a_bool() -> None:
    with pytest.raises(ConfigurationError, match="repeat_tool_choice"):
        agent(ScriptedModel(), repeat_tool_choice="yes")
