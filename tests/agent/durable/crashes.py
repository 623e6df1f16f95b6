"""A run that is cut off at every moment: the store, the effects and the rest of the world as they were then.

`Moments` notes the world at each operation of a run (a save, a tool before and after its effect, a write to memory, a
model call). A process that is killed at a moment leaves just that; `resumed` goes on from it as a new process would.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import NamedTuple

from agentscope_rx import Approve, Msg, ReActAgent
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.messages import ContentBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, concat_map, defer, just
from agentscope_rx.session import InMemorySession, LeasePolicy
from agentscope_rx.session.session import ANY_VERSION, Expected, Items
from tests.session.lease.machines import FakeMachine


class Moment(NamedTuple):
    """What is left of a process that is killed here."""

    where: str
    sessions: dict[str, object]
    effects: list[str]
    calls: int


@dataclass
class World:
    """The store and the effects of the tools; `moments` are noted if it is recording."""

    session: NotingSession
    effects: list[str] = field(default_factory=list)
    recording: bool = True
    moments: list[Moment] = field(default_factory=list)
    model_calls: int = 0
    process: int = 1
    """The number of the process, which those before have ended when it begins."""

    def policy(self) -> LeasePolicy:
        """A lease of this process."""
        return LeasePolicy("queue", machine=FakeMachine(self.process, dead=set(range(self.process))))

    def note(self, where: str) -> None:
        if self.recording:
            sessions = dict(self.session._sessions)
            self.moments.append(Moment(where, sessions, list(self.effects), self.model_calls))

    def effect(self, name: str, key: str | None = None) -> str:
        """An effect outside of the process; a second one with the same key is ignored, as by a service."""
        self.note(f"before {name}")
        if key is None or f"{name} {key}" not in self.effects:
            self.effects.append(name if key is None else f"{name} {key}")
        self.note(f"after {name}")
        return f"did {name}"


class NotingSession(InMemorySession):
    """Notes the moment before and after each save."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.saves = 0

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        saving = super().save_all(key, values, lists, expected=expected)

        def save() -> Flow[str | None]:
            self.saves += 1
            if self.world is not None:
                self.world.note(f"before save {self.saves} of {sorted((*values, *(lists or {})))}")
            return saving.pipe(concat_map(self._saved))

        return defer(save)

    def _saved(self, version: str | None) -> Flow[str | None]:
        if self.world is not None:
            self.world.note(f"after save {self.saves}")
        return just(version)


