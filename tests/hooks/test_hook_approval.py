"""`Hook.approval`: which calls wait for a person; `for_sub_agents`: a run bounds what the runs within it may do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from agentscope_rx import Approve, GenerateReason, Hook, ReActAgent, Toolkit, ToolSuspend, ToolUseBlock, tool
from agentscope_rx.errors import HookError
from agentscope_rx.events import EventSource
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.planning import PlanMode
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import Tool, ToolPolicy
from tests.agent.parts import assert_whole
from tests.support.assertions import results

WAITS = GenerateReason.APPROVAL_REQUIRED


class Says(Hook):
    """Answers for the tools by name; `below` also about the calls of sub-agents."""

    def __init__(
        self, answer: object = None, *, only: str = "", refuse: str | None = None, below: bool = False, **more: object
    ) -> None:
        self.answer, self.only, self.refuse, self.below = answer, only, refuse, below
        self.asked: list[tuple[str, str]] = []

    kinds = ()

    def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
        self.asked.append((call.name, source.agent))
        return self.answer if self.only in ("", call.name) else None  # type: ignore[return-value]

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        return self.refuse if self.refuse and self.only in ("", call.name) else None

    def for_sub_agents(self) -> Hook | None:
        return self if self.below else None


def friday(*turns: object, hooks: list[Hook], policy: Callable[[ToolUseBlock], bool | None] | None = None, **options):
    done: list[str] = []

    @tool
    def plain(path: str = "a") -> str:
        """Does it."""
        done.append(f"plain {path}")
        return "done"

    @tool(requires_approval=True)
    def marked(path: str = "a") -> str:
        """Does it when approved."""
        done.append(f"marked {path}")
        return "done"

    @tool(requires_approval=True, always_asks=True)
    def always(path: str = "a") -> str:
        """Does it when approved, whatever rules say."""
        done.append(f"always {path}")
        return "done"

    toolkit = Toolkit([plain, marked, always], approval=policy, **options)
    return ReActAgent("Friday", ScriptedModel(*turns), toolkit=toolkit, hooks=hooks), done


async def waiting(agent: ReActAgent, given: object = "Go.") -> list[str]:
    return [each.name for each in (await agent.call(given)).pending_calls]


BOTH = [call("plain"), call("marked"), call("always")]


def test_true_waits_and_false_lifts_the_mark():
    async def main() -> None:
        agent, done = friday(BOTH, "Done.", hooks=[Says(True)])
        assert await waiting(agent) == ["plain", "marked", "always"] and done == []
        agent, done = friday(BOTH, "Done.", hooks=[Says(False)])
        assert await waiting(agent) == ["always"] and sorted(done) == ["marked a", "plain a"]
        agent, done = friday(BOTH, "Done.", hooks=[Says(None)])
        assert await waiting(agent) == ["marked", "always"] and done == ["plain a"]

    run_virtual(main())


@pytest.mark.parametrize("order", list(permutations([True, False, None])), ids=str)
def test_one_true_wins_in_any_order(order: tuple[bool | None, ...]):
    async def main() -> None:
        agent, done = friday(call("plain"), "Done.", hooks=[Says(each) for each in order])
        assert await waiting(agent) == ["plain"] and done == []

    run_virtual(main())


@pytest.mark.parametrize(("by_hook", "by_policy"), [(True, False), (False, True), (True, None), (None, True)])
def test_the_toolkits_policy_is_one_of_them(by_hook: bool | None, by_policy: bool | None):
    async def main() -> None:
        agent, done = friday(call("plain"), "Done.", hooks=[Says(by_hook)], policy=lambda call: by_policy)
        assert await waiting(agent) == ["plain"] and done == []

    run_virtual(main())


def test_a_call_that_cannot_run_is_not_asked_about():
    async def main() -> None:
        says = Says(True)
        agent, _ = friday([call("plain", wrong=1), call("nothing_like_it")], "Done.", hooks=[says])
        assert (await agent.call("Go.")).text == "Done." and says.asked == []

    run_virtual(main())


def test_another_answer_is_an_error_that_names_the_hook():
    async def main() -> None:
        agent, done = friday(call("plain"), "Done.", hooks=[Says("yes")])
        with pytest.raises(HookError, match="Hook Says on approval: returned 'yes'"):
            await agent.call("Go.")
        assert done == []
        assert_whole(agent)

        class Broken(Says):
            def approval(self, call: ToolUseBlock, tool: Tool, source: EventSource) -> bool | None:
                raise ValueError("no idea")

        agent, done = friday(call("plain"), "Done.", hooks=[Broken()])
        with pytest.raises(ValueError) as caught:
            await agent.call("Go.")
        assert "in approval of hook Broken, agent Friday" in caught.value.__notes__ and done == []

    run_virtual(main())


def test_a_call_that_is_allowed_meanwhile_is_not_asked_again():
    async def main() -> None:
        says = Says(True)
        agent, done = friday([call("plain", path="a"), call("plain", path="b")], "Done.", hooks=[says])
        reply = await agent.call("Go.")
        assert len(reply.pending_calls) == 2
        says.answer = False
        assert (await agent.call(Approve(reply.pending_calls[0]))).text == "Done."
        assert sorted(done) == ["plain a", "plain b"]

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
def test_a_hook_may_want_approval_as_a_call_begins(parallel: bool):
    async def main() -> None:
        says = Says(None, only="plain")

        @tool(exclusive=True)
        def change() -> str:
            """Changes what the hook says."""
            says.answer = True
            return "changed"

        batch = [call("change"), call("plain", path="a"), call("plain", path="b")]
        agent, done = friday(batch, "Done.", hooks=[says], parallel=parallel)
        agent.toolkit.register(change)
        reply = await agent.call("Go.")
        assert [each.input["path"] for each in reply.pending_calls] == ["a", "b"] and done == []
        assert (await agent.call([Approve(each) for each in reply.pending_calls])).text == "Done."
        assert sorted(done) == ["plain a", "plain b"]
        assert_whole(agent)

    run_virtual(main())


def test_a_call_without_a_rule_is_held_until_it_is_answered():
    async def main() -> None:
        begun: list[str] = []

        @tool
        def elsewhere() -> str:
            """Suspends."""
            begun.append("x")
            raise ToolSuspend("later")

        agent, done = friday([call("marked"), call("elsewhere")], "Done.", hooks=[Says(None)])
        agent.toolkit.register(elsewhere)
        reply = await agent.call("Go.")
        await agent.call(Approve(reply.pending_calls[0]))
        assert done == ["marked a"] and begun == ["x"]

    run_virtual(main())


def test_edited_arguments_are_refused_like_those_of_the_model():
    async def main() -> None:
        class NoSecrets(Hook):
            kinds = ()

            def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
                return "Not that." if call.input.get("path") == "secret" else None

        agent, done = friday(call("marked"), "Done.", hooks=[NoSecrets()])
        reply = await agent.call("Go.")
        await agent.call(Approve(reply.pending_calls[0], {"path": "secret"}, remember="tool"))
        (result,) = results(agent.memory.messages)
        assert done == [] and result.kind is ToolResultKind.REJECTED and result.text.endswith("Not that.")

    run_virtual(main())


# --- a toolkit's own policy that knows tools --------------------------------------------------------------------------


class Careful(ToolPolicy):
    def approval(self, call: ToolUseBlock, tool: Tool) -> bool | None:
        return not tool.read_only

    def refusal(self, call: ToolUseBlock, tool: Tool) -> str | None:
        return "Never." if call.name == "always" else None


def test_a_policy_that_knows_tools_refuses_through_every_door():
    async def main() -> None:
        agent, done = friday(BOTH, "Done.", hooks=[], policy=Careful())
        assert await waiting(agent) == ["plain", "marked"]
        toolkit = agent.toolkit
        assert toolkit.needs_approval(call("plain")) and not toolkit.needs_approval(call("always"))
        items = [item async for item in toolkit.call(call("always"))]
        assert isinstance(items[-1], ToolResultBlock) and items[-1].kind is ToolResultKind.REJECTED
        assert done == []

    run_virtual(main())


# --- sub-agents -------------------------------------------------------------------------------------------------------


def nested(top: list[Hook], middle: list[Hook], leaf: list[Hook], *, leaf_turn: ToolUseBlock | None = None):
    """Three levels: the top asks the middle, which asks the leaf, which calls its tool."""
    inner, done = friday(leaf_turn or call("plain"), "Leaf is done.", hooks=leaf)
    ask_inner = inner.as_tool(name="ask_leaf")
    outer = ReActAgent(
        "Middle", ScriptedModel(call("ask_leaf", message="Go."), "Done."), tools=[ask_inner], hooks=middle
    )
    ask_outer = outer.as_tool(name="ask_middle")
    turns = [call("ask_middle", message="Go."), "All done."]
    return ReActAgent("Top", ScriptedModel(*turns), tools=[ask_outer], hooks=top), inner, done


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_refusal_at_any_level_holds_for_the_leaf(level: int):
    async def main() -> None:
        hooks: list[list[Hook]] = [[Says(False, below=True)], [Says(False, below=True)], [Says(False)]]
        hooks[level].append(Says(only="plain", refuse="Not here.", below=True))
        agent, _, done = nested(*hooks)
        assert (await agent.call("Go.")).text == "All done." and done == []

    run_virtual(main())


@pytest.mark.parametrize("level", [0, 1, 2])
def test_an_approval_at_any_level_reaches_the_top_caller(level: int):
    async def main() -> None:
        hooks: list[list[Hook]] = [[Says(False, below=True)], [Says(False, below=True)], [Says(False)]]
        asking = Says(True, only="plain", below=True)
        hooks[level].append(asking)
        agent, _, done = nested(*hooks)
        reply = await agent.call("Go.")
        assert reply.generate_reason is WAITS and done == []
        leaf = next(each for each in reply.pending_calls if each.name == "plain")
        assert (await agent.call(Approve(leaf))).text == "All done." and done == ["plain a"]
        # it is asked with the source of its own run
        assert ("plain", ("Top", "Middle", "Friday")[level]) in asking.asked

    run_virtual(main())


@pytest.mark.parametrize("level", [0, 1])
def test_a_run_above_allows_a_sub_agent_nothing(level: int):
    async def main() -> None:
        hooks: list[list[Hook]] = [[], [], []]
        hooks[level].append(Says(False, below=True))
        agent, _, done = nested(*hooks, leaf_turn=call("marked"))
        assert (await agent.call("Go.")).generate_reason is WAITS and done == []

    run_virtual(main())


def test_hooks_are_asked_about_sub_agents_only_if_they_say_so():
    async def main() -> None:
        silent = Says(True, only="plain", refuse="No.")
        agent, _, done = nested([silent], [], [])
        assert (await agent.call("Go.")).text == "All done." and done == ["plain a"]
        assert {name for name, _ in silent.asked} == {"ask_middle"}

        class Odd(Hook):
            def for_sub_agents(self) -> Hook | None:
                return "all"  # type: ignore[return-value]

        with pytest.raises(HookError, match="Hook Odd on for_sub_agents"):
            nested([Odd()], [], [])

    run_virtual(main())


def test_plan_mode_holds_for_the_agents_that_an_agent_calls():
    async def main() -> None:
        mode = PlanMode(allow=["ask_middle", "ask_leaf"])
        agent, inner, done = nested([mode], [], [])
        assert (await agent.call("Go.")).text == "All done." and done == []
        (result,) = results(inner.model.requests[-1].messages)
        assert result.kind is ToolResultKind.REJECTED and "in plan mode" in result.text
        agent, _, done = nested([mode], [], [])
        mode.leave(agent.conversation())
        assert (await agent.call("Go.")).text == "All done." and done == ["plain a"]

    run_virtual(main())


def test_a_plan_mode_that_agents_share_is_each_ones_own():
    async def main() -> None:
        mode = PlanMode(start=False)
        agent, inner, done = nested([mode], [], [mode], leaf_turn=call("submit_plan", plan="1. plain"))
        reply = await agent.call("Go.")
        # off: there is nothing to approve
        assert reply.text == "All done."
        (result,) = results(inner.model.requests[-1].messages)
        assert "Plan mode is off" in result.text and done == []

    run_virtual(main())
