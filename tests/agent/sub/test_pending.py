"""What waits inside of a sub-agent is shown by its parent, answered there, and goes on where it was."""

from __future__ import annotations

import pytest

from agentscope_rx import Approve, ExecutionConfig, GenerateReason, InvalidInputError, Reject, hook
from agentscope_rx.errors import PendingCallsError
from agentscope_rx.events import PostReasoningEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import ResultLimit, limited, prefixed, renamed
from tests.agent.parts import events_of, remembered, weather
from tests.agent.sub.parts import Done, agent, ask, assert_all_whole, child_of, given, history, researcher, use
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in

SUSPENDED, APPROVAL = ToolResultKind.SUSPENDED, ToolResultKind.APPROVAL_REQUIRED


def boss(child, *turns, **options):
    return agent("Boss", *turns, tools=[child.as_tool(), weather], **options)


@pytest.mark.spec("R27", "W67")
def test_the_parent_asks_for_a_sub_agents_approval():
    """R27, W67, field #40: shown with a path, answered with edited arguments, gone on with from where it was."""
    done = Done()

    async def main() -> None:
        child = researcher(use("delete", "d", path="/x"), "Deleted.", tools=[done.delete])
        parent = boss(child, [ask("p"), use("weather", "w", city="Rome")], "All done.")
        seen = await events_of(parent, "go")
        reply = seen[-1].message
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [call.id for call in reply.tool_calls] == ["p", "p/d"]
        (leaf,) = reply.pending_calls
        assert (leaf.id, leaf.name, leaf.input) == ("p/d", "delete", {"path": "/x"})
        assert await parent.pending_calls() == (leaf,)
        placeholders = {each.id: each for each in reply.tool_results}
        assert placeholders["p"].kind is placeholders["p/d"].kind is APPROVAL
        assert placeholders["p/d"].metadata["sub_agent"] == {
            "path": ["p"], "agents": ["Researcher"], "tools": ["call_researcher"],
        }  # fmt: skip
        assert not done.deleted and list(results_in(remembered(parent))) == ["w"]
        assert_one_truth(seen, (), remembered(parent))

        before = list(remembered(parent))
        seen = await events_of(parent, Approve(leaf, {"path": "/y"}))
        assert seen[-1].message.text == "All done." and done.deleted == ["/y"]
        assert_one_truth(seen, before, remembered(parent))
        inside = await history(child_of(parent))
        assert [call.input["path"] for message in inside for call in message.tool_calls] == ["/y"]
        assert results_in(inside) == {"d": (None, "/y is gone")}
        assert results_in(remembered(parent))["p"][1].endswith("Deleted.")
        assert_prompts_are_whole(child.model)
        assert_prompts_are_whole(parent.model)
        await assert_all_whole(parent.conversation(), remembered(parent))
        assert await parent.pending_calls() == ()

    run_virtual(main())


@pytest.mark.spec("R27")
def test_rejections_and_remembered_rules_stay_in_the_sub_agent():
    """`remember` holds in the sub-agent's conversation; the reason is what its model reads."""
    done = Done()

    async def main() -> None:
        child = researcher(
            [use("delete", "a", path="a"), use("delete", "b", path="b")],
            [use("delete", "c", path="c"), use("delete", "e", path="a")],
            "Told.",
            tools=[done.delete],
        )
        parent = boss(child, ask("p"), "Done.")
        await parent.call("go")
        reply = await parent.call([Reject("p/b", "not b"), Approve("p/a", remember="arguments")])
        assert [call.id for call in reply.pending_calls] == ["p/c"]
        assert done.deleted == ["a", "a"]
        assert (await parent.call(Approve("p/c"))).text == "Done."
        said = results_in(await history(child_of(parent)))
        assert said["b"] == (ToolResultKind.REJECTED, "Error: not b") and done.deleted == ["a", "a", "c"]

    run_virtual(main())


def test_a_suspended_call_inside_gets_its_result_from_outside():
    async def main() -> None:
        child = researcher(use("ask_person", "q", question="?"), "He says yes.", external=True)
        parent = boss(child, ask("p"), "So yes.")
        reply = await parent.call("go")
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
        assert [(each.id, each.kind) for each in reply.tool_results] == [("p", SUSPENDED), ("p/q", SUSPENDED)]
        before = list(remembered(parent))
        seen = await events_of(parent, given("p/q", "yes"))
        assert seen[-1].message.text == "So yes."
        assert_one_truth(seen, before, remembered(parent))
        assert results_in(await history(child_of(parent)))["q"] == (None, "yes")
        # the parent does not remember what is the sub-agent's
        assert list(results_in(remembered(parent))) == ["p"]

    run_virtual(main())


