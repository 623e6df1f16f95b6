"""A crash at every moment while sub-agents work: they go on from their own checkpoints, with their labels."""

from __future__ import annotations

from agentscope_rx import ReActAgent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.sub_agents import SubAgent, SubagentsHook
from agentscope_rx.testing import run_virtual
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment
from tests.agent.durable.test_every_moment import acting, model, use
from tests.sub_agents.parts import send, spawn


def helper_of(world: World, name: str = "helper", *, low: bool = False) -> SubAgent:
    def script(text: str, results: int) -> object:
        if results:
            return f"{text} done."
        if low:
            return [spawn(f"l-{text}", "low", f"{text}-low", label=f"low-{text}")]
        return [use("c1", f"one-{text}"), use("c2", f"two-{text}", "ask")]

    return SubAgent(name, "Helps.", "Help.", model=model(world, script), spawns=low)


def boss_of(world: World, *declared: SubAgent, first: list[ToolUseBlock]) -> ReActAgent:
    def script(text: str, results: int) -> object:
        if results == 0:
            return ["Ask.", *first]
        if results == len(first):
            return [send("t", first[0].input["label"], "again")]
        return "All done."

    hooks = [SubagentsHook(*declared)]
    return ReActAgent("Boss", model(world, script), tools=acting(world), memory=NotingMemory(world), hooks=hooks)


def test_two_sub_agents_and_a_tool_go_on_after_a_crash():
    def make(world: World) -> ReActAgent:
        first = [spawn("a", task="goa", label="A"), spawn("b", task="gob", label="B"), use("own", "own")]
        return boss_of(world, helper_of(world), first=first)

    doubted = run_virtual(at_every_moment(make, ["go"], every=3))
    assert {"own", "one-goa", "two-goa", "one-gob", "two-gob", "one-again"} <= set(doubted)


def test_three_levels_go_on_after_a_crash():
    def make(world: World) -> ReActAgent:
        declared = helper_of(world, "mid", low=True), helper_of(world, "low")
        return boss_of(world, *declared, first=[spawn("a", "mid", "goa", label="A")])

    assert run_virtual(at_every_moment(make, ["go"], every=5))
