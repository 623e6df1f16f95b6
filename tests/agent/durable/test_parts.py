"""The states of parts across a crash: a tool's own, a plan, a mode."""

from __future__ import annotations

from typing import Any

from agentscope_rx import ReActAgent, tool
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.planning import PlanNotebook, TodoList
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.testing.scripted_model import ScriptedRequest
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment, new_world, settle
from tests.agent.durable.test_every_moment import acting, model, sub_agents, use
from tests.agent.test_leases import policy


class Counter:
    """A tool object with a state of its own, which each call changes."""

    def __init__(self, world: World) -> None:
        self.count = 0
        self.world = world

    def state(self) -> object:
        return self.count

    def load_state(self, value: object, version: int) -> None:
        assert isinstance(value, int)
        self.count = value

    @tool
    async def add(self, name: str) -> str:
        """Count one more."""
        self.world.effect(name)
        self.count += 1
        self.world.note(f"counted {name}")
        return f"did {name}"


def test_the_state_of_a_tool_is_that_after_its_recorded_calls():
    def script(text: str, results: int) -> object:
        if results == 0:
            return [use("c1", "x", "add"), use("c2", "y"), use("c3", "z")]
        return use("c4", "w", "add") if results == 3 else "Done."

    def make(world: World) -> ReActAgent:
        tools = [*acting(world), Counter(world).add]
        return ReActAgent("A", model(world, script), tools=tools, memory=NotingMemory(world))

    async def main() -> None:
        world = new_world()
        one = make(world)
        await one.bind(world.session, "k", checkpoint="stage")
        await one.call("go")
        for moment in world.moments:
            # what the journal tells of as done is in the state
            lost = new_world(moment.sessions, moment.effects)
            lost.recording = False
            counter = Counter(lost)
            again = ReActAgent("A", model(lost, script), tools=[*acting(lost), counter.add], in_doubt="fail")
            await again.bind(lost.session, "k", checkpoint="stage")
            journal = again.conversation().journal
            assert journal is not None
            known = {path for path, effect in journal.effects.items() if effect.result is not None}
            messages = await again.memory.get()
            known |= {result.id for message in messages for result in message.tool_results}
            assert counter.count == len(known & {"c1", "c4"}), moment.where

    run_virtual(main())


def planner(world: World, **options: Any) -> ReActAgent:
    """Its plan changes beside a sub-agent, which makes checkpoints, and beside calls in the journal."""

    def revise(id: str, name: str) -> ToolUseBlock:
        subtask = {"name": name, "description": "d", "expected_outcome": "o"}
        return ToolUseBlock(id, "revise_current_plan", {"subtask_idx": 0, "action": "add", "subtask": subtask})

    def step(request: ScriptedRequest) -> object:
        world.note("model call")
        # (a hint is a message of the user, too)
        results = sum(len(message.tool_results) for message in request.messages)
        if results == 0:
            return ToolUseBlock(
                "p1", "create_plan", {"name": "Plan", "description": "d", "expected_outcome": "o", "subtasks": []}
            )
        if results == 1:
            sub = ToolUseBlock("s1", "call_sub", {"message": "inner"})
            return [sub, revise("p2", "first"), use("c1", "x"), revise("p3", "second")]
        return [use("c2", "y"), revise("p4", "third")] if results == 5 else "Done."

    tools = acting(world)
    tools.append(sub_agents(world, 0).as_tool(name="call_sub", memory=lambda: NotingMemory(world)))
    return ReActAgent(
        "A",
        ScriptedModel(step, repeat=True),
        tools=tools,
        memory=NotingMemory(world),
        plan_notebook=PlanNotebook(),
        **options,
    )


def test_changes_of_a_plan_are_neither_lost_nor_doubled():
    run_virtual(at_every_moment(planner, ["go"], every=5))


def test_the_plan_of_a_sub_agent_is_neither_lost_nor_doubled():
    def make(world: World) -> ReActAgent:
        def step(request: ScriptedRequest) -> object:
            world.note("model call")
            done = any(message.tool_results for message in request.messages)
            inside = ToolUseBlock("s9", "call_planner", {"message": "plan"})
            return "Done." if done else [inside, use("c9", "z")]

        inner = planner(world)
        tools = [*acting(world), inner.as_tool(name="call_planner", memory=lambda: NotingMemory(world))]
        return ReActAgent("Outer", ScriptedModel(step, repeat=True), tools=tools, memory=NotingMemory(world))

    run_virtual(at_every_moment(make, ["go"], every=11))


def todo(id: str, state: str) -> ToolUseBlock:
    return ToolUseBlock(id, "write_todos", {"todos": [{"content": "Do x.", "state": state}]})


def test_a_mode_and_a_list_are_those_of_calls_that_ended():
    def make(world: World) -> ReActAgent:
        def step(request: ScriptedRequest) -> object:
            world.note("model call")
            results = sum(len(message.tool_results) for message in request.messages)
            if results == 0:
                return [ToolUseBlock("p1", "submit_plan", {"plan": "Do x."}), todo("t1", "todo")]
            if results == 2:
                return [use("c1", "x"), todo("t2", "in_progress"), use("c2", "y", "ask"), todo("t3", "done")]
            return "Done."

        scripted = ScriptedModel(step, repeat=True)
        hooks = [TodoList()]
        memory = NotingMemory(world)
        return ReActAgent("A", scripted, tools=acting(world), memory=memory, hooks=hooks, plan_mode=True)

    run_virtual(at_every_moment(make, ["go"]))


def test_another_process_goes_on_after_parts_were_restored():
    async def main() -> None:
        world = new_world()
        one = planner(world)
        await one.bind(world.session, "k", checkpoint="stage")
        await settle(world, one, await one.call("go"), None)
        (at,) = [moment for moment in world.moments if moment.where == "after y"]
        lost = new_world(at.sessions, at.effects)
        lost.recording = False
        two, three = planner(lost), planner(lost)
        await two.bind(lost.session, "k", checkpoint="stage", lease=policy(2))
        await three.bind(lost.session, "k", checkpoint="stage", lease=policy(3))
        await settle(lost, two, await two.call(), [])
        # it has changed nothing since it was loaded
        assert (await three.call("and now?")).text == "Done."
        plan = three.plan_notebook.plan(three.conversation()) if three.plan_notebook else None
        assert plan is not None and [each.name for each in plan.subtasks] == ["third", "second", "first"]

    run_virtual(main())
