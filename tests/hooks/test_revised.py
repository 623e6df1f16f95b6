"""`Hook.revised`: changes of memory at the end of every run, however it has ended."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook, Msg
from agentscope_rx.errors import HookError, ModelConnectionError
from agentscope_rx.events import MemoryEvent
from agentscope_rx.testing import HANG, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, remembered
from tests.hooks.around_parts import watch


class Censor(Hook):
    def __init__(self, old="secret", new="[removed]"):
        self.old, self.new = old, new

    def revised(self, source, history):
        return [m.replace(content=self.new) for m in history if m.text == self.old]


@pytest.mark.parametrize("turn", ["ok", ModelConnectionError("down")])
def test_messages_are_replaced_at_the_end_of_a_run(turn):
    someone = agent(ScriptedModel(turn), hooks=[Censor(), Censor("[removed]", "[twice]")])
    watched = watch(someone, "secret")
    assert remembered(someone)[0].text == "[twice]"
    assert [event.replaced[0].text for event in watched.of(MemoryEvent)] == ["[twice]"]


def test_a_run_that_is_disposed_of_is_revised():
    async def main():
        someone = agent(ScriptedModel([HANG]), hooks=[Censor()])
        subscription = someone.stream("secret").subscribe(lambda event: None)
        await asyncio.sleep(1)
        subscription.dispose()
        await asyncio.sleep(1)
        assert not someone.running
        assert remembered(someone)[0].text == "[removed]"
        assert_whole(someone)

    run_virtual(main())


def test_nothing_to_revise_is_no_event():
    assert watch(agent(ScriptedModel("ok"), hooks=[Censor()]), "hi").of(MemoryEvent) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda m: Msg.user("new"), "memory does not hold"),
        (lambda m: m.replace(content="x"), "must keep the role of a message, its calls"),
    ],
)
def test_calls_cannot_be_lost(change, problem):
    class Bad(Hook):
        def revised(self, source, history):
            return [change(m) for m in history if m.tool_calls]

    someone = agent(ScriptedModel(call("weather", city="x"), "ok"), hooks=[Bad()])
    with collect_dropped():
        watched = watch(someone)
    assert isinstance(watched.error, HookError) and problem in str(watched.error)
