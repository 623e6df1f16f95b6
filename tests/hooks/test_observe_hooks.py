"""Hooks around `agent.observe()`: PreObserveEvent and PostObserveEvent."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook, Msg, MsgRole, ReActAgent, hook
from agentscope_rx.errors import HookError
from agentscope_rx.events import Event, PostObserveEvent, PreObserveEvent
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, remembered


def texts(friday: ReActAgent) -> list[str]:
    return [message.text for message in remembered(friday)]


def test_methods_are_called_around_observe():
    seen: list[tuple[str, list[str], list[str]]] = []

    class Listening(ReActAgent):
        def pre_observe(self, event: PreObserveEvent):
            seen.append((event.type, [each.text for each in event.input], texts(self)))

        async def post_observe(self, event: PostObserveEvent):
            await asyncio.sleep(1)
            seen.append((event.type, [each.text for each in event.input], texts(self)))

    friday = Listening("Friday", ScriptedModel())
    assert run_virtual(friday.observe([Msg.assistant("Hello", "Bob"), Msg.user("Hi")])) is None
    assert seen == [("pre_observe", ["Hello", "Hi"], []), ("post_observe", ["Hello", "Hi"], ["Hello", "Hi"])]
    assert [message.role for message in remembered(friday)] == [MsgRole.USER, MsgRole.USER]


def test_a_hook_changes_the_messages_and_may_remove_them_all():
    after: list[Event] = []

    @hook(PreObserveEvent)
    async def redact(event: PreObserveEvent):
        kept = tuple(message for message in event.input if "secret" not in message.text)
        return event.replace(input=kept)

    friday = agent(ScriptedModel(), hooks=[redact, hook(PostObserveEvent)(after.append)])
    run_virtual(friday.observe([Msg.user("a"), Msg.user("a secret")]))
    run_virtual(friday.observe("secret"))
    assert texts(friday) == ["a"]
    assert [(event.agent, event.run_id, len(event.input)) for event in after] == [  # pyright: ignore
        ("Friday", "", 1),
        ("Friday", "", 0),
    ]


def test_what_a_hook_puts_in_is_heard_as_any_peer():
    @hook(PreObserveEvent)
    def add(event: PreObserveEvent):
        return event.replace(input=(*event.input, Msg.assistant([call("weather", city="Rome")], "Bob")))

    friday = agent(ScriptedModel("fine"), hooks=[add])
    run_virtual(friday.observe("Hello"))
    assert texts(friday) == ["Hello", "(Bob waits for weather.)"]
    assert friday.call("and?").run().text == "fine"


def test_a_failing_pre_hook_refuses_and_a_post_hook_is_reported():
    def fail(event: Event):
        raise ZeroDivisionError(event.type)

    friday = agent(ScriptedModel(), hooks=[hook(PreObserveEvent)(fail)])
    with pytest.raises(ZeroDivisionError, match="pre_observe"):
        run_virtual(friday.observe("a"))
    assert texts(friday) == []

    friday = agent(ScriptedModel(), hooks=[hook(PostObserveEvent)(fail)])
    with collect_dropped() as dropped:
        run_virtual(friday.observe("a"))
    assert texts(friday) == ["a"] and [str(error) for error in dropped] == ["post_observe"]


@pytest.mark.parametrize("messages", [("text",), (Msg.system("x"),)])
def test_what_cannot_be_remembered_is_a_hook_error(messages):
    friday = agent(ScriptedModel(), hooks=[hook(PreObserveEvent)(lambda event: event.replace(input=messages))])
    with pytest.raises(HookError, match="input"):
        run_virtual(friday.observe("a"))
    assert texts(friday) == []


def test_a_hook_on_every_event_of_a_run_is_not_asked():
    class All(Hook):
        def on_event(self, event: Event):
            raise AssertionError(event)

    friday = agent(ScriptedModel(), hooks=[All()])
    run_virtual(friday.observe("a"))
    assert texts(friday) == ["a"]
