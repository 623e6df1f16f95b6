"""Laws of random trees of pipelines around and inside a hub: who heard what, exactly once, in one order; who pays.

A pure model reads the log of what the members said and of who was in the hub then. Members leave and come while calls
are in progress, which are interrupted and disposed of at random moments.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Agent, MsgHub, ReActAgent
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import HubEvent
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.models import ChatResponse
from agentscope_rx.pipeline import FanOutPipeline, Handoffs, LoopPipeline, SequentialPipeline
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.pipeline.hub.parts import SlowMemory
from tests.pipeline.parts import assert_whole, remembered


@dataclass(frozen=True)
class Node:
    """A pipeline of parts; a leaf has none, and waits so long before it speaks."""

    kind: str
    parts: tuple[Any, ...] = ()
    wait: int = 0


LEAVES = st.builds(Node, st.sampled_from(["says", "says", "fails"]), st.just(()), st.integers(0, 3))
SPEAKERS = st.builds(Node, st.just("says"), st.just(()), st.integers(0, 3))
DESKS = st.builds(Node, st.just("handoffs"), st.lists(SPEAKERS, min_size=2, max_size=3).map(tuple))
KINDS = st.sampled_from(["sequence", "fan-out", "loop"])


def branches(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.builds(Node, KINDS, st.lists(parts, min_size=1, max_size=3).map(tuple))


TREES = branches(st.recursive(LEAVES | DESKS, branches, max_leaves=5))
ACTS = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["call", "call", "leave", "join", "interrupt", "dispose", "broadcast"]),
    st.integers(0, 9),
)


@dataclass
class World:
    """A tree as agents. `spent` is what each model call has cost; `inside` are the agents that join the hub."""

    spent: list[int] = field(default_factory=list)
    inside: list[Agent] = field(default_factory=list)
    all: list[Agent] = field(default_factory=list)

    def make(self, node: Node, name: str) -> Agent:
        made = self._made(node, name)
        self.all.append(made)
        return made

    def _made(self, node: Node, name: str) -> Agent:
        if node.kind in ("says", "fails"):
            leaf = self.leaf(node, name)
            self.inside.append(leaf)
            return leaf
        if node.kind == "handoffs":
            # one conversation: it is in the hub as one member
            names = [f"{name}{number}" for number in range(len(node.parts))]
            desk = Handoffs(name, [self.leaf(part, each, names) for part, each in zip(node.parts, names, strict=True)])
            self.inside.append(desk)
            return desk
        parts = [self.make(part, f"{name}{number}") for number, part in enumerate(node.parts)]
        if node.kind == "sequence":
            return SequentialPipeline(parts, name)
        if node.kind == "fan-out":
            return FanOutPipeline(parts, name, at_most=2)
        return LoopPipeline(parts, name, max_rounds=2)

    def leaf(self, node: Node, name: str, names: list[str] | None = None) -> ReActAgent:
        number = 0

        def turn(request: Any) -> Any:
            nonlocal number
            if node.kind == "fails":
                return [Delay(node.wait), ValueError(name)]
            number += 1
            cost = 2 ** (len(self.spent) % 20)
            self.spent.append(cost)
            paid = ChatResponse((), usage=ChatUsage(cost, 1))
            if names is not None and name != names[-1] and any(t.name.startswith("transfer_") for t in request.tools):
                following = names[names.index(name) + 1]
                return [Delay(node.wait), call(f"transfer_to_{following}"), paid]
            return [Delay(node.wait), f"{name}#{number}", paid]

        # different times to hear: a later message may be heard sooner by another member
        return ReActAgent(name, ScriptedModel(*[turn] * 200), memory=SlowMemory(0.0 if names else len(name) % 3 * 0.3))


async def ended(task: asyncio.Task[Msg]) -> None:
    with suppress(AgentScopeError, ValueError, asyncio.CancelledError):
        await task


async def play(top: Agent, world: World, acts: list[tuple[int, str, int]], events: list[HubEvent]) -> None:
    listener = ReActAgent("L", ScriptedModel())
    members = [*world.inside, listener]
    tasks: list[asyncio.Task[Msg]] = []
    async with MsgHub(members, name="hub") as hub:
        hub.events.subscribe(events.append)
        for number, (gap, act, who) in enumerate(acts):
            await asyncio.sleep(gap + 0.0137 * (number + 1))
            chosen = members[who % len(members)]
            if act == "call" and not top.running:
                tasks.append(top.call(f"go{number}").as_task())
            elif act == "leave":
                hub.delete(chosen)
            elif act == "join":
                hub.add(chosen)
            elif act == "interrupt":
                (top if who % 2 else chosen).interrupt()
            elif act == "dispose" and tasks:
                tasks[-1].cancel()
            elif act == "broadcast":
                await hub.broadcast(Msg.user(f"all{number}", name="Host"))
        await asyncio.gather(*map(ended, tasks))
        await asyncio.sleep(100)
        for agent in (*world.all, listener):
            await agent.idle()
    world.inside = members


def listeners(events: list[HubEvent]) -> dict[str, tuple[set[str], set[str]]]:
    """For each message, from joins and leaves alone: who has to hear it; and who may, as it left afterwards."""
    present: set[str] = set()
    found: dict[str, tuple[set[str], set[str]]] = {}
    for event in events:
        if event.message is not None:
            found[event.message.id] = (present - {event.member}, set())
        elif event.change == "joined":
            present = present | {event.member}
        else:
            present = present - {event.member}
            for must, may in found.values():
                if event.member in must:
                    must.discard(event.member)
                    may.add(event.member)
    return found


def assert_heard(events: list[HubEvent], agents: list[Agent]) -> None:
    said = [event for event in events if event.message is not None]
    assert [event.number for event in said] == list(range(len(said)))
    ids = [event.message.id for event in said if event.message]
    assert len(set(ids)) == len(ids)
    expected = listeners(events)
    for event in said:
        assert event.message is not None
        must, may = expected[event.message.id]
        assert len(event.heard_by) == len(set(event.heard_by)) and not event.missed_by
        assert must <= set(event.heard_by) <= must | may
    for agent in agents:
        held = [each.id for each in remembered(agent)]
        assert len(held) == len(set(held))
        heard = [event.message.id for event in said if event.message and agent.name in event.heard_by]
        assert heard == [each for each in held if each in heard]


@settings(max_examples=60)
@given(TREES, st.lists(ACTS, max_size=9))
def test_who_heard_what_in_a_tree_around_a_hub(root: Node, acts: list[tuple[int, str, int]]):
    world = World()
    events: list[HubEvent] = []
    top = world.make(root, "n")

    async def main() -> None:
        await play(top, world, [(0, "call", 0), *acts], events)
        assert_heard(events, world.inside)
        for agent in world.all:
            assert not agent.running
            await assert_whole(agent.conversation(), remembered(agent))

    with collect_dropped() as dropped:
        run_virtual(main())
    assert {type(each) for each in dropped} <= {ValueError}


@settings(max_examples=60)
@given(TREES, st.booleans())
def test_each_model_call_of_a_tree_is_paid_once(root: Node, in_hub: bool):
    """The usage of the reply is the sum over all model calls of all levels, in a hub or not."""
    world = World()
    top = world.make(root, "n")

    async def main() -> None:
        for number in range(2):
            before = len(world.spent)
            try:
                if in_hub:
                    async with MsgHub(world.inside):
                        reply = await top.call(f"go{number}")
                else:
                    reply = await top.call(f"go{number}")
            except AgentScopeError:
                return
            calls = world.spent[before:]
            assert (reply.usage or ChatUsage()) == ChatUsage(sum(calls), len(calls))

    with collect_dropped():
        run_virtual(main())


@pytest.mark.parametrize("fails_in", ["member", "tool"])
def test_a_failed_call_is_paid_by_the_outermost_run(fails_in: str):
    """What a provider has reported before a failure counts, though no answer has come."""

    async def main() -> None:
        paid = ChatResponse((), usage=ChatUsage(8, 1))
        failing = ReActAgent("F", ScriptedModel([paid, ValueError("lost")]))
        top: Agent = FanOutPipeline([failing])
        if fails_in == "tool":
            script = ScriptedModel([call("call_f", message="go"), paid], ["It is lost.", paid])
            top = ReActAgent("T", script, tools=[failing.as_tool()])
        reply = await top.call("go")
        assert reply.usage == (ChatUsage(24, 3) if fails_in == "tool" else ChatUsage(8, 1))

    with collect_dropped():
        run_virtual(main())
