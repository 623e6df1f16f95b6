"""A `Hook` class with a method for each kind of event, in place of `on_event`."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event, PostReasoningEvent, PreActingEvent, PreReasoningEvent, PreSummaryEvent
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of, remembered


class Careful(Hook):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_pre_acting(self, event: PreActingEvent):
        return event.replace(tool_use=event.tool_use.with_input({"city": "Oslo"}))

    async def on_post_reasoning(self, event: PostReasoningEvent):
        await asyncio.sleep(1)
        self.seen.append(event.message.text)

    def on_pre_reasoning(self, event: PreReasoningEvent):
        self.seen.append(event.type)


def test_each_event_goes_to_its_method_and_answers_count():
    careful = Careful()
    friday = agent(ScriptedModel(call("weather", city="Rome"), "done"), hooks=[careful], max_iters=2)
    run_virtual(events_of(friday, "hi"))
    assert remembered(friday)[2].tool_results[0].text == "Sunny in Oslo"
    assert careful.seen == ["pre_reasoning", "", "pre_reasoning", "done"]


def test_a_summary_is_for_its_own_method():
    class Last(Careful):
        def on_pre_summary(self, event: PreSummaryEvent):
            self.seen.append("last")

    for hook, seen in ((Careful(), ["pre_reasoning", ""]), (Last(), ["pre_reasoning", "", "last"])):
        friday = agent(ScriptedModel(call("weather", city="Rome"), "done"), hooks=[hook], max_iters=1)
        run_virtual(events_of(friday, "hi"))
        assert hook.seen == seen


def test_it_looks_at_its_kinds_alone_unless_it_says_others():
    assert set(Careful.kinds or ()) == {PreActingEvent, PostReasoningEvent, PreReasoningEvent}
    assert agent(ScriptedModel(), hooks=[Careful()]).hooks.seen == {*(Careful.kinds or ()), PreSummaryEvent}

    class Fewer(Careful):
        kinds = (PreActingEvent,)

    class Own(Hook):
        def on_event(self, event: Event):
            return super().on_event(event)

        def on_pre_acting(self, event: PreActingEvent):
            return None

    assert Fewer.kinds == (PreActingEvent,) and Own.kinds is None and Hook.kinds is None


@pytest.mark.parametrize("kind", kinds_of_events())
def test_there_is_a_method_for_every_kind(kind: type[Event]):
    made = type("One", (Hook,), {f"on_{kind.type}": lambda self, event: event.replace(seq=7)})
    assert made.kinds == (kind,)
    answer = made().on_event(kind())
    assert isinstance(answer, kind) and answer.seq == 7


def test_a_misspelled_method_is_refused_and_others_are_ignored():
    with pytest.raises(ConfigurationError, match=r"Wrong\.on_pre_actng .* mean on_pre_acting"):
        type("Wrong", (Hook,), {"on_pre_actng": lambda self, event: None})
    assert type("Fine", (Hook,), {"on_shutdown": lambda self: None}).kinds is None
