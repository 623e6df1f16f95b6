"""A store that fails for good at any of its operations: the run fails, and another process goes on when it is back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Any

import pytest

from agentscope_rx import ReActAgent
from agentscope_rx.errors import AgentScopeError, SessionStorageError
from agentscope_rx.reactive import Flow, defer, then, throw
from agentscope_rx.session.session import ANY_VERSION, Expected, Items
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.agent.durable.crashes import Make, NotingMemory, NotingSession, World, new_world, play, settle
from tests.agent.durable.test_every_moment import acting, model, sub_agents, use
from tests.agent.durable.test_parts import planner


class DyingSession(NotingSession):
    """Fails from its n-th save on; with `unsure` that one is stored all the same."""

    def __init__(self, dies_at: int, unsure: bool) -> None:
        super().__init__()
        self.dies_at = dies_at
        self.unsure = unsure
        self.count = 0

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        saving = super().save_all(key, values, lists, expected=expected)
        error = SessionStorageError(key, "sessions", "the disk is gone")

        def save() -> Flow[str | None]:
            self.count += 1
            if self.count < self.dies_at:
                return saving
            if self.count == self.dies_at and self.unsure:
                return saving.pipe(then(lambda: throw(error)))
            return throw(error)

        return defer(save)


def dying(dies_at: int, unsure: bool) -> World:
    session = DyingSession(dies_at, unsure)
    world = World(session, [])
    session.world = world
    world.recording = False
    return world


async def at_every_save(make: Make, turns: list[str], unsure: bool) -> None:
    whole = new_world()
    whole.recording = False
    expected = await play(whole, make, turns)
    effects = sorted(whole.effects)
    dies_at = 0
    while True:
        dies_at += 1
        world = dying(dies_at, unsure)
        try:
            with collect_dropped():
                await play(world, make, turns)
        except AgentScopeError:
            pass
        else:
            assert sorted(world.effects) == effects
            assert isinstance(world.session, DyingSession) and world.session.count < dies_at, "an error was swallowed"
            break
        again = new_world(world.session._sessions, world.effects)
        again.recording = False
        again.model_calls = world.model_calls
        again.process = 2
        found = await play(again, make, turns, [])
        differ = [pair for pair in zip_longest(found, expected) if pair[0] != pair[1]]
        assert not differ, (dies_at, differ)
        assert sorted(again.effects) == effects, dies_at
    assert dies_at > 5


def mixed(world: World) -> ReActAgent:
    def script(text: str, results: int) -> object:
        if results == 0:
            return [use(f"{text}1", f"{text}-a"), use(f"{text}2", f"{text}-b", "ask"), use(f"{text}3", f"{text}-c")]
        return f"{text} is done."

    place: dict[str, Any] = {"session": world.session, "session_key": "k", "checkpoint": "stage"}
    tools = acting(world)
    return ReActAgent("A", model(world, script), tools=tools, memory=NotingMemory(world), lease=world.policy(), **place)


MAKES: dict[str, Callable[[World], ReActAgent]] = {
    "lease": mixed,
    "sub-agents": lambda world: sub_agents(world, 1),
    "plan": planner,
}


async def at_every_save_in_place(make: Make, unsure: bool) -> None:
    """The same process goes on, too: what it saves is what it remembers."""
    dies_at = 0
    while True:
        dies_at += 1
        world = dying(dies_at, unsure)
        session = world.session
        assert isinstance(session, DyingSession)
        agent = make(world)
        with collect_dropped():
            try:
                if agent.session is None:
                    await agent.bind(session, "k", checkpoint="stage")
                await settle(world, agent, await agent.call("go"), None)
                return
            except AgentScopeError:
                pass
        session.dies_at = 10**9
        pending = await agent.pending_calls()
        await settle(world, agent, await agent.call(None if pending else "and now?"), [])
        assert len(set(world.effects)) == len(world.effects), dies_at
        saved = await session.load_all("k")
        history = await agent.memory.get()
        assert [item["id"] for item in saved.lists["memory"]] == [message.id for message in history], dies_at
        assert saved.values["state"]["run"] is None and not saved.lists.get("journal"), dies_at


@pytest.mark.parametrize("unsure", [False, True], ids=["failed", "unsure"])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_the_process_goes_on_when_the_store_is_back(make: Make, unsure: bool):
    run_virtual(at_every_save_in_place(make, unsure))


@pytest.mark.parametrize("unsure", [False, True], ids=["failed", "unsure"])
@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_a_store_that_dies_at_any_save(make: Make, unsure: bool):
    run_virtual(at_every_save(make, ["go"], unsure))
