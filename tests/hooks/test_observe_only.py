"""Observers: they see what passes, change nothing, and what they raise does not fail the run."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, hook
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.hooks import DROP, hook_operator
from agentscope_rx.reactive import just, never, throw
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered, types

KINDS = [
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    PostReasoningEvent,
    PreActingEvent,
    PostActingEvent,
    PostCallEvent,
]


def model() -> ScriptedModel:
    return ScriptedModel(call("weather", city="Rome"), ["It is ", "sunny."])


def said(*hooks: Hook) -> tuple[list[str], list[str]]:
    """The kinds of events of a run with these hooks, and what is remembered."""
    friday = agent(model(), hooks=hooks)
    events = run_virtual(events_of(friday, "hi"))
    assert_whole(friday)
    return types(events), [message.text for message in remembered(friday)]


def raised(event: Event):
    raise ZeroDivisionError("in the observer")


async def raised_later(event: Event):
    await asyncio.sleep(1)
    raise ZeroDivisionError("later")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("broken", [raised, raised_later, lambda event: throw(ZeroDivisionError("flow"))])
def test_an_observers_exception_does_not_fail_the_run(kind, broken):
    seen: list[Event] = []
    after = hook(kind, priority=200)(seen.append)
    with collect_dropped() as dropped:
        assert said(hook(kind, observe=True)(broken), after) == said()
    assert seen
    assert [type(error) for error in dropped] == [ZeroDivisionError] * len(seen)
    assert all(f"on {kind.__name__} of agent Friday" in where for where in dropped.where)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "answer",
    [
        lambda event: DROP,
        lambda event: 42,
        lambda event: PostCallEvent(),
        lambda event: just(event, event),
        lambda event: just(DROP),
        lambda event: getattr(event, "stop", lambda: None)(),
    ],
)
def test_what_an_observer_answers_is_not_looked_at(kind, answer):
    assert said(hook(kind, observe=True)(answer)) == said()


def test_an_observer_sees_the_changes_of_hooks_before_it():
    seen: list[str] = []

    @hook(PreActingEvent, priority=10)
    def change(event: PreActingEvent):
        return event.replace(tool_use=event.tool_use.with_input({"city": "Oslo"}))

    note = hook(PreActingEvent, observe=True)(lambda event: seen.append(event.tool_use.input["city"]))
    early = hook(PreActingEvent, observe=True, priority=1)(lambda event: seen.append(event.tool_use.input["city"]))
    said(note, change, early)
    assert seen == ["Rome", "Oslo"]


def test_the_run_waits_for_an_observer_and_disposal_ends_it():
    order: list[str] = []

    async def slow(event: Event):
        await asyncio.sleep(5)
        order.append(event.type)

    async def main() -> None:
        friday = agent(model(), hooks=[hook(PreCallEvent, observe=True)(slow)])
        order.extend(types(await events_of(friday, "hi"))[:1])
        assert order == ["pre_call", "pre_call"]
        waiting = agent(model(), hooks=[hook(PreCallEvent, observe=True)(lambda event: never())])
        subscription = waiting.stream("hi").subscribe()
        await asyncio.sleep(1)
        subscription.dispose()
        await waiting.idle()
        assert not waiting.running

    run_virtual(main())


def test_a_class_of_hooks_may_be_observe_only():
    class Audit(Hook):
        observe_only = True

        def on_event(self, event: Event):
            raise ZeroDivisionError(event.type)

    with collect_dropped() as dropped:
        assert said(Audit()) == said()
    assert [str(error) for error in dropped] == said()[0]
    assert repr(Audit()).startswith("<observer Audit on every event")


def test_a_method_may_be_an_observer():
    class Watched(ReActAgent):
        @hook(PostReasoningEvent, observe=True)
        def note(self, event: PostReasoningEvent):
            raise ZeroDivisionError(self.name)

    with collect_dropped() as dropped:
        assert Watched("Friday", ScriptedModel("fine")).call("hi").run().text == "fine"
    assert [str(error) for error in dropped] == ["Friday"]


def test_a_base_exception_of_an_observer_still_ends_the_run():
    @hook(PreCallEvent, observe=True)
    def leave(event: Event):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        agent(ScriptedModel("x"), hooks=[leave]).call("hi").run()


def test_an_operator_cannot_be_an_observer():
    operator = hook_operator(ReasoningChunkEvent, ops.take(1))
    operator.observe_only = True
    with pytest.raises(ConfigurationError, match="cannot be observe_only"):
        agent(ScriptedModel("x"), hooks=[operator])
