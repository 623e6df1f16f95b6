"""`PermissionsHook` and `rules.policy` in runs: verdicts, "always", edits, remembered approvals, sub-agents."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx import Approve, GenerateReason, ReActAgent, Reject, Toolkit, hook, tool
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreActingEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.permissions import PermissionRules, PermissionsHook
from agentscope_rx.planning import PlanMode
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools.files import FileTools
from tests.agent.parts import assert_whole
from tests.permissions.parts import workspace_in
from tests.support.assertions import results


def write(path: str, content: str = "new"):
    return call("write_file", path=path, content=content)


def friday(folder: Path, rules: PermissionRules, *turns: object, **options) -> ReActAgent:
    workspace = workspace_in(folder)
    options.setdefault("hooks", [PermissionsHook(rules)])
    toolkit = Toolkit([FileTools(workspace)], **options.pop("toolkit", {}))
    return ReActAgent("Friday", ScriptedModel(*turns), toolkit=toolkit, **options)


def written_in(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("a"))


def rules_in(folder: Path, **given) -> PermissionRules:
    return PermissionRules.load(workspace_in(folder), **given)


def kinds(agent: ReActAgent) -> list[ToolResultKind | None]:
    return [result.kind for result in results(agent.memory.messages)]


def test_each_call_runs_waits_or_is_refused(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path, deny=["*(secrets/**)"], allow=["write_file(src/**)"])
        batch = [write("secrets/a"), write("src/a"), write("notes/a")]
        agent = friday(tmp_path, rules, batch, "Done.")
        reply = await agent.call("Go.")
        assert [each.input["path"] for each in reply.pending_calls] == ["notes/a"]
        assert kinds(agent) == [ToolResultKind.REJECTED, None]
        assert "'*(secrets/**)' denies it" in results(agent.memory.messages)[0].text
        assert (await agent.call(Approve(reply.pending_calls[0]))).text == "Done."
        assert written_in(tmp_path) == ["notes/a", "src/a"]
        assert_whole(agent)

    run_virtual(main())


def test_always_keeps_a_rule_that_the_rest_of_the_batch_follows(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path)
        agent = friday(tmp_path, rules, [write("src/a"), write("src/b"), write("notes/c")], "Done.")
        reply = await agent.call("Go.")
        first = reply.pending_calls[0]
        proposed = rules.propose(first, agent.toolkit.get(first.name))
        rule = rules.add(next(each for each in proposed if each.path == "src/**"))
        reply = await agent.call(Approve(first))
        assert (tmp_path / "src/b").exists() and not (tmp_path / "notes/c").exists()
        assert [each.input["path"] for each in reply.pending_calls] == ["notes/c"]
        assert rules_in(tmp_path).allow == (rule,)
        assert (await agent.call(Reject(reply.pending_calls[0], "no"))).text == "Done."
        assert_whole(agent)

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
def test_a_denial_wins_over_a_remembered_approval(tmp_path: Path, parallel: bool):
    async def main() -> None:
        rules = rules_in(tmp_path)
        turns = [write("src/a"), [write("src/b"), write("secrets/c")], "Done."]
        agent = friday(tmp_path, rules, *turns, toolkit={"parallel": parallel})
        reply = await agent.call("Go.")
        rules.add("*(secrets/**)", "deny")
        assert (await agent.call(Approve(reply.pending_calls[0], remember="tool"))).text == "Done."
        assert (tmp_path / "src/b").exists() and not (tmp_path / "secrets/c").exists()

    run_virtual(main())


def test_a_denial_wins_over_what_a_person_edits(tmp_path: Path):
    async def main() -> None:
        agent = friday(tmp_path, rules_in(tmp_path, deny=["*(secrets/**)"]), write("src/a"), "Done.")
        reply = await agent.call("Go.")
        edited = {"path": "secrets/a", "content": ""}
        assert (await agent.call(Approve(reply.pending_calls[0], edited))).text == "Done."
        assert kinds(agent) == [ToolResultKind.REJECTED] and not (tmp_path / "secrets/a").exists()

    run_virtual(main())


def test_a_call_that_a_hook_changes_is_decided_anew(tmp_path: Path):
    async def main() -> None:
        target = "secrets/a"

        @hook(PreActingEvent)
        def twist(event: PreActingEvent) -> PreActingEvent:
            return event.replace(tool_use=event.tool_use.with_input({"path": target, "content": ""}))

        rules = rules_in(tmp_path, deny=["*(secrets/**)"], allow=["write_file(src/**)"])
        agent = friday(tmp_path, rules, write("src/a"), "Done.", hooks=[PermissionsHook(rules), twist])
        assert (await agent.call("Go.")).text == "Done." and kinds(agent) == [ToolResultKind.REJECTED]
        target = "notes/a"
        agent = friday(tmp_path, rules, write("src/a"), "Done.", hooks=[PermissionsHook(rules), twist])
        assert (await agent.call("Go.")).generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert not (tmp_path / "notes/a").exists() and not (tmp_path / "secrets/a").exists()

    run_virtual(main())


@pytest.mark.parametrize("form", ["hook", "policy"])
def test_the_arguments_of_the_run_are_decided_about(tmp_path: Path, form: str):
    async def main() -> None:
        rules = rules_in(tmp_path, deny=["*(secrets/**)"], allow=["write_file(src/**)"])
        options = {"hooks": [], "toolkit": {"approval": rules.policy}} if form == "policy" else {}
        agent = friday(tmp_path, rules, write("src/a"), "Done.", **options)
        context = RuntimeContext(tool_arguments={"write_file": {"path": "secrets/a"}})
        await agent.call("Go.", context=context)
        assert kinds(agent) == [ToolResultKind.REJECTED] and not (tmp_path / "secrets/a").exists()

    run_virtual(main())


def test_the_rules_are_a_toolkits_policy_too(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path, deny=["*(secrets/**)"], allow=["write_file(src/**)", "delete_file(src/**)"])
        (tmp_path / "src/old").write_text("")
        batch = [write("secrets/a"), write("src/a"), write("notes/a"), call("delete_file", path="src/old")]
        agent = friday(tmp_path, rules, batch, "Done.", hooks=[], toolkit={"approval": rules.policy})
        reply = await agent.call("Go.")
        assert [each.input["path"] for each in reply.pending_calls] == ["notes/a"]
        assert kinds(agent) == [ToolResultKind.REJECTED, None, None]
        # through no other door either
        items = [item async for item in agent.toolkit.call(write("secrets/b"))]
        assert items[-1].kind is ToolResultKind.REJECTED
        with pytest.raises(ConfigurationError):
            rules.policy(write("src/a"))

    run_virtual(main())


def test_rules_changed_within_a_run_hold_from_the_next_call_on(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path, allow=["*"])

        @tool(exclusive=True)
        def lock() -> str:
            """Locks."""
            rules.mode = "plan"
            return "locked"

        agent = friday(tmp_path, rules, [call("lock"), write("src/a")], "Done.")
        agent.toolkit.register(lock)
        assert (await agent.call("Go.")).text == "Done."
        assert kinds(agent) == [None, ToolResultKind.REJECTED] and not (tmp_path / "src/a").exists()

    run_virtual(main())


def test_a_link_made_by_a_call_before_leads_nowhere(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path, allow=["link(notes/**)", "put(notes/**)"])

        @tool(exclusive=True)
        def link(path: str) -> str:
            """Makes a link to src, on a server that checks nothing."""
            (tmp_path / path).symlink_to("../src")
            return "linked"

        @tool
        def put(path: str) -> str:
            """Writes, on a server that checks nothing."""
            (tmp_path / path).write_text("owned")
            return "written"

        agent = friday(tmp_path, rules, [call("link", path="notes/x"), call("put", path="notes/x/a")], "Done.")
        agent.toolkit.register_all([link, put])
        reply = await agent.call("Go.")
        assert [each.name for each in reply.pending_calls] == ["put"] and written_in(tmp_path) == []

    run_virtual(main())


# --- sub-agents -------------------------------------------------------------------------------------------------------


def levels(folder: Path, top: PermissionRules, middle: PermissionRules | None, leaf: PermissionRules | None, *turn):
    def hooks(rules: PermissionRules | None) -> list[PermissionsHook]:
        return [] if rules is None else [PermissionsHook(rules)]

    inner = friday(folder, PermissionRules(), list(turn), "Leaf done.", hooks=hooks(leaf))
    outer = ReActAgent(
        "Middle",
        ScriptedModel(call("leaf", message="Go."), "Done."),
        tools=[inner.as_tool(name="leaf")],
        hooks=hooks(middle),
    )
    turns = [call("middle", message="Go."), "All done."]
    return ReActAgent("Top", ScriptedModel(*turns), tools=[outer.as_tool(name="middle")], hooks=hooks(top)), inner


def test_rules_hold_three_levels_deep(tmp_path: Path):
    async def main() -> None:
        top = rules_in(tmp_path, deny=["*(secrets/**)"], allow=["middle", "leaf", "write_file(src/**)"])
        batch = [write("secrets/a"), write("src/a"), write("notes/a")]
        agent, _inner = levels(tmp_path, top, None, PermissionRules(allow=["*"]), *batch)
        reply = await agent.call("Go.")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        waiting = [each for each in reply.pending_calls if each.name == "write_file"]
        assert [each.input["path"] for each in waiting] == ["notes/a"] and waiting[0].id.count("/") == 2
        assert (await agent.call(Approve(waiting[0]))).text == "All done."
        written = written_in(tmp_path)
        assert written == ["notes/a", "src/a"]

    run_virtual(main())


@pytest.mark.parametrize("strict", [0, 1, 2])
@pytest.mark.parametrize("verdict", ["deny", "ask"])
def test_no_level_widens_what_another_restricts(tmp_path: Path, strict: int, verdict: str):
    async def main() -> None:
        rules = [PermissionRules(allow=["*"]) for _ in range(3)]
        rules[strict].add("write_file", verdict)
        agent, _inner = levels(tmp_path, *rules, write("src/a"))
        reply = await agent.call("Go.")
        assert not (tmp_path / "src/a").exists()
        assert bool(reply.pending_calls) is (verdict == "ask")

    run_virtual(main())


def test_a_parent_allows_a_child_nothing(tmp_path: Path):
    async def main() -> None:
        everything = PermissionRules(allow=["*"])
        (tmp_path / "src").mkdir()
        (tmp_path / "src/a").write_text("")
        agent, _ = levels(tmp_path, everything, None, None, call("delete_file", path="src/a"))
        reply = await agent.call("Go.")
        assert [each.name for each in reply.pending_calls][-1:] == ["delete_file"] and (tmp_path / "src/a").exists()

    run_virtual(main())


def test_plan_mode_and_rules_together(tmp_path: Path):
    async def main() -> None:
        rules = rules_in(tmp_path, allow=["*"])
        mode = PlanMode()
        turns = [write("src/a"), call("submit_plan", plan="write"), write("src/a"), "Done."]
        agent = friday(tmp_path, rules, *turns, hooks=[PermissionsHook(rules), mode])
        reply = await agent.call("Go.")
        assert [each.name for each in reply.pending_calls] == ["submit_plan"], "no rule approves a plan"
        assert not (tmp_path / "src/a").exists()
        assert (await agent.call(Approve(reply.pending_calls[0]))).text == "Done."
        assert (tmp_path / "src/a").exists()

    run_virtual(main())


def test_a_hook_takes_rules():
    with pytest.raises(ConfigurationError, match="takes PermissionRules"):
        PermissionsHook(["write_file"])  # type: ignore[arg-type]
