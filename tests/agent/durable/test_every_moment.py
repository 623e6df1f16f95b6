"""A run that is killed at any moment goes on in another process, and ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from agentscope_rx import Hook, ReActAgent, tool
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.testing.scripted_model import ScriptedRequest
from agentscope_rx.tools import Tool, ToolContext
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment, new_world, play


def asked(messages: object) -> tuple[str, int]:
    """The last message of the user, and the number of results since."""
    results = 0
    for message in reversed(messages):
        if message.role == "user":
            return message.text, results
        results += len(message.tool_results)
    return "", results


def use(id: str, name: str, tool: str = "act") -> ToolUseBlock:
    return ToolUseBlock(id, tool, {"name": name})


def model(world: World, script: Callable[[str, int], object], modes: Any = None) -> ScriptedModel:
    def step(request: ScriptedRequest) -> object:
        world.note("model call")
        world.model_calls += 1
        return script(*asked(request.messages))

    return ScriptedModel(step, repeat=True, output_modes=modes)


def acting(world: World) -> list[object]:
    @tool
    async def act(name: str) -> str:
        """Have an effect."""
        return world.effect(name)

    @tool(requires_approval=True)
    async def ask(name: str) -> str:
        """Have an effect, once approved."""
        return world.effect(name)

    @tool(in_doubt="fail")
    async def risk(name: str) -> str:
        """Have an effect."""
        return world.effect(name)

    return [act, ask, risk]


def test_tools_in_parallel_and_in_turn():
    def script(text: str, results: int) -> object:
        if results == 0:
            return ["Let me ", "act.", use(f"{text}1", f"{text}-a"), use(f"{text}2", f"{text}-b")]
        if results == 2:
            return [use(f"{text}3", f"{text}-c")]
        return f"{text} is done."

    def make(world: World) -> ReActAgent:
        return ReActAgent("A", model(world, script), tools=acting(world), memory=NotingMemory(world))

    doubted = run_virtual(at_every_moment(make, ["one", "two"]))
    assert {"one-a", "one-b", "one-c", "two-c"} <= set(doubted)


def test_approvals_are_neither_lost_nor_asked_twice():
    def script(text: str, results: int) -> object:
        if results == 0:
            return [use("c1", "x", "ask"), use("c2", "y"), use("c3", "z", "ask")]
        return "Done."

    def make(world: World) -> ReActAgent:
        return ReActAgent("A", model(world, script), tools=acting(world), memory=NotingMemory(world))

    doubted = run_virtual(at_every_moment(make, ["go"]))
    assert {"x", "y", "z"} <= set(doubted)


def test_one_call_after_the_other():
    def script(text: str, results: int) -> object:
        return [use("c1", "x", "ask"), use("c2", "y"), use("c3", "z")] if results == 0 else "Done."

    def make(world: World) -> ReActAgent:
        agent = ReActAgent("A", model(world, script), tools=acting(world), memory=NotingMemory(world))
        agent.toolkit.parallel = False
        return agent

    run_virtual(at_every_moment(make, ["go"]))


def sub_agents(world: World, depth: int) -> ReActAgent:
    def script(text: str, results: int) -> object:
        if depth and results == 0:
            calls = [ToolUseBlock(f"p{depth}{each}", "call_sub", {"message": f"{text}{each}"}) for each in "ab"]
            return ["Ask.", *calls, use(f"own{depth}", f"own-{text}")]
        if results == 0:
            return [use("c1", f"one-{text}"), use("c2", f"two-{text}", "ask")]
        return f"{text} done."

    tools = acting(world)
    if depth:
        tools.append(sub_agents(world, depth - 1).as_tool(name="call_sub", memory=lambda: NotingMemory(world)))
    return ReActAgent(f"D{depth}", model(world, script), tools=tools, memory=NotingMemory(world))


def test_sub_agents_go_on_from_their_own_checkpoints():
    doubted = run_virtual(at_every_moment(lambda world: sub_agents(world, 1), ["go"]))
    assert {"own-go", "one-goa", "two-goa", "one-gob", "two-gob"} <= set(doubted)


def test_sub_agents_of_sub_agents():
    doubted = run_virtual(at_every_moment(lambda world: sub_agents(world, 2), ["go"], every=11))
    assert doubted


class Answer(BaseModel):
    words: str


@pytest.mark.parametrize("modes", [("tool",), ("prompted",)], ids=["tool", "prompted"])
def test_a_structured_output_is_given_by_the_run_that_goes_on(modes: tuple[Any, ...]):
    def script(text: str, results: int) -> object:
        if results == 0:
            return [use("c1", "x"), use("c2", "y")]
        if modes == ("tool",):
            wrong = {} if results == 2 else {"words": "right"}
            return ToolUseBlock(f"r{results}", "generate_response", wrong)
        return '{"words": "right"}'

    def make(world: World) -> ReActAgent:
        agent = ReActAgent("A", model(world, script, modes), tools=acting(world), memory=NotingMemory(world))
        call = agent.call

        def with_output(msgs: Any = None, **options: Any) -> Any:
            # a run that goes on gives the output that the lost one was to give
            return call(msgs, output=Answer if msgs == "go" else None, **options)

        agent.call = with_output
        return agent

    run_virtual(at_every_moment(make, ["go"]))


def keyed(world: World) -> Tool:
    @tool(idempotent=True)
    async def act(name: str, context: ToolContext) -> str:
        """Have an effect."""
        return world.effect(name, context.idempotency_key)

    return act


def test_rounds_that_are_used_up_are_used_up_after_a_crash():
    def script(text: str, results: int) -> object:
        return use(f"c{results}", f"effect {results}") if results < 9 else "never"

    def make(world: World) -> ReActAgent:
        def step(request: ScriptedRequest) -> object:
            world.note("model call")
            return script(*asked(request.messages)) if request.tools else "The summary."

        scripted = ScriptedModel(step, repeat=True)
        return ReActAgent("A", scripted, tools=[keyed(world)], memory=NotingMemory(world), max_iters=3)

    assert run_virtual(at_every_moment(make, ["go"])) == []


def test_results_that_are_the_reply_of_the_run():
    def make(world: World) -> ReActAgent:
        @tool(return_direct=True)
        async def act(name: str) -> str:
            """Have an effect."""
            return world.effect(name)

        scripted = model(world, lambda text, results: [use("c1", "x"), use("c2", "y")])
        return ReActAgent("A", scripted, tools=[act], memory=NotingMemory(world))

    run_virtual(at_every_moment(make, ["go"]))


def test_hooks_at_the_end_do_not_repeat_the_last_round():
    def make(world: World) -> ReActAgent:
        class Slow(Hook):
            async def on_post_call(self, event: PostCallEvent) -> None:
                world.note("hook")

        scripted = model(world, lambda text, results: f"answer {world.model_calls}" if results else use("c1", "x"))
        return ReActAgent("A", scripted, tools=acting(world), memory=NotingMemory(world), hooks=[Slow()])

    async def main() -> None:
        world = new_world()
        await play(world, make, ["go"])
        (at,) = [moment for moment in world.moments if moment.where == "hook"]
        resumed = new_world(at.sessions, at.effects)
        await play(resumed, make, ["go"])
        assert resumed.model_calls == 0

    run_virtual(main())
