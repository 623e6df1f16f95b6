"""What cannot stand around a flow: refused where it is given, with what to do instead."""

from __future__ import annotations

import pytest
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PostActingEvent, PreReasoningEvent, ReasoningChunkEvent
from agentscope_rx.hooks import around, hook, hook_operator
from agentscope_rx.reactive import Flow, empty
from agentscope_rx.testing import ScriptedModel, call
from tests.agent.parts import agent
from tests.hooks.around_parts import watch


def one_too_many(source, request, other):
    return source


async def later(source):
    return source


@pytest.mark.parametrize(
    ("kind", "operator", "says"),
    [
        ("modle", ops.retry(2), "no kind 'modle'. Did you mean 'model'"),
        ("everything", ops.retry(2), "Choose one of 'call', 'stage'"),
        (3, ops.retry(2), "no kind 3"),
        ("model", 3, "needs an operator, such as ops.retry"),
        ("model", one_too_many, "with the source, or with the source and the request"),
        ("model", lambda: empty(), "with the source"),
        ("model", later, "not an async function"),
    ],
)
def test_what_cannot_stand_around_anything_is_refused(kind, operator, says):
    with pytest.raises(ConfigurationError, match=says):
        around(kind, operator)


def test_a_method_without_its_object_is_refused():
    class Guard:
        @around("model")
        def check(self, source):
            return source

    with pytest.raises(ConfigurationError, match="without its object"):
        agent(ScriptedModel(), hooks=[Guard.check])


def test_a_misspelt_method_is_refused():
    with pytest.raises(ConfigurationError, match="Did you mean around_model"):

        class Wrong(Hook):
            def around_modle(self, source):
                return source

    class Own(ReActAgent):
        def around_acitng(self, source):
            return source

    with pytest.raises(ConfigurationError, match="Did you mean around_acting"):
        Own("Friday", ScriptedModel())


def test_a_method_with_a_wrong_signature_is_refused():
    class Wrong(Hook):
        def around_model(self):
            return empty()

    with pytest.raises(ConfigurationError, match=r"Wrong.around_model is called with the source"):
        agent(ScriptedModel(), hooks=[Wrong()])

    class Number(Hook):
        around_tool = 3

    with pytest.raises(ConfigurationError, match=r"Number.around_tool is the name of a hook"):
        agent(ScriptedModel(), hooks=[Number()])

    class Own(ReActAgent):
        def around_call(self, a, b, c):
            return empty()

    with pytest.raises(ConfigurationError, match=r"Own.around_call is called with the source"):
        Own("Friday", ScriptedModel())


def test_an_observer_cannot_be_an_operator():
    class Watching(Hook):
        observe_only = True

        def around_model(self, source):
            return source

    with pytest.raises(ConfigurationError, match="cannot be observe_only"):
        agent(ScriptedModel(), hooks=[Watching()])


@pytest.mark.parametrize("kind", ["call", "stage", "reasoning", "acting", "model", "tool"])
def test_an_operator_that_cannot_start_fails_what_it_is_around(kind):
    def start(sink, scope):
        raise ValueError("no start")

    model = ScriptedModel(call("weather", city="Rome"), "Sunny.")
    watched = watch(agent(model, hooks=[around(kind, lambda source: Flow(start))]))
    if kind == "tool":
        assert watched.error is None
        assert "no start" in watched.of(PostActingEvent)[0].result.text
    else:
        assert isinstance(watched.error, ValueError)
        assert f"around_{kind}" in watched.error.__notes__[0]


@pytest.mark.parametrize("wrong", ["10", None, float("nan"), True])
def test_a_priority_that_is_no_number_is_refused(wrong):
    class Misplaced(Hook):
        priority = wrong

    says = "needs a number as its priority"
    with pytest.raises(ConfigurationError, match=says):
        around("model", ops.retry(2), wrong)
    with pytest.raises(ConfigurationError, match=says):
        around("model", priority=wrong)
    with pytest.raises(ConfigurationError, match=says):
        hook(PreReasoningEvent, priority=wrong)
    with pytest.raises(ConfigurationError, match=says):
        hook_operator(ReasoningChunkEvent, ops.sample(0.1), priority=wrong)
    with pytest.raises(ConfigurationError, match="Hook Misplaced needs a number"):
        agent(ScriptedModel(), hooks=[Misplaced()])
