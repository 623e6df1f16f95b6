"""A call that had begun when its process ended: it is told, run again or failed, and never silently run twice."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from agentscope_rx import Approve, Msg, ReActAgent, Reject, tool
from agentscope_rx.cli.approval import to_approve
from agentscope_rx.errors import ConfigurationError, InvalidInputError, PendingCallsError, ToolDefinitionError
from agentscope_rx.messages import GenerateReason, ToolResultBlock, ToolResultKind
from agentscope_rx.session import copy_session
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.durable.crashes import NotingMemory, World, new_world
from tests.agent.durable.test_every_moment import acting, use


def agent(world: World, *turns: object, **options: Any) -> ReActAgent:
    tools = options.pop("tools", None) or acting(world)
    return ReActAgent("A", ScriptedModel(*turns), tools=tools, memory=NotingMemory(world), **options)


async def killed(where: str, *calls: object, tools: Any = None) -> World:
    """The world after a run with these calls was killed at the last such moment."""
    world = new_world()
    lost = agent(world, list(calls), "never seen", tools=None if tools is None else tools(world))
    await lost.bind(world.session, "k", checkpoint="stage")
    await lost.call("go")
    at = [moment for moment in world.moments if moment.where == where][-1]
    left = new_world(at.sessions, at.effects)
    left.recording = False
    return left


async def resumed(world: World, *turns: object, **options: Any) -> ReActAgent:
    found = agent(world, *turns, **options)
    assert await found.bind(world.session, "k", checkpoint="stage")
    return found


async def results(of: ReActAgent) -> list[tuple[str, str, ToolResultKind | None]]:
    return [(block.id, block.text, block.kind) for message in await of.memory.get() for block in message.tool_results]


def test_the_caller_is_asked_and_may_answer_in_parts():
    async def main() -> None:
        world = await killed("after save 5", use("c1", "a"), use("c2", "b"), use("c3", "c"))
        world.effects.clear()
        first = await resumed(world, "never")
        assert [call.in_doubt for call in await first.pending_calls()] == [True, True, True]
        reply = await first.call()
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [(call.id, call.in_doubt) for call in reply.pending_calls] == [("c1", True), ("c2", True), ("c3", True)]
        assert {block.kind for block in reply.tool_results} == {ToolResultKind.IN_DOUBT}
        # answered in another order, and after another restart
        second = await resumed(world, "never")
        reply = await second.call(Reject("c2", "it is done"))
        assert [call.id for call in reply.pending_calls] == ["c1", "c3"]
        third = await resumed(world, "Well.")
        reply = await third.call([Msg.tool([ToolResultBlock("c3", "act", "given")]), Approve("c1")])
        assert reply.text == "Well." and world.effects == ["a"]
        assert sorted(await results(third), key=lambda each: each[0]) == [
            ("c1", "did a", None),
            ("c2", "Error: it is done", ToolResultKind.REJECTED),
            ("c3", "given", None),
        ]
        assert not (await world.session.load_all("k")).lists["journal"]

    run_virtual(main())


@pytest.mark.parametrize("where", ["before a", "after a"])
@pytest.mark.parametrize("policy", ["run", "fail"])
def test_the_policy_of_the_agent_decides(where: str, policy: Literal["run", "fail"]):
    async def main() -> None:
        world = await killed(where, use("c1", "a"))
        before = list(world.effects)
        again = await resumed(world, "Well.", in_doubt=policy)
        assert (await again.call()).text == "Well."
        assert world.effects == [*before, *(["a"] if policy == "run" else [])]
        ((_, text, kind),) = await results(again)
        assert kind is (None if policy == "run" else ToolResultKind.INTERRUPTED)
        assert policy == "run" or "not known" in text

    run_virtual(main())


def test_the_policy_of_the_tool_goes_before():
    async def main() -> None:
        world = await killed("after a", use("c1", "a", "risk"))
        again = await resumed(world, "Well.", in_doubt="run")
        assert (await again.call()).text == "Well." and world.effects == ["a"]

    run_virtual(main())


@pytest.mark.parametrize("policy", ["recover", "error"])
def test_other_input_closes_the_calls_with_what_is_known(policy: Literal["recover", "error"]):
    async def main() -> None:
        # one has ended, one has begun, and one has not
        world = await killed("after b", use("c1", "a"), use("c2", "b"), use("c3", "c", "ask"))
        again = await resumed(world, "Well.", pending=policy)
        if policy == "error":
            with pytest.raises(PendingCallsError):
                await again.call("something else")
            return
        assert (await again.call("something else")).text == "Well."
        first, second, third = await results(again)
        assert first == ("c1", "did a", None)
        assert second[2] is ToolResultKind.INTERRUPTED and "not known" in second[1]
        assert third[2] is ToolResultKind.INTERRUPTED and "no effect" in third[1]
        assert world.effects == ["a", "b"]
        assert not (await world.session.load_all("k")).lists["journal"]

    run_virtual(main())


@pytest.mark.spec("W73")
def test_the_same_input_resumes_and_is_not_remembered_twice():
    async def main() -> None:
        world = await killed("after a", use("c1", "a"))
        again = await resumed(world, "Well.", in_doubt="fail")
        assert (await again.call("go")).text == "Well."
        assert [message.text for message in await again.memory.get() if message.role == "user"] == ["go"]

    run_virtual(main())


def test_the_journal_counts_without_checkpoints_within_runs():
    async def main() -> None:
        world = await killed("after a", use("c1", "a"))
        again = agent(world, "Well.")
        await again.bind(world.session, "k")
        assert (await again.call()).pending_calls[0].in_doubt
        third = agent(world, "Well.")
        await third.bind(world.session, "k")
        assert (await third.pending_calls())[0].in_doubt
        assert (await third.call(Approve("c1"))).text == "Well."
        assert world.effects == ["a", "a"]

    run_virtual(main())


def test_an_edit_of_the_caller_is_run_again_as_edited():
    async def main() -> None:
        world = new_world()
        lost = agent(world, use("c1", "a", "ask"), "never seen")
        await lost.bind(world.session, "k", checkpoint="stage")
        await lost.call("go")
        await lost.call(Approve("c1", {"name": "edited"}))
        at = next(moment for moment in world.moments if moment.where == "before edited")
        left = new_world(at.sessions, at.effects)
        again = await resumed(left, "Well.")
        (call,) = (await again.call()).pending_calls
        assert call.in_doubt and call.input == {"name": "edited"}
        assert (await again.call(Approve("c1"))).text == "Well." and left.effects == ["edited"]

    run_virtual(main())


def test_calls_that_wait_or_are_suspended_have_not_begun():
    def tools(world: World) -> list[object]:
        from agentscope_rx.errors import ToolSuspend

        @tool
        async def outside(name: str) -> str:
            """Is answered elsewhere."""
            raise ToolSuspend("wait")

        return [*acting(world), outside]

    async def main() -> None:
        world = await killed("after b", use("c1", "a", "outside"), use("c2", "b"), use("c3", "c", "ask"), tools=tools)
        again = await resumed(world, "never", tools=tools(world))
        reply = await again.call()
        doubts = {call.id: call.in_doubt for call in reply.pending_calls}
        assert doubts == {"c1": False, "c2": True, "c3": False}

    run_virtual(main())


def test_read_only_and_idempotent_tools_are_not_in_the_journal():
    keys: list[str] = []

    def tools(world: World) -> list[object]:
        @tool(read_only=True)
        async def look(name: str) -> str:
            """Change nothing."""
            return world.effect(name)

        @tool(idempotent=True)
        async def put(name: str, context: Any = None) -> str:
            """Change it once."""
            return world.effect(name)

        return [look, put]

    async def main() -> None:
        world = await killed("after b", use("c1", "a", "look"), use("c2", "b", "put"), tools=tools)
        assert "journal" not in (await world.session.load_all("k")).lists
        again = await resumed(world, "Well.", tools=tools(world))
        assert (await again.call()).text == "Well." and world.effects == ["a", "b", "a", "b"]
        assert not keys

    run_virtual(main())


def test_bad_choices_are_refused():
    async def main() -> None:
        with pytest.raises(ConfigurationError, match="in_doubt"):
            agent(new_world(), "x", in_doubt="never")
        with pytest.raises(ToolDefinitionError, match="in_doubt"):
            tool(in_doubt="no")(bad_choice)
        world = new_world()
        with pytest.raises(ConfigurationError, match="checkpoint"):
            agent(world, "x").bind(world.session, "k", checkpoint="always")
        with pytest.raises(ConfigurationError, match="check_running"):
            agent(world, "x", check_running=False).bind(world.session, "k", checkpoint="stage")
        left = await killed("after a", use("c1", "a"))
        again = await resumed(left, "Well.")
        with pytest.raises(InvalidInputError, match="not pending"):
            await again.call(Approve("c9"))
        assert (await again.call()).pending_calls[0].in_doubt

    run_virtual(main())


def bad_choice() -> None:
    """Do nothing."""


def test_the_terminal_asks_for_calls_in_doubt():
    async def main() -> None:
        world = await killed("after a", use("c1", "a"))
        reply = await (await resumed(world, "never")).call()
        assert [call.id for call in to_approve(reply)] == ["c1"]

    run_virtual(main())


@pytest.mark.parametrize("way", ["back", "fork", "copy", "save elsewhere"])
def test_a_call_stays_in_doubt_wherever_one_goes_on(way: str):
    async def main() -> None:
        world = await killed("before b", use("c1", "a"), use("c2", "b"))
        session, key = world.session, "k" if way == "back" else "other"
        last = (await session.history("k"))[-1]
        if way == "fork":
            await session.fork("k", at=last, to=key)
        elif way == "copy":
            await copy_session("k", session, session, to=key)
        elif way == "save elsewhere":
            await (first := agent(world)).load(session, "k")
            await first.save(session, key)
        again = agent(world, "Well.")
        assert await again.load(session, key, at=last if way == "back" else None)
        reply = await again.call()
        # the other one has a recorded result
        assert [(call.id, call.in_doubt) for call in reply.pending_calls] == [("c2", True)]
        assert world.effects == ["a"]
        assert (await again.call(Approve("c2"))).text == "Well." and world.effects == ["a", "b"]

    run_virtual(main())


@pytest.mark.parametrize("way", ["back", "fork"])
def test_a_call_made_after_going_back_is_another_one(way: str):
    async def main() -> None:
        world = await killed("before b", use("c1", "a"), use("c2", "b"))
        again = agent(world, use("c2", "other"), "Well.")
        if way == "fork":
            await world.session.fork("k", at=1, to="other")
            await again.bind(world.session, "other", checkpoint="stage")
        else:
            await again.bind(world.session, "k", checkpoint="stage")
            await again.load(world.session, "k", at=1)
        # with the id of one that had begun in the course that was left
        assert (await again.call()).text == "Well."
        assert world.effects == ["a", "other"]
        key = "other" if way == "fork" else "k"
        assert not (await world.session.load_all(key)).lists["journal"]

    run_virtual(main())


def test_a_call_stays_in_doubt_at_an_earlier_checkpoint():
    async def main() -> None:
        world = await killed("before b", use("c1", "a"), use("c2", "b"))
        lost = (await world.session.history("k"))[-1]
        # it ends by asking, which is a checkpoint of its own
        await (await resumed(world, "never")).call()
        assert (await world.session.history("k"))[-1].id > lost.id
        again = agent(world, "Well.")
        assert await again.load(world.session, "k", at=lost)
        reply = await again.call()
        assert [(call.id, call.in_doubt) for call in reply.pending_calls] == [("c2", True)]
        # the other one has its result in what was left: like all that was done since, it is done again
        assert world.effects == ["a", "a"]

    run_virtual(main())
