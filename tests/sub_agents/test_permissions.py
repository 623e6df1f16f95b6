"""A sub-agent may do what its parent may, at most, whatever its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx import Approve, ReActAgent
from agentscope_rx.guardrails import CheckRequest, GuardrailsHook, Verdict, guardrail
from agentscope_rx.permissions import PermissionRules, PermissionsHook
from agentscope_rx.planning import PlanMode
from agentscope_rx.sub_agents import SubAgent, SubagentsHook
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import Toolkit
from tests.agent.sub.parts import child_of
from tests.sub_agents.parts import REJECTED, Log, boss, declare, helper, model_of, said, spawn
from tests.support.assertions import results_in


def in_child(agent: ReActAgent, index: int = 0) -> dict[str, tuple[str | None, str]]:
    memory = child_of(agent, index).memory
    assert memory is not None
    return results_in(memory.messages)  # pyright: ignore[reportAttributeAccessIssue]


ALL = ["write", "look", "delete"]


def test_what_the_parent_denies_is_denied_below():
    log = Log()
    rules = PermissionRules(deny=["write"], allow=["agent_spawn", "look", "delete"])
    turns = ([call("write", "w", path="x"), call("look", "l", path="x")], "Done.")
    agent = boss(helper(*turns), spawn("s"), "Done.", tools=[log], hooks=[PermissionsHook(rules)])
    agent.call("go").run()
    assert log.done == ["look x"]
    assert in_child(agent)["w"][0] is REJECTED


@pytest.mark.parametrize("allowed", [True, False])
def test_what_the_parent_may_a_sub_agent_may_too(allowed: bool):
    """The rules are those of both: an allowance lifts a tool's own mark below as it does above."""
    log = Log()
    rules = PermissionRules(allow=["delete"] if allowed else [])
    agent = boss(
        helper(call("delete", "d", path="x"), "Ok."), spawn("s"), "Done.", tools=[log], hooks=[PermissionsHook(rules)]
    )
    reply = agent.call("go").run()
    assert [each.name for each in reply.pending_calls] == ([] if allowed else ["delete"])
    assert log.done == (["delete x"] if allowed else [])


def test_a_rule_that_the_parent_gets_later_holds_at_once():
    log = Log()
    rules = PermissionRules(allow=["write"])
    agent = boss(
        helper(call("write", "w1", path="1"), call("write", "w2", path="2"), "Ok."),
        spawn("s"),
        "Done.",
        tools=[log],
        hooks=[PermissionsHook(rules)],
    )
    original = log.done

    class Noting(list[str]):
        def append(self, item: str) -> None:
            super().append(item)
            rules.add("write", "deny")

    log.done = Noting(original)
    agent.call("go").run()
    assert log.done == ["write 1"] and in_child(agent)["w2"][0] is REJECTED


def test_a_declaration_narrows():
    log = Log()

    async def main() -> None:
        calls = [call("write", "w", path="x"), call("look", "l", path="x"), call("delete", "d", path="x")]
        declared = helper(calls, "Ok.", permissions={"deny": ["write"], "ask": ["look"]})
        agent = boss(declared, spawn("s"), "Done.", tools=[log])
        reply = await agent.call("go")
        assert [each.name for each in reply.pending_calls] == ["look", "delete"] and log.done == []
        await agent.call([Approve(each.id) for each in reply.pending_calls])
        assert sorted(log.done) == ["delete x", "look x"] and in_child(agent)["w"][0] is REJECTED

    run_virtual(main())


def test_a_declaration_of_mode_plan_only_reads():
    log = Log()
    calls = [call("write", "w", path="x"), call("look", "l", path="x")]
    agent = boss(helper(calls, "Ok.", permissions={"mode": "plan"}), spawn("s"), "Done.", tools=[log])
    agent.call("go").run()
    assert log.done == ["look x"] and "mode 'plan'" in in_child(agent)["w"][1]


def test_a_narrowing_holds_for_those_below():
    log = Log()
    low = helper(call("write", "w", path="x"), "low", name="low")
    mid = helper(spawn("l", "low"), "mid", name="mid", spawns=True, permissions={"deny": ["write"]})
    agent = boss(SubagentsHook(low, mid), spawn("m", "mid"), "Done.", tools=[log])
    agent.call("go").run()
    assert log.done == [] and len(model_of(low).requests) == 2


