"""A team whose process ends at any save of a run goes on in another one, to the same end, with each effect once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Agent, Msg, ReActAgent, tool
from agentscope_rx.pipeline import (
    GoalLoop,
    GoalOutcome,
    GoalVerdict,
    Handoff,
    Handoffs,
    Route,
    RouterPipeline,
    Supervisor,
    texts_only,
)
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.durable.crashes import World, new_world
from tests.pipeline.teams import assert_free, member, messages_of


def by_rounds(*answers: Any) -> ScriptedModel:
    """A model that answers by the number of results that it sees: it is the same in each process."""

    def answer(request: Any) -> Any:
        seen = sum(len(message.tool_results) for message in request.messages)
        return answers[min(seen, len(answers) - 1)]

    return ScriptedModel(*[answer] * 20)


def worker(world: World, name: str, *answers: Any) -> ReActAgent:
    @tool(in_doubt="run", idempotent=True)
    async def work() -> str:
        """Works."""
        return world.effect("work", "once")

    return ReActAgent(name, by_rounds(*answers), tools=[work])


def handoffs(world: World, **options: Any) -> Agent:
    triage = worker(world, "Triage", call("work"), [call("transfer_to_refunds"), call("work")])
    refunds = worker(world, "Refunds", "never", "never", "never", "done")
    return Handoffs("Desk", [triage, Handoff(refunds, history=None)], **options)


def supervisor(world: World, **options: Any) -> Agent:
    turns = [call("call_ann", message="go"), call("call_bob", message="go")]
    members = [worker(world, "Ann", call("work"), "a"), worker(world, "Bob", "b")]
    return Supervisor("Boss", by_rounds(turns, turns, "done"), members, **options)


def router(world: World, **options: Any) -> Agent:
    chooser = by_rounds(call("choose_member", choice="Ann"))
    return RouterPipeline(chooser, [Route(worker(world, "Ann", call("work"), "done"))], sticky=True, **options)


def goal_loop(world: World, **options: Any) -> Agent:
    async def judge(answer: Msg) -> GoalVerdict:
        return GoalVerdict(answer.text == "done", "more")

    coder = worker(world, "Coder", call("work"), "half")

    def answer(request: Any) -> Any:
        texts = [message.text for message in request.messages]
        results = [result for message in request.messages for result in message.tool_results]
        if any("<feedback>" in text for text in texts):
            return "done"
        return "half" if results else call("work")

    coder.model = ScriptedModel(*[answer] * 20)
    return GoalLoop(coder, judge, **options)


@pytest.mark.parametrize("make", [handoffs, supervisor, router, goal_loop])
def test_a_lost_process_changes_nothing(make: Callable[..., Agent]):
    async def first() -> World:
        world = new_world()
        team = make(world, session=world.session, session_key="k", checkpoint="stage")
        assert (await team.call("x")).text == "done"
        return world

    async def again(sessions: dict[str, object], effects: list[str]) -> None:
        world = new_world(sessions, effects)
        world.recording = False
        team = make(world, session=world.session, session_key="k", checkpoint="stage")
        reply = await team.call("x")
        assert reply.text == "done" and world.effects == ["work once"]
        assert_free(team)
        kinds = [result.kind for message in messages_of(team) for result in message.tool_results]
        assert set(kinds) == {None}
        if isinstance(team, Handoffs):
            assert team.active().name == "Refunds"
        if isinstance(team, GoalLoop):
            assert GoalOutcome.of(reply).rounds == 2

    world = run_virtual(first())
    moments = [moment for moment in world.moments if "save" in moment.where]
    assert len(moments) > 8
    for moment in moments[:-1]:
        run_virtual(again(dict(moment.sessions), list(moment.effects)))


NAMES = ("A", "B", "C")
ROUNDS = st.lists(st.lists(st.sampled_from([*NAMES, "look", "Z"]), max_size=3), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(ROUNDS, st.integers(1, 3), st.booleans())
def test_one_member_is_active_after_any_rounds(rounds: list[list[str]], most: int, filtered: bool):
    """The active member is the target of the last transfer that counts: the first of a round to another member."""

    @tool
    async def look() -> str:
        """Looks."""
        return "seen"

    def names(name: str) -> str:
        return "look" if name == "look" else f"transfer_to_{name.lower()}"

    script = iter([*([call(names(each)) for each in calls] or "stay" for calls in rounds), *["end"] * 9])

    def answer(request: Any) -> Any:
        return next(script)

    members = [member(name, *[answer] * 20, tools=[look]) for name in NAMES]
    given = [Handoff(each, history=texts_only) if filtered else each for each in members]
    team = Handoffs("Desk", given, max_handoffs=most)

    active, count = "A", 0
    for calls in rounds:
        if not calls:
            break
        first = next((each for each in calls if each in NAMES and each != active), None)
        if first is not None and count < most:
            active, count = first, count + 1
    reply = run_virtual(team.call("x"))
    assert (reply.name, team.active().name) == (active, active)
    assert_free(team)
