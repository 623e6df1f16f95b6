"""Depth, number and budget of sub-agents: each limit is a result that says what the model can do."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import InMemorySession, ReActAgent, UsageLimits
from agentscope_rx.agent import Price
from agentscope_rx.errors import ConfigurationError, UsageLimitError
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.sub_agents import SubAgent, SubAgentLimits, SubagentsHook
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import assert_all_whole
from tests.sub_agents.parts import FAILED, Log, assert_free, boss, helper, model_of, said, send, spawn


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_depth_ends_a_chain_of_agents(depth: int):
    """The last level gets an error, and does the task itself."""

    async def main() -> None:
        model = ScriptedModel(*(spawn(f"s{level}", "again") for level in range(depth + 1)), *["ok"] * (depth + 1))
        hook = SubagentsHook(SubAgent("again", "Again.", "Again.", spawns=True), limits=SubAgentLimits(depth=depth))
        agent = ReActAgent("Boss", model, hooks=[hook])
        await agent.call("go")
        refused = [
            message.text
            for request in model.requests
            for message in request.messages
            if message.tool_results and "levels deep" in str(message.tool_results[0].output)
        ]
        assert len(refused) == 1 and len(model.requests) == 2 * (depth + 1)
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


def test_at_most_so_many_work_at_once():
    async def main() -> None:
        declared = helper([Delay(1), "a"], [Delay(1), "b"])
        hook = SubagentsHook(declared, limits=SubAgentLimits(at_once=2))
        agent = boss(hook, [spawn("1"), spawn("2"), spawn("3")], send("4", "helper-1"), "Done.")
        model_of(declared).turns = (*model_of(declared).turns, ("again",))
        await agent.call("go")
        kind, text = said(agent)["3"]
        assert kind is FAILED and "2 sub-agents are working, and at most 2" in text
        assert said(agent)["4"][1].endswith("again"), "they are free again"
        assert_free(agent)

    run_virtual(main())


def test_those_that_wait_for_a_person_count_as_working():
    log = Log()

    async def main() -> None:
        declared = helper(call("delete", path="x"), "no", tools=["delete"])
        hook = SubagentsHook(declared, limits=SubAgentLimits(at_once=1))
        agent = boss(hook, [spawn("1"), spawn("2")], "Done.", tools=[log])
        reply = await agent.call("go")
        assert [each.name for each in reply.pending_calls] == ["delete"]
        assert "at most 1 may at once" in said(agent)["2"][1]

    run_virtual(main())


def test_the_total_counts_the_whole_tree_and_survives_a_load():
    session = InMemorySession()

    async def main() -> None:
        low = helper("low", name="low")
        mid = helper(spawn("l", "low"), "mid", name="mid", spawns=True)
        limits = SubAgentLimits(total=2)
        agent = boss(SubagentsHook(low, mid, limits=limits), spawn("m", "mid"), spawn("n", "low"), "Done.")
        await agent.call("go")
        kind, text = said(agent)["n"]
        assert kind is FAILED and "has started 2 sub-agents, and at most 2" in text and "agent_send" in text
        await agent.save(session, "k")
        hook = SubagentsHook(helper(name="low"), helper("On.", name="mid", spawns=True), limits=limits)
        other = boss(hook, [spawn("x", "low"), send("y", "mid-1")], "Done.")
        assert await other.load(session, "k")
        await other.call("go")
        assert "has started 2" in said(other)["x"][1] and said(other)["y"][1].endswith("On.")

    run_virtual(main())


def used(text: str, tokens: int) -> list[object]:
    return [text, ChatResponse(usage=ChatUsage(tokens, 0))]


def test_what_sub_agents_use_counts_for_their_parent():
    declared = helper(call("look", path="a"), call("look", path="b"), "never", tools=["look"])
    agent = boss(declared, spawn("s"), "Done.", tools=[Log()], limits=UsageLimits(model_calls=3))
    with pytest.raises(UsageLimitError):
        agent.call("go").run()
    assert len(model_of(declared).requests) == 2


def test_a_share_bounds_each_sub_agent():
    """Of eight calls the parent has made one: a half of seven are three."""
    log = Log()

    async def main() -> None:
        looks = [call("look", path=str(number)) for number in range(9)]
        declared = helper(*looks, tools=["look"])
        hook = SubagentsHook(declared, limits=SubAgentLimits(share=0.5))
        agent = boss(hook, spawn("s"), "Done.", tools=[log], limits=UsageLimits(model_calls=8))
        assert (await agent.call("go")).text == "Done."
        kind, text = said(agent)["s"]
        assert kind is FAILED and "model_calls" in text and "conversation_id" in text
        assert len(model_of(declared).requests) == 3
        await assert_all_whole(agent.conversation(), remembered(agent))

    run_virtual(main())


@pytest.mark.parametrize("own", [None, UsageLimits(total_tokens=30), UsageLimits(total_tokens=1000)])
def test_a_share_of_tokens_and_limits_of_its_own(own: UsageLimits | None):
    """The smaller one holds; half of what is left is 45."""

    async def main() -> None:
        looks = [[call("look", path=str(n)), ChatResponse(usage=ChatUsage(20, 0))] for n in range(9)]
        declared = helper(*looks, tools=["look"], limits=own)
        hook = SubagentsHook(declared, limits=SubAgentLimits(share=0.5))
        first = [spawn("s"), ChatResponse(usage=ChatUsage(10, 0))]
        agent = boss(hook, first, "Done.", tools=[Log()], limits=UsageLimits(total_tokens=100))
        assert (await agent.call("go")).text == "Done."
        assert len(model_of(declared).requests) == (2 if own and own.total_tokens == 30 else 3)

    run_virtual(main())


def test_a_share_of_costs_uses_the_prices_above():
    async def main() -> None:
        looks = [[call("look", path=str(n)), ChatResponse(usage=ChatUsage(1_000_000, 0))] for n in range(9)]
        declared = helper(*looks, tools=["look"])
        hook = SubagentsHook(declared, limits=SubAgentLimits(share=0.5))
        limits = UsageLimits(cost=6, prices={"scripted": Price(1, 1)})
        agent = boss(hook, spawn("s"), "Done.", tools=[Log()], limits=limits)
        assert (await agent.call("go")).text == "Done."
        assert len(model_of(declared).requests) == 3

    run_virtual(main())


def test_its_own_limits_end_it_with_a_result():
    declared = helper(call("look", path="x"), tools=["look"], limits=UsageLimits(model_calls=1))
    agent = boss(declared, spawn("s"), "Done.", tools=[Log()])
    assert agent.call("go").run().text == "Done."
    assert "model_calls" in said(agent)["s"][1]


def test_the_rounds_of_one_call_are_bounded():
    async def main() -> None:
        declared = helper(call("look", path="x"), call("look", path="y"), "A summary.", tools=["look"], max_iters=2)
        agent = boss(declared, spawn("s"), "Done.", tools=[Log()])
        await agent.call("go")
        assert said(agent)["s"][1].endswith("A summary.")

    run_virtual(main())


@pytest.mark.parametrize(
    "options",
    [{"depth": 0}, {"depth": 17}, {"at_once": 0}, {"total": 1.5}, {"share": 0}, {"share": 2}, {"share": True}],
    ids=str,
)
def test_a_limit_without_meaning_is_refused(options: dict[str, float]):
    with pytest.raises(ConfigurationError):
        SubAgentLimits(**options)  # pyright: ignore[reportArgumentType]


def test_two_hundred_at_once_with_one_failing_and_one_hanging():
    async def main() -> None:
        names = [f"a{number}" for number in range(200)]
        ok = [helper([Delay(1), f"{name} done"], name=name) for name in names]
        bad = helper(RuntimeError("no luck"), name="bad")
        stuck = helper([Delay(1000), "late"], name="stuck", limits=UsageLimits(deadline=20))
        hook = SubagentsHook(*ok, bad, stuck, limits=SubAgentLimits(at_once=300, total=300), max_tokens=100_000)
        calls = [spawn(name, name) for name in (*names, "bad", "stuck")]
        agent = boss(hook, calls, "Done.", tool_execution_config=None)
        agent.toolkit.max_concurrency = 300
        assert (await agent.call("go")).text == "Done."
        results = said(agent)
        assert [results[name][1].rpartition("\n")[2] for name in names] == [f"{name} done" for name in names]
        assert "no luck" in results["bad"][1] and "20 s" in results["stuck"][1]
        assert asyncio.get_running_loop().time() < 25
        assert_free(agent)

    run_virtual(main())
