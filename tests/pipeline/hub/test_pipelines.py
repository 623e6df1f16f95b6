"""Pipelines in hubs, around hubs and as members of hubs: who has heard what, each once, in the order of the hub."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Agent, InMemoryMemory, Msg, MsgHub
from agentscope_rx.pipeline import (
    FanOutPipeline,
    Handoffs,
    LoopPipeline,
    Pipeline,
    Program,
    Progress,
    SequentialPipeline,
    Step,
    fanout_pipeline,
    sequential_pipeline,
)
from agentscope_rx.testing import Delay, call, run_virtual
from tests.pipeline.hub.parts import talker, texts
from tests.pipeline.parts import assert_whole, remembered


def said_by(*names: str, turns: int = 9) -> list[Agent]:
    return [talker(name, *(f"{name}{turn}" for turn in range(turns))) for name in names]


async def in_hub(agents: list[Agent], pipeline: Agent, *calls: str | None) -> list[list[str]]:
    async with MsgHub(agents):
        for each in calls:
            await pipeline.call(each)
    return [await texts(agent) for agent in agents]


def test_a_sequence_in_a_hub_is_heard_once_by_all():
    async def main() -> None:
        agents = said_by("a", "b", "c")
        async with MsgHub(agents, announcement=Msg.user("hi", name="Host")):
            await sequential_pipeline(agents)
        for agent in agents:
            assert await texts(agent) == ["Host: hi", "a: a0", "b: b0", "c: c0"]

    run_virtual(main())


@pytest.mark.parametrize("at_most", [None, 1])
def test_a_fan_out_in_a_hub_is_heard_once_by_all(at_most: int | None):
    async def main() -> None:
        a, b, c = (talker(name, [Delay(wait), name * 2]) for name, wait in (("a", 3), ("b", 1), ("c", 2)))
        async with MsgHub([a, b, c]) as hub:
            await fanout_pipeline([a, b, c], "go", at_most=at_most)
        said = [each.message.text for each in [event async for event in hub.events] if each.message]
        assert said == (["bb", "cc", "aa"] if at_most is None else ["aa", "bb", "cc"])
        for agent in (a, b, c):
            assert sorted(each[-2:] for each in await texts(agent)) == ["aa", "bb", "cc", "go"]

    run_virtual(main())


def test_the_rounds_of_a_loop_in_a_hub_are_heard_once():
    async def main() -> None:
        a, b = agents = said_by("a", "b")
        told = await in_hub(agents, LoopPipeline([a, b], max_rounds=3), "x")
        spoken = ["a: a0", "b: b0", "a: a1", "b: b1", "a: a2", "b: b2"]
        assert told == [["user: x", *spoken], spoken]

    run_virtual(main())


@pytest.mark.parametrize("depth", [1, 3])
def test_what_a_pipeline_passes_on_was_heard_already(depth: int):
    async def main() -> None:
        a, b, c = said_by("a", "b", "c")
        team: Agent = SequentialPipeline([a, b], "P1")
        for number in range(1, depth):
            team = SequentialPipeline([team], f"P{number + 1}")
        told = await in_hub([team, a, b, c], team, "x")
        assert told[1:] == [["user: x", "a: a0", "b: b0"], ["a: a0", "b: b0"], ["a: a0", "b: b0"]]

    run_virtual(main())


def test_a_changed_reply_of_a_pipeline_is_heard():
    class Loud(Pipeline):
        def program(self, progress: Progress) -> Program:
            if progress.last is None:
                return Step("a")
            return progress.last.value.replace(content="A0!")

    async def main() -> None:
        a, c = said_by("a", "c")
        team = Loud("Loud", [a])
        told = await in_hub([team, a, c], team, "x")
        assert told[2] == ["a: a0", "Loud: A0!"]

    run_virtual(main())


def test_members_are_told_what_their_pipeline_has_heard():
    async def main() -> None:
        a, b, c = said_by("a", "b", "c")
        team = SequentialPipeline([a, b], "P")
        async with MsgHub([team, c]):
            await team.call("x")
            await c.call()
            await team.call()
            await c.call()
            await team.call("y")
        assert await texts(a) == ["user: x", "a: a0", "c: c0", "a: a1", "c: c1", "user: y", "a: a2"]
        assert await texts(c) == ["P: b0", "c: c0", "P: b1", "c: c1", "P: b2"]

    run_virtual(main())


def test_handoffs_are_one_member_by_the_name_of_who_answers():
    async def main() -> None:
        first, second, c = talker("f", [call("transfer_to_s")]), talker("s", "s0", "s1"), talker("c", "c0")
        desk = Handoffs("Desk", [first, second])  # type: ignore[list-item]
        async with MsgHub([desk, c]):
            await desk.call("x")
            await c.call()
            await desk.call()
        assert await texts(c) == ["s: s0", "c: c0", "s: s1"]
        assert (await texts(desk))[-3:] == ["s: s0", "c: c0", "s: s1"]

    run_virtual(main())


def test_other_conversations_of_members_are_not_in_the_hub():
    async def main() -> None:
        agents = said_by("a", "b", "c")
        async with MsgHub(agents):
            await SequentialPipeline(agents[:2]).call("x", memory=InMemoryMemory())
        assert [await texts(agent) for agent in agents] == [[], [], []]

    run_virtual(main())


@given(st.integers(0, 8), st.sampled_from(["cancel", "interrupt", "leave"]), st.booleans())
def test_a_pipeline_in_a_hub_ends_at_any_moment(at: int, how: str, side_by_side: bool):
    """Whatever ends it: each message that was said is heard once, in one order, by all that stay."""

    async def main() -> None:
        agents = [talker(name, [Delay(2), f"{name}0"], f"{name}1") for name in "abc"]
        pipeline = FanOutPipeline(agents) if side_by_side else SequentialPipeline(agents)
        async with MsgHub(agents) as hub:
            task = pipeline.call("x").as_task()
            await asyncio.sleep(0.1 + 0.9 * at)
            if how == "cancel":
                task.cancel()
            elif how == "interrupt":
                pipeline.interrupt()
            else:
                hub.delete(agents[2])
            await asyncio.wait([task])
            for agent in (pipeline, *agents):
                await agent.idle()
        said = [event.message.id for event in [each async for each in hub.events] if event.message is not None]
        for agent in agents:
            heard = [message.id for message in remembered(agent) if message.id in said]
            assert len(heard) == len(set(heard))
            if agent is not agents[2] or how != "leave":
                assert set(heard) == set(said)
            assert side_by_side or heard == [each for each in said if each in heard]
            assert not agent.running
        assert not pipeline.running
        await assert_whole(pipeline.conversation(), remembered(pipeline))

    run_virtual(main())