def test_call_without_input_runs_what_can_run():
    answers: list[str] = []

    async def main() -> None:
        from agentscope_rx import ToolSuspend, tool

        @tool(name="ask_person")
        async def ask_person() -> str:
            """Asks."""
            if not answers:
                raise ToolSuspend("who?", path="mine")
            return answers[0]

        child = researcher(use("ask_person", "q"), "ok", tools=[ask_person])
        parent = boss(child, ask("p"), "So yes.")
        reply = await parent.call("go")
        assert reply.tool_results[1].text == "who?" and reply.tool_results[1].metadata["path"] == "mine"
        again = await parent.call()
        assert again.content == reply.content
        answers.append("yes")
        assert (await parent.call()).text == "So yes."
        assert len(child.model.requests) == 2

    run_virtual(main())


@pytest.mark.parametrize("order", [("p/x", "q/x", "r"), ("r", "q/x", "p/x"), ("q/x", "p/x", "r")])
@pytest.mark.parametrize("parallel", [True, False])
def test_answers_come_one_by_one_in_any_order(parallel: bool, order: tuple[str, ...]):
    """Field P7: ids do not collide, finished siblings do not run again."""
    done = Done()

    async def main() -> None:
        other = agent("Other", use("delete", "x", path="3"), "three", tools=[done.delete])
        child = researcher(use("delete", "x", path="1"), "one", tools=[done.delete])
        parent = agent(
            "Boss",
            [ask("p"), use("call_other", "q", message="go"), use("delete", "r", path="r")],
            "Done.",
            tools=[child.as_tool(), other.as_tool(), done.delete],
            parallel=parallel,
        )
        reply = await parent.call("go")
        waits = ["p/x", "q/x", "r"] if parallel else ["p/x", "q", "r"]
        assert [call.id for call in reply.pending_calls] == waits
        left = list(order)
        while left:
            ready = [id for id in left if id in {call.id for call in await parent.pending_calls()}]
            # in turn: what stands behind the one that was answered has not begun yet
            reply = await parent.call(Approve(ready[0]) if ready else None)
            left = [id for id in left if id not in ready[:1]]
            if parallel:
                assert {call.id for call in reply.pending_calls} == set(left)
        assert reply.text == "Done."
        assert sorted(done.deleted) == ["1", "3", "r"]
        assert len(child.model.requests) == len(other.model.requests) == 2
        await assert_all_whole(parent.conversation(), remembered(parent))

    run_virtual(main())


def test_what_does_not_fit_is_refused_and_changes_nothing():
    """As at the top level: unknown, twice, a call that only waits, arguments that the tool does not take, more text."""
    done = Done()

    async def main() -> None:
        child = researcher(
            [use("delete", "a", path="a"), use("ask_person", "q")], "ok", tools=[done.delete], external=True
        )
        parent = boss(child, ask("p"), "Done.")
        await parent.call("go")
        before = list(remembered(parent))
        inside = await history(child_of(parent))
        wrong = {
            "p/b": Approve("p/b"),
            "'a'": Approve("a"),
            "'p'": Approve("p"),
            "More than one": [Approve("p/a"), Reject("p/a")],
            "does not take": Approve("p/a", {"where": 1}),
            "no results yet": [given("p/q"), given("p/q").replace(content="text")],
        }
        for words, answer in wrong.items():
            with pytest.raises(InvalidInputError, match=words):
                await parent.call(answer)
            assert list(remembered(parent)) == before and await history(child_of(parent)) == inside
            assert {call.id for call in await parent.pending_calls()} == {"p/a", "p/q"}
        assert not done.deleted
        reply = await parent.call(given("p/q"))
        assert [call.id for call in reply.pending_calls] == ["p/a"]
        with pytest.raises(InvalidInputError, match="p/q"):
            await parent.call(given("p/q"))
        assert (await parent.call(Approve("p/a"))).text == "Done."

    run_virtual(main())


@pytest.mark.parametrize("policy", ["recover", "error"])
def test_input_that_passes_by_closes_what_waits_inside(policy: str):
    done = Done()

    async def main() -> None:
        child = researcher(use("delete", "d", path="/x"), "Hello again.", tools=[done.delete], pending="error")
        parent = boss(child, ask("p"), "Never mind.", pending=policy)
        await parent.call("go")
        taken = child_of(parent)
        if policy == "error":
            with pytest.raises(PendingCallsError, match="p/d"):
                await parent.call("what about lunch?")
            assert [call.id for call in await parent.pending_calls()] == ["p/d"]
            return
        seen = await events_of(parent, "what about lunch?")
        assert seen[-1].message.text == "Never mind." and not done.deleted
        said = results_in(await history(taken))
        assert said["d"][0] is ToolResultKind.INTERRUPTED
        assert results_in(remembered(parent))["p"][0] is ToolResultKind.INTERRUPTED
        assert (await child.pending_calls(memory=taken.memory)) == ()
        # the conversation is free: it can be gone on with
        assert taken.call_id is None
        parent.model.turns += ((ask("s", "hi", conversation_id=taken.id),), ("Fine.",))
        assert (await parent.call("ask again")).text == "Fine."

    run_virtual(main())


