"""A run that is killed at any moment goes on in another process, and ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable

from agentscope_rx import ReActAgent, tool
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.testing.scripted_model import ScriptedRequest
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment


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


def model(world: World, script: Callable[[str, int], object]) -> ScriptedModel:
    def step(request: ScriptedRequest) -> object:
        world.note("model call")
        world.model_calls += 1
        return script(*asked(request.messages))

    return ScriptedModel(step, repeat=True)


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
