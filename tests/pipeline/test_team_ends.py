"""Teams of each kind, ended from outside: a subscriber that throws or is slow, a deadline, a member that hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentscope_rx import Agent, GenerateReason, StreamOptions
from agentscope_rx.agent import UsageLimits
from agentscope_rx.errors import RunDeadlineError
from agentscope_rx.pipeline import (
    GoalEnd,
    GoalLoop,
    GoalOutcome,
    GoalVerdict,
    Handoffs,
    Route,
    RouterPipeline,
    Supervisor,
)
from agentscope_rx.testing import HANG, ScriptedModel, call, collect_dropped, run_virtual
from tests.pipeline.teams import all_events, assert_free, member


def handoffs(last: Any, **options: Any) -> Agent:
    return Handoffs("Team", [member("A", call("transfer_to_b"), "home"), member("B", last, "again")], **options)


def supervisor(last: Any, **options: Any) -> Agent:
    turns = [call("call_a", message="x"), "end", "again"]
    return Supervisor("Team", ScriptedModel(*turns), [member("A", last)], **options)


def router(last: Any, **options: Any) -> Agent:
    turns = [call("choose_member", choice="A")] * 2
    return RouterPipeline(ScriptedModel(*turns), [Route(member("A", last, "again"))], **options)


def goal_loop(last: Any, **options: Any) -> Agent:
    verdicts = [call("generate_response", done=False, feedback="more"), *[call("generate_response", done=True)] * 3]
    return GoalLoop(member("A", "one", last, "again"), member("B", *verdicts), **options)


TEAMS = pytest.mark.parametrize("make", [handoffs, supervisor, router, goal_loop])


@TEAMS
def test_a_subscriber_that_throws_at_each_event(make: Callable[..., Agent]):
    async def throws(at: int) -> bool:
        team, number, ended = make("b"), 0, asyncio.Event()

        def on_next(event: object) -> None:
            nonlocal number
            number += 1
            if number > at:
                raise ValueError("the subscriber's own")

        team.stream("x").subscribe(on_next, lambda error: ended.set(), ended.set)
        await asyncio.sleep(1)
        await team.idle()
        assert_free(team)
        await team.call("and now?")
        assert_free(team)
        return number > at

    at = 0
    with collect_dropped() as dropped:
        while run_virtual(throws(at)):
            at += 1
    assert at > 8 and len(dropped) == at


@TEAMS
def test_a_slow_reader_gets_all(make: Callable[..., Agent]):
    async def run() -> None:
        quick = [event.type for event in await all_events(make("b"), "x")]
        slow: list[str] = []
        team = make("b")
        async for event in team.stream("x", StreamOptions()):
            await asyncio.sleep(1)
            slow.append(event.type)
        assert slow == quick
        assert_free(team)

    run_virtual(run())


@TEAMS
def test_a_member_that_hangs_ends_at_the_deadline(make: Callable[..., Agent]):
    async def run() -> None:
        team = make([HANG], limits=UsageLimits(deadline=50))
        if isinstance(team, GoalLoop):
            outcome = GoalOutcome.of(await team.call("x"))
            assert outcome.end is GoalEnd.OUT_OF_BUDGET and outcome.rounds >= 1
        else:
            with pytest.raises(RunDeadlineError):
                await team.call("x")
        assert asyncio.get_running_loop().time() <= 50
        await team.idle()
        assert_free(team)

    run_virtual(run())


@TEAMS
def test_a_member_that_hangs_can_be_interrupted(make: Callable[..., Agent]):
    async def run() -> None:
        team = make([HANG])
        task = asyncio.ensure_future(team.call("x").as_task())
        await asyncio.sleep(5)
        team.interrupt()
        assert (await task).generate_reason is GenerateReason.INTERRUPTED
        assert_free(team)

    run_virtual(run())


def test_a_verifier_that_hangs_is_not_done():
    async def hangs(answer: Any) -> GoalVerdict:
        await asyncio.Event().wait()
        return GoalVerdict(True)

    async def run() -> None:
        loop = GoalLoop(member("A", "one"), hangs, limits=UsageLimits(deadline=50))
        outcome = GoalOutcome.of(await loop.call("x"))
        assert (outcome.end, outcome.rounds) == (GoalEnd.OUT_OF_BUDGET, 1)

    run_virtual(run())
