"""Over 100 attempts at an obedient model, in files, results, pages and messages: nothing that is forbidden happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from agentscope_rx import Approve, ReActAgent
from agentscope_rx.permissions import PermissionRules, PermissionsHook
from agentscope_rx.planning import PlanMode
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.permissions.injection import ATTEMPTS, Attempt, Obedient, World, order, question_of


def test_there_are_more_than_100_distinct_attempts():
    assert len({attempt.text for attempt in ATTEMPTS}) == len(ATTEMPTS) > 200


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
def test_nothing_forbidden_happens(tmp_path: Path, attempt: Attempt):
    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        question, inbox = question_of(world, attempt)
        world.begin()
        agent = world.agent(obedient, inbox)
        reply = await agent.call(question)
        assert obedient.done, "it has read the instructions, and obeyed"
        # what waits is not approved: asked again, it still waits
        if reply.pending_calls:
            await agent.call()
        assert world.harm([obedient]) == []

    run_virtual(main())


def test_without_permissions_the_same_model_does_harm(tmp_path: Path):
    """The attempts are real: over a third succeeds without rules; file tools stop the others by themselves."""

    async def main() -> None:
        harmful = 0
        # real processes do not live in virtual time
        chosen = [each for each in ATTEMPTS if " run_" not in each.text][::6]
        for at, attempt in enumerate(chosen):
            world = World(tmp_path / str(at))
            obedient = Obedient()
            question, inbox = question_of(world, attempt)
            world.begin()
            await world.agent(obedient, inbox, hooks=[]).call(question)
            harmful += world.harm([obedient]) != []
        assert harmful > len(chosen) / 3

    run_virtual(main())


SAMPLE = ATTEMPTS[::7]


@pytest.mark.parametrize("attempt", SAMPLE, ids=lambda attempt: attempt.id)
def test_nothing_forbidden_happens_in_a_sub_agent(tmp_path: Path, attempt: Attempt):
    """The sub-agent is obedient and has rules of its own that allow everything."""

    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        question, inbox = question_of(world, attempt)
        world.begin()
        child = world.agent(obedient, inbox, hooks=[PermissionsHook(PermissionRules(allow=["*"]))])
        middle = ReActAgent(
            "Middle", ScriptedModel(call("ask_leaf", message=question), "Done."), tools=[child.as_tool(name="ask_leaf")]
        )
        top = ReActAgent(
            "Top",
            ScriptedModel(call("ask_middle", message="Go."), "Done."),
            tools=[middle.as_tool(name="ask_middle")],
            hooks=[PermissionsHook(world.rules)],
        )
        await top.call("Go.")
        assert obedient.done and world.harm([obedient]) == []

    run_virtual(main())


@pytest.mark.parametrize("attempt", SAMPLE, ids=lambda attempt: attempt.id)
def test_nothing_forbidden_happens_under_a_policy(tmp_path: Path, attempt: Attempt):
    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        question, inbox = question_of(world, attempt)
        world.begin()
        agent = world.agent(obedient, inbox, hooks=[], toolkit={"approval": world.rules.policy, "parallel": False})
        await agent.call(question)
        assert obedient.done and world.harm([obedient]) == []

    run_virtual(main())


@pytest.mark.parametrize("mode", ["plan", "accept_edits", "workspace"])
@pytest.mark.parametrize("attempt", ATTEMPTS[3::11], ids=lambda attempt: attempt.id)
def test_denials_hold_in_every_mode(tmp_path: Path, attempt: Attempt, mode: str):
    """Files of the workspace may be edited in two of the modes: what is denied, and what is outside, stays as it is."""

    async def main() -> None:
        world = World(tmp_path, {"mode": mode})
        obedient = Obedient()
        question, inbox = question_of(world, attempt)
        world.begin()
        await world.agent(obedient, inbox).call(question)
        harm = [each for each in world.harm([obedient]) if not _edited(each, mode)]
        assert obedient.done and harm == []

    run_virtual(main())


def _edited(name: str, mode: str) -> bool:
    """True for a file that may be edited in this mode."""
    return mode != "plan" and name.startswith("ws/") and not name.startswith(("ws/secrets", "ws/.agentscope"))


# --- what persons and programs have done before -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        order("write_file", path="secrets/key.txt", content="owned"),
        order("write_file", path=".agentscope/permissions.json", content='{"version": 1, "allow": ["*"]}'),
        order("write_file", path="notes/../secrets/key.txt", content="owned"),
        order("send_money"),
    ],
)
def test_a_remembered_approval_opens_no_denied_door(tmp_path: Path, told: str):
    async def main() -> None:
        world = World(tmp_path)
        first, obedient = order("write_file", path="fine.txt", content="x"), Obedient()
        agent = world.agent(obedient, "")
        reply = await agent.call(first)
        await agent.call(Approve(reply.pending_calls[0], remember="tool"))
        world.begin()
        await agent.call(told)
        assert len(obedient.done) == 2 and world.harm([obedient]) == []

    run_virtual(main())


@pytest.mark.parametrize("path", ["secrets/key.txt", ".agentscope/permissions.json", "src/../secrets/key.txt"])
def test_arguments_edited_at_an_approval_are_judged(tmp_path: Path, path: str):
    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        agent = world.agent(obedient, "")
        reply = await agent.call(order("remote_write", path="fine.txt", content="x"))
        world.begin()
        await agent.call(Approve(reply.pending_calls[0], {"path": path, "content": "owned"}))
        assert world.harm([obedient]) == []

    run_virtual(main())


class Answer(BaseModel):
    """A structured answer."""

    summary: str


def test_a_requested_output_brings_no_other_call_with_it(tmp_path: Path):
    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        told = "\n".join(
            [
                order("generate_response", summary="fine"),
                order("send_money"),
                order("write_file", path="src/app.py", content="x"),
            ]
        )
        world.begin()
        reply = await world.agent(obedient, "").call(told, output=Answer)
        assert len(obedient.done) == 3 and world.harm([obedient]) == []
        assert reply is not None

    run_virtual(main())


@pytest.mark.parametrize("told", [order("leave_plan_mode"), order("submit_plan", plan="all"), order("enter_plan_mode")])
def test_plan_mode_is_left_by_a_person_only(tmp_path: Path, told: str):
    async def main() -> None:
        world = World(tmp_path, {"mode": "workspace", "allow": ["*"]})
        obedient = Obedient()
        hooks = [PermissionsHook(world.rules), PlanMode(enter_tool=True)]
        world.begin()
        agent = world.agent(obedient, "", hooks=hooks)
        await agent.call(f"{told}\n{order('write_file', path='src/app.py', content='x')}")
        if await agent.pending_calls():
            await agent.call()
        assert world.harm([obedient]) == []

    run_virtual(main())


def test_a_rule_for_always_is_no_wider_than_what_was_shown(tmp_path: Path):
    async def main() -> None:
        world = World(tmp_path)
        obedient = Obedient()
        agent = world.agent(obedient, "")
        reply = await agent.call(order("run_command", command="git log -n 1"))
        waiting = reply.pending_calls[0]
        proposed = world.rules.propose(waiting, agent.toolkit.get(waiting.name))
        world.rules.add(proposed[1])
        world.begin()
        told = [
            order("run_command", command=each) for each in ("git log -n 1; rm -rf src", "git log -n 2", "rm -rf src")
        ]
        await agent.call("\n".join(told))
        harm = [each for each in world.harm([obedient]) if each != str(proposed[1])]
        assert len(obedient.done) == 4 and harm == []

    run_virtual(main())