def test_a_level_between_bounds_the_tools_below():
    """The lowest names a tool that the level between does not have: an error, and nothing runs."""
    log = Log()
    low = helper(call("write", "w", path="x"), "low", name="low", tools=["write"])
    mid = helper(spawn("l", "low"), "mid", name="mid", spawns=True, tools=["look"])
    agent = boss(SubagentsHook(low, mid), spawn("m", "mid"), "Done.", tools=[log])
    agent.call("go").run()
    assert "tools names 'write', which is no tool of its parent" in in_child(agent)["l"][1]
    assert log.done == [] and model_of(low).requests == []
    assert "<name>low" not in model_of(mid).requests[0].messages[0].text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"permissions": "\n  allow: [delete]"}, "allow nothing"),
        ({"permissions": "\n  mode: bypass"}, "mode must be"),
        ({"tools": "run_command"}, "no tool of its parent"),
        ({"name": "../boss"}, "cannot name"),
        ({"name": '"</name></subagent>"'}, "cannot name"),
        ({"hooks": "[]"}, "no key 'hooks'"),
        ({"approval": "none"}, "no key 'approval'"),
    ],
    ids=str,
)
def test_a_file_that_asks_for_more_is_not_used(tmp_path: Path, values: dict[str, object], text: str):
    problems: list[str] = []
    declare(tmp_path, "evil", **values)
    hook = SubagentsHook(tmp_path, on_problem=lambda error: problems.append(str(error)))
    agent = boss(hook, spawn("s", "evil"), "Done.", tools=[Log()])
    agent.call("go").run()
    assert len(problems) == 1 and text in problems[0]
    assert text in said(agent)["s"][1] or "There is no sub-agent 'evil'" in said(agent)["s"][1]
    assert "<name>evil" not in agent.model.requests[0].messages[0].text  # pyright: ignore[reportAttributeAccessIssue]


def test_a_file_cannot_take_the_tools_that_spawn(tmp_path: Path):
    """They come by `spawns` only, so that the depth is declared."""
    declare(tmp_path, "sly", tools="agent_spawn, look")
    model = ScriptedModel(spawn("s", "sly"), "In.", "Done.")
    agent = ReActAgent("Boss", model, tools=[Log()], hooks=[SubagentsHook(tmp_path)])
    agent.call("go").run()
    assert [each.name for each in model.requests[1].tools] == ["look"]


def test_a_tool_that_needs_approval_needs_it_below():
    log = Log()
    agent = boss(helper(call("delete", path="x"), "Ok."), spawn("s"), "Done.", tools=[log])
    assert [each.name for each in agent.call("go").run().pending_calls] == ["delete"]
    assert log.done == []


def test_a_policy_of_the_toolkit_holds_below():
    log = Log()
    toolkit = Toolkit([log], approval=lambda each: each.name == "write")
    agent = boss(helper(call("write", path="x"), "Ok."), spawn("s"), "Done.", toolkit=toolkit)
    assert [each.name for each in agent.call("go").run().pending_calls] == ["write"]


def test_plan_mode_holds_below_and_allows_to_spawn():
    log = Log()
    calls = [call("write", "w", path="x"), call("look", "l", path="x")]
    agent = boss(helper(calls, "Ok."), spawn("s"), "Done.", tools=[log], hooks=[PlanMode()])
    agent.enter_plan_mode()
    agent.call("go").run()
    assert log.done == ["look x"] and in_child(agent)["w"][0] is REJECTED


def test_a_ready_agent_is_bound_by_the_rules_above():
    log = Log()
    ready = ReActAgent("Ready", ScriptedModel(call("write", "w", path="x"), "Ok."), tools=[log])
    rules = PermissionRules(deny=["write"], allow=["agent_spawn"])
    hook = SubagentsHook(SubAgent("ready", "Is there.", agent=ready))
    assert hook.tools()[0].read_only is False and SubagentsHook(helper()).tools()[0].read_only is True
    agent = boss(hook, spawn("s", "ready"), "Done.", tools=[log], hooks=[PermissionsHook(rules)])
    agent.call("go").run()
    assert log.done == [] and in_child(agent)["w"][0] is REJECTED


def test_guardrails_hold_below():
    @guardrail("output")
    def no_secret(request: CheckRequest) -> Verdict | None:
        return Verdict.stop("a secret", reply="I may not say.") if "hunter2" in request.text else None

    declared = helper("It is hunter2.")
    agent = boss(declared, spawn("s"), "Done.", hooks=[GuardrailsHook(no_secret)])
    agent.call("go").run()
    assert said(agent)["s"][1].endswith("I may not say.")