@pytest.mark.spec("R27")
def test_grandchildren_wait_through_all_levels():
    """R27, field #40: ids, path and tools add up; one answer goes down two levels."""
    done = Done()

    async def main() -> None:
        low = agent(
            "Low", [use("delete", "x", path="1"), use("ask_person", "y")], "low", tools=[done.delete], external=True
        )
        mid = researcher(
            [use("call_low", "l", message="go"), use("delete", "x", path="2")],
            "mid",
            tools=[low.as_tool(), done.delete],
        )
        top = boss(mid, ask("p"), "top")
        reply = await top.call("go")
        assert [call.id for call in reply.pending_calls] == ["p/l/x", "p/l/y", "p/x"]
        deep = next(each for each in reply.tool_results if each.id == "p/l/x").metadata["sub_agent"]
        assert deep == {"path": ["p", "l"], "agents": ["Researcher", "Low"], "tools": ["call_researcher", "call_low"]}
        with pytest.raises(InvalidInputError, match="does not take"):
            await top.call(Approve("p/l/x", {"no": 1}))
        reply = await top.call([given("p/l/y"), Approve("p/x")])
        assert [call.id for call in reply.pending_calls] == ["p/l/x"] and done.deleted == ["2"]
        assert (await top.call(Approve("p/l/x"))).text == "top"
        assert done.deleted == ["2", "1"]
        await assert_all_whole(top.conversation(), remembered(top))
        for each in (low, mid, top):
            assert_prompts_are_whole(each.model)

    run_virtual(main())


def test_a_sub_agent_that_a_hook_stops_waits_too():
    @hook(PostReasoningEvent)
    def stop(event: PostReasoningEvent) -> PostReasoningEvent | None:
        return event.stop() if event.message.tool_calls else None

    async def main() -> None:
        child = researcher(use("weather", "w", city="Rome"), "Sunny.", tools=[weather], hooks=[stop])
        parent = boss(child, ask("p"), "ok")
        reply = await parent.call("go")
        assert [(each.id, each.kind) for each in reply.tool_results] == [("p", SUSPENDED), ("p/w", SUSPENDED)]
        assert (await parent.call()).text == "ok"
        assert results_in(await history(child_of(parent)))["w"] == (None, "Sunny in Rome")

    run_virtual(main())


def test_approval_of_the_sub_agents_own_call_is_asked_for_once():
    done = Done()

    async def main() -> None:
        child = researcher(use("delete", "d", path="1"), "ok", tools=[done.delete])
        parent = agent("Boss", ask("p"), "fine", tools=[child.as_tool(requires_approval=True)])
        assert [call.id for call in (await parent.call("go")).pending_calls] == ["p"]
        assert [call.id for call in (await parent.call(Approve("p"))).pending_calls] == ["p/d"]
        # nothing said: it asks for the same again, and not for itself
        assert [call.id for call in (await parent.call()).pending_calls] == ["p/d"]
        assert (await parent.call(Approve("p/d"))).text == "fine" and done.deleted == ["1"]

    run_virtual(main())


def test_what_is_wrapped_around_it_changes_nothing():
    """A sub-agent under another name, behind a wrapper, in a group: answers find their way, arguments are checked."""
    done = Done()

    async def main() -> None:
        low = agent("Low", use("delete", "d", path="1"), "low", tools=[done.delete])
        mid = researcher(use("my_call_low", "l", message="go"), "mid", tools=prefixed("my_", low.as_tool()))
        tools = limited(
            renamed(mid.as_tool(), {"call_researcher": "ask"}), ExecutionConfig(timeout=60.0), max_concurrency=1
        )
        top = agent("Top", use("ask", "p", message="go"), "top", tools=tools)
        reply = await top.call("go")
        assert [call.id for call in reply.pending_calls] == ["p/l/d"]
        with pytest.raises(InvalidInputError, match="does not take"):
            await top.call(Approve("p/l/d", {"no": 1}))
        assert (await top.call(Approve("p/l/d"))).text == "top" and done.deleted == ["1"]

    run_virtual(main())


def test_a_result_limit_cuts_the_result_and_not_the_placeholder():
    done = Done()

    async def main() -> None:
        child = researcher(use("delete", "d", path="1"), "x" * 5000, tools=[done.delete])
        parent = agent("Boss", ask("p"), "ok", tools=limited(child.as_tool(), max_result=ResultLimit(1000)))
        assert [call.id for call in (await parent.call("go")).pending_calls] == ["p/d"]
        assert (await parent.call(Approve("p/d"))).text == "ok"
        assert len(results_in(remembered(parent))["p"][1]) < 1100

    run_virtual(main())