class NotingMemory(InMemoryMemory):
    """Notes the moment before and after each write."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def add(self, messages: Msg | Sequence[Msg]) -> Flow[None]:
        writing = super().add(messages)

        def write() -> Flow[None]:
            self._world.note("before a write to memory")
            return writing.pipe(concat_map(self._written))

        return defer(write)

    def _written(self, done: None) -> None:
        self._world.note("after a write to memory")


def new_world(sessions: Mapping[str, object] | None = None, effects: Sequence[str] = ()) -> World:
    session = NotingSession()
    session._sessions = dict(sessions or {})
    world = World(session, list(effects))
    session.world = world
    return world


Make = Callable[[World], ReActAgent]


async def play(world: World, make: Make, turns: Sequence[str], doubted: list[str] | None = None) -> list[object]:
    """Play the turns in a new process: those that the conversation has are left out. Gives the final memory.

    A call in doubt is told: it is run again if the effects do not have it, else its result is given. Other calls that
    wait are approved.
    """
    agent = make(world)
    if agent.session is None:
        await agent.bind(world.session, "k", checkpoint="stage")
    else:
        # it is bound by the first that needs it
        await agent.pending_calls()
    conversation = agent.conversation()
    history = await agent.memory.get()
    texts = [message.text for message in history if message.role == "user"]
    if conversation.unfinished is not None or await agent.pending_calls():
        await settle(world, agent, await agent.call(), doubted)
    for turn in turns:
        if turn not in texts:
            await settle(world, agent, await agent.call(turn), doubted)
    history = await agent.memory.get()
    saved = await world.session.load_all("k")
    assert saved.values["state"]["run"] is None
    assert saved.values["state"]["pending"] in ([], None)
    assert not saved.lists.get("journal"), saved.lists["journal"]
    assert [item["id"] for item in saved.lists["memory"]] == [message.id for message in history]
    children = [saved.lists[name] for name in sorted(saved.lists) if name.startswith("child:")]
    beneath = [Msg.from_dict(item) for items in children for item in items]
    parts = ["parts", without_chance(saved.values["state"]["parts"])]
    return [*in_order([plain(message) for message in (*history, *beneath)]), parts]


def without_chance(value: object) -> object:
    """A JSON value without its ids and times."""
    if isinstance(value, dict):
        chance = ("id", "timestamp", "passed_on")
        kept = {key: each for key, each in value.items() if key not in chance and not key.endswith("_at")}
        return {key: without_chance(each) for key, each in kept.items()}
    return [without_chance(each) for each in value] if isinstance(value, list) else value


def in_order(messages: list[object]) -> list[object]:
    """The messages, with those of results side by side sorted: a call in doubt gets its result after the others."""
    ordered: list[object] = []
    for _, group in groupby(messages, key=lambda message: message[0] == "tool"):
        several = list(group)
        ordered += sorted(several, key=repr) if several[0][0] == "tool" else several
    return ordered


async def settle(world: World, agent: ReActAgent, reply: Msg, doubted: list[str] | None) -> Msg:
    """Answer the calls that wait, one by one, until there are none."""
    while reply.pending_calls:
        call = reply.pending_calls[0]
        if not call.in_doubt:
            reply = await agent.call(Approve(call))
            continue
        assert doubted is not None, f"nothing was killed, and {call.id} is in doubt"
        name = str(call.input["name"])
        doubted.append(name)
        if name in world.effects:
            given = ToolResultBlock(call.id, call.name, f"did {name}")
            reply = await agent.call(Msg.tool([given]))
        else:
            reply = await agent.call(Approve(call))
    return reply


def plain(message: Msg) -> object:
    """A message without ids and times; results without their author, which may be the caller."""
    blocks = [_plain_block(block) for block in message.content]
    return [message.role.value, None if message.tool_results else message.name, blocks]


def _plain_block(block: ContentBlock) -> object:
    if isinstance(block, ToolUseBlock):
        return ("call", block.name, without_chance(dict(block.input)))
    if isinstance(block, ToolResultBlock):
        return ("result", block.name, re.sub("conversation_id: [0-9a-f]+", "", block.text), block.kind)
    return (block.type, getattr(block, "text", ""))


def thinned(moments: list[Moment], every: int) -> list[Moment]:
    """One of so many moments; all of them in `make soak`, which sets `EVERY_MOMENT`."""
    return moments if os.environ.get("EVERY_MOMENT") else moments[::every]


async def at_every_moment(make: Make, turns: Sequence[str], every: int = 1) -> list[str]:
    """Kill a run of these turns at every moment, and resume it; the end is the same, each effect once.

    `every` thins the moments of a long run (see `thinned`). Returns the effects that were in doubt.
    """
    world = new_world()
    expected = await play(world, make, turns)
    effects = sorted(world.effects)
    assert len(set(effects)) == len(effects)
    world.recording = False
    told: list[str] = []
    for moment in thinned(world.moments, every):
        resumed = new_world(moment.sessions, moment.effects)
        resumed.model_calls = moment.calls
        resumed.process = world.process + 1
        resumed.recording = False
        doubted: list[str] = []
        found = await play(resumed, make, turns, doubted)
        differ = [pair for pair in zip_longest(found, expected) if pair[0] != pair[1]]
        assert not differ, (moment.where, differ)
        assert sorted(resumed.effects) == effects, moment.where
        told += doubted
    return told
