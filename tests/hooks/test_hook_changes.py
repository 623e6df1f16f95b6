"""`agent.hooks.add` and `remove`: in force from the next run on, whole for each run, from any thread."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Hook, ReActAgent, hook, tool
from agentscope_rx.errors import ConfigurationError, DuplicateToolError
from agentscope_rx.events import Event, PreCallEvent, PreReasoningEvent
from agentscope_rx.hooks import Hooks
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of, weather


class Noting(Hook):
    def __init__(self, *kinds: type[Event], priority: int = 100) -> None:
        self.kinds = kinds or (PreCallEvent,)
        self.priority = priority
        self.seen: list[str] = []

    def on_event(self, event: Event) -> None:
        self.seen.append(event.type)


def test_added_and_removed_hooks_take_effect_in_the_next_run():
    friday, noting = agent(ScriptedModel("a", "b", "c")), Noting()
    friday.call("1").run()
    friday.hooks.add(noting)
    assert noting in friday.hooks and list(friday.hooks) == [noting] and len(friday.hooks) == 1
    friday.call("2").run()
    assert noting.seen == ["pre_call"]
    friday.hooks.remove(noting)
    friday.call("3").run()
    assert noting.seen == ["pre_call"] and noting not in friday.hooks


def test_a_run_keeps_the_hooks_it_began_with():
    before, after = Noting(PreReasoningEvent), Noting(PreReasoningEvent)

    @hook(PreCallEvent, priority=1)
    def change(event: PreCallEvent):
        friday.hooks.remove(before)
        friday.hooks.add(after)

    friday = agent(ScriptedModel(call("weather", city="Rome"), "a", "b"), hooks=[before, change])
    run_virtual(events_of(friday, "hi"))
    assert (len(before.seen), len(after.seen)) == (2, 0)
    friday.hooks.remove(change)
    run_virtual(events_of(friday, "hi"))
    assert (len(before.seen), len(after.seen)) == (2, 1)


def test_a_queued_run_has_the_hooks_of_its_subscription():
    noting = Noting()

    async def main() -> None:
        friday = agent(ScriptedModel("a", "b"))
        first = friday.stream("1").subscribe()
        await asyncio.sleep(0)
        first.dispose()
        second = friday.call("2").as_task()
        await asyncio.sleep(0)
        friday.hooks.add(noting)
        await second

    run_virtual(main())
    assert noting.seen == []


@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=4))
def test_added_hooks_are_ordered_as_if_given_at_construction(given_first, added):
    first = [Noting(priority=number) for number in given_first]
    later = [Noting(priority=number) for number in added]
    hooks = Hooks(first)
    hooks.add(*later)
    assert hooks.all == Hooks([*first, *later]).all
    for each in later:
        hooks.remove(each)
    assert hooks.all == Hooks(first).all


def test_methods_are_found_again():
    class Guard:
        @hook(PreCallEvent)
        def check(self, event: PreCallEvent):
            return None

    class Careful(ReActAgent):
        @hook(PreCallEvent)
        def own(self, event: PreCallEvent):
            return None

    guard, friday = Guard(), Careful("Friday", ScriptedModel("a"))
    friday.hooks.add(guard.check)
    assert guard.check in friday.hooks and Guard().check not in friday.hooks
    friday.hooks.remove(guard.check)
    friday.hooks.remove(friday.own)
    assert friday.hooks.all == ()


def test_invalid_and_unknown_hooks_are_refused_without_changes():
    noting = Noting()
    friday = agent(ScriptedModel("a"), hooks=[noting])
    with pytest.raises(ConfigurationError, match="takes Hook objects"):
        friday.hooks.add(Noting(), print)  # pyright: ignore
    with pytest.raises(ConfigurationError, match=r"Agent 'Friday' has no hook .*It has \['Noting'\]"):
        friday.hooks.remove(Noting())
    assert friday.hooks.all == (noting,)


@tool
async def lookup(word: str) -> str:
    """Looks a word up."""
    return word


class Dictionary(Hook):
    kinds = (PreCallEvent,)

    def tools(self):
        return (lookup,)


@tool(name="lookup")
async def elsewhere(word: str) -> str:
    """Looks a word up elsewhere."""
    return word


class OtherDictionary(Hook):
    kinds = (PreCallEvent,)

    def tools(self):
        return (elsewhere,)


def test_the_tools_of_a_hook_come_and_go_with_it():
    friday = agent(ScriptedModel("a"), tools=[weather])
    bringing = Dictionary()
    friday.hooks.add(bringing)
    assert "lookup" in friday.toolkit
    with pytest.raises(DuplicateToolError):
        friday.hooks.add(Noting(), OtherDictionary())
    assert friday.hooks.all == (bringing,)
    friday.hooks.remove(bringing)
    assert "lookup" not in friday.toolkit and "weather" in friday.toolkit

    built = agent(ScriptedModel("a"), tools=[weather], hooks=[bringing])
    built.hooks.remove(bringing)
    assert "lookup" not in built.toolkit


def test_changes_from_many_threads_are_all_kept():
    friday = agent(ScriptedModel())
    hooks = [Noting() for _ in range(40)]

    def add(part: list[Noting]) -> None:
        for each in part:
            friday.hooks.add(each)

    threads = [threading.Thread(target=add, args=(hooks[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert set(map(id, friday.hooks)) == set(map(id, hooks))
