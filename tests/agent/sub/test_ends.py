"""Whatever ends a parent's run ends its sub-agents' first: their memories are whole, their last words are results."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agentscope_rx import (
    ExecutionConfig,
    GenerateReason,
    GracefulShutdown,
    Msg,
    ReActAgent,
    UsageLimits,
    hook,
    tool,
)
from agentscope_rx.agent import InterruptSource
from agentscope_rx.errors import AgentBusyError, AgentShuttingDownError, RunDeadlineError
from agentscope_rx.events import ActingChunkEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.testing import HANG, Delay, collect_dropped, run_virtual
from tests.agent.parts import events_of, remembered, slow, types
from tests.agent.sub.parts import agent, ask, assert_all_whole, child_of, given, history, researcher, use
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in

INTERRUPTED = ToolResultKind.INTERRUPTED


def pair(*child_turns, parent_turns=("Well.",), child_options=None, **options) -> tuple[ReActAgent, ReActAgent]:
    """A boss that asks its researcher, and the researcher."""
    child = researcher(*child_turns, tools=[slow], **(child_options or {}))
    return agent("Boss", ask("p"), *parent_turns, tools=[child.as_tool(**options)]), child


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("turns", "inside"),
    [((["It ", HANG],), {}), ((use("slow", "s", seconds=10),), {"s"}), (([Delay(10), "late"],), {})],
)
def test_an_interruption_returns_the_sub_agents_reply(turns, inside):
    """By the same source; the sub-agent ends in its own memory before its parent does."""

    async def main() -> None:
        parent, child = pair(*turns)
        seen: list[Any] = []
        parent_run = asyncio.ensure_future(_collect(parent, seen))
        await asyncio.sleep(1)
        sources: list[InterruptSource] = []
        original = child.handle_interrupt

        def handle(run):
            sources.append(run.interrupt_source)
            return original(run)

        child.handle_interrupt = handle
        assert parent.interrupt("Stop it.", InterruptSource.SYSTEM)
        await parent_run
        reply = seen[-1].message
        assert (reply.text, reply.generate_reason) == ("Stop it.", GenerateReason.INTERRUPTED)
        assert sources == [InterruptSource.SYSTEM]
        kind, text = results_in(remembered(parent))["p"]
        assert kind is INTERRUPTED and "I have been interrupted" in text and child_of(parent).id in text
        inside_now = await history(child_of(parent))
        assert inside_now[-1].generate_reason is GenerateReason.INTERRUPTED
        assert {id: kind for id, (kind, _) in results_in(inside_now).items()} == dict.fromkeys(inside, INTERRUPTED)
        assert_one_truth(seen, (), remembered(parent))
        assert not child.running and not parent.running

    run_virtual(main())


async def _collect(parent: ReActAgent, seen: list[Any]) -> None:
    async for event in parent.stream("go"):
        seen.append(event)


def test_one_sub_agent_alone_is_interrupted_by_its_run():
    """Its words are the call's result, of kind interrupted; the parent and the other one go on."""

    async def main() -> None:
        child = researcher([Delay(5), "one"], [Delay(5), "two"])
        parent = agent("Boss", [ask("p"), ask("q")], "Both told.", tools=[child.as_tool()])
        reply = parent.call("go").as_task()
        await asyncio.sleep(1)
        run = next(run for run in child.runs if run.source.path[-2] == "q")
        assert child.interrupt("Enough.", run_id=run.id)
        assert (await reply).text == "Both told."
        said = results_in(remembered(parent))
        assert said["p"][0] is None and said["q"][0] is INTERRUPTED and "Enough." in said["q"][1]

    run_virtual(main())


@pytest.mark.parametrize("grace", [3, None])
def test_a_sub_agent_is_cut_off_after_its_grace(grace: float | None):
    @tool(interruptible=False)
    async def stubborn() -> str:
        """Takes its time."""
        await asyncio.sleep(60)
        return "done after all"

    async def main() -> None:
        child = researcher(use("stubborn", "s"), tools=[stubborn])
        parent = agent("Boss", ask("p"), tools=[child.as_tool(interrupt_grace=grace)])
        task = parent.call("go").as_task()
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        parent.interrupt()
        assert (await task).generate_reason is GenerateReason.INTERRUPTED
        await child.idle()
        said = results_in(await history(child_of(parent)))
        if grace is None:
            assert loop.time() == pytest.approx(60) and said["s"] == (None, "done after all")
        else:
            assert loop.time() == pytest.approx(4) and said["s"][0] is INTERRUPTED
            assert "did not end within 3 s" in results_in(remembered(parent))["p"][1]
        assert results_in(remembered(parent))["p"][0] is INTERRUPTED

    run_virtual(main())


def test_a_grandchild_is_interrupted_as_well():
    async def main() -> None:
        low = agent("Low", use("slow", "s"), tools=[slow])
        mid = researcher(use("call_low", "l", message="go"), tools=[low.as_tool()])
        top = agent("Top", ask("p"), tools=[mid.as_tool()])
        task = top.call("go").as_task()
        await asyncio.sleep(1)
        top.interrupt()
        await task
        await assert_all_whole(top.conversation(), remembered(top))
        inner = child_of(child_of(top).conversation)
        assert results_in(await history(inner))["s"][0] is INTERRUPTED

    run_virtual(main())


@pytest.mark.spec("R1", "W67")
@pytest.mark.parametrize("when", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
@pytest.mark.parametrize("way", ["dispose", "interrupt", "fail", "deadline"])
def test_at_any_moment(way: str, when: float):
    """Cut off anywhere, every memory is whole, and everybody can be called again."""

    @tool
    async def tidy() -> str:
        """Takes two seconds, and one for its clean-up."""
        try:
            await asyncio.sleep(2)
        finally:
            await asyncio.sleep(1)
        return "tidy"

    @tool
    async def bomb() -> str:
        """Goes off."""
        await asyncio.sleep(when)
        return "boom"

    async def main() -> None:
        low = agent("Low", [Delay(1), use("tidy", "t")], [Delay(1), "low"], tools=[tidy])
        mid = researcher([Delay(1), use("call_low", "l", message="go")], "mid", tools=[low.as_tool()])
        limits = UsageLimits(deadline=when) if way == "deadline" else None
        calls = [ask("p"), use("bomb", "b")] if way == "fail" else [ask("p")]
        top = agent("Top", calls, "top", "again", tools=[mid.as_tool(), bomb], limits=limits)
        if way == "fail":

            @hook(ActingChunkEvent)
            def fail(event: ActingChunkEvent) -> None:
                if event.chunk.text == "boom":
                    raise RuntimeError("hook")

            top.hooks = type(top.hooks)((fail,))
        task = top.call("go").as_task()
        await asyncio.sleep(when)
        if way == "dispose":
            task.cancel()
        elif way == "interrupt":
            top.interrupt()
        with suppress(asyncio.CancelledError, RunDeadlineError, RuntimeError):
            await task
        await top.idle()
        # the sub-agents' clean-up was over before the parent's was
        assert not mid.running and not low.running
        await assert_all_whole(top.conversation(), remembered(top))
        top.hooks = type(top.hooks)(())
        top.limits = None
        top.model.turns = (("again",),) * 9
        assert (await top.call("and?")).text == "again"
        for each in (low, mid, top):
            assert_prompts_are_whole(each.model)

    run_virtual(main())


def test_a_sub_agent_does_not_use_its_parents_summary_reserve():
    """The parent's reserve is for the parent's last word: the sub-agent ends without asking its model again."""

    async def main() -> None:
        parent, child = pair([Delay(100), "late"], parent_turns=("That is all I have.",))
        limits = UsageLimits(deadline=30, summary_reserve=10, on_limit="summary")
        reply = await parent.call("go", limits=limits)
        assert (reply.text, reply.generate_reason) == ("That is all I have.", GenerateReason.LIMIT_REACHED)
        assert asyncio.get_running_loop().time() == pytest.approx(20)
        assert len(child.model.requests) == 1
        assert results_in(remembered(parent))["p"][0] is INTERRUPTED

    run_virtual(main())


def test_a_call_left_pending_by_a_shutdown_is_resumed():
    async def main() -> None:
        child = researcher([use("slow", "s", seconds=1), use("slow", "t", seconds=60)], "told", tools=[slow])
        shutdown = GracefulShutdown(timeout=5, grace=20)
        parent = agent("Boss", ask("p"), "Well.", tools=[child.as_tool()], shutdown=shutdown)
        task = parent.call("go").as_task()
        await asyncio.sleep(2)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await task
        assert [call.id for call in await parent.pending_calls()] == ["p"]
        said = results_in(await history(child_of(parent)))
        assert said["s"] == (None, "finally") and said["t"][0] is INTERRUPTED
        parent.shutdown = None
        assert (await parent.call()).text == "Well."
        assert "told" in results_in(remembered(parent))["p"][1]
        # not told twice what it was asked
        assert sum(message.text == "go" for message in await history(child_of(parent))) == 1
        await assert_all_whole(parent.conversation(), remembered(parent))

    run_virtual(main())


def test_a_run_may_call_sub_agents_during_a_shutdown():
    """A shutdown refuses new runs; a sub-agent's is part of one in progress."""

    async def main() -> None:
        shutdown = GracefulShutdown(timeout=60)
        child = researcher("told", shutdown=shutdown)
        parent = agent("Boss", [Delay(2), ask("p")], "Well.", tools=[child.as_tool()], shutdown=shutdown)
        task = parent.call("go").as_task()
        await asyncio.sleep(1)
        begun = shutdown.begin().as_task()
        assert (await task).text == "Well."
        await begun

    run_virtual(main())


def test_a_failed_sub_agent_is_an_error_result_with_its_cause():
    async def main() -> None:
        parent, _ = pair([RuntimeError("no wifi")], "second time", parent_turns=(ask("q"), "Well."))
        seen = await events_of(parent, "go")
        assert seen[-1].message.text == "Well."
        said = results_in(remembered(parent))
        assert said["p"][0] is ToolResultKind.FAILED
        assert "Agent 'Researcher' failed" in said["p"][1] and "RuntimeError: no wifi" in said["p"][1]
        assert "error" in types(seen) and said["q"][0] is None
        assert child_of(parent).id in said["p"][1]

    run_virtual(main())


def test_a_retry_continues_where_the_attempt_before_ended():
    """A retry does not say again what was said."""

    async def main() -> None:
        config = ExecutionConfig(max_attempts=2, initial_backoff=1.0)
        parent, _ = pair(use("slow", "s", seconds=1), [ConnectionError("gone")], "told", execution_config=config)
        assert (await parent.call("go")).text == "Well."
        inside = await history(child_of(parent))
        assert [message.role for message in inside] == ["user", "assistant", "tool", "assistant"]
        assert inside[-1].text == "told"

    run_virtual(main())


def test_the_timeout_of_the_tool():
    async def main() -> None:
        parent, child = pair(use("slow", "s"), "told", execution_config=ExecutionConfig(timeout=3.0))
        assert (await parent.call("go")).text == "Well."
        assert results_in(remembered(parent))["p"][0] is ToolResultKind.TIMEOUT
        await child.idle()
        await assert_all_whole(parent.conversation(), remembered(parent))

    run_virtual(main())


def test_interrupting_the_parent_closes_its_childs_calls():
    async def main() -> None:
        child = researcher(use("ask_person", "q"), external=True)
        other = agent("Other", [Delay(60), "late"])
        calls = [ask("p"), use("call_other", "o", message="go")]
        parent = agent("Boss", calls, tools=[child.as_tool(), other.as_tool()])
        task = parent.call("go").as_task()
        await asyncio.sleep(1)
        assert results_in(await history(child_of(parent))) == {}
        parent.interrupt()
        await task
        await assert_all_whole(parent.conversation(), remembered(parent))
        assert results_in(await history(child_of(parent)))["q"][0] is INTERRUPTED
        assert isinstance(remembered(parent)[-1], Msg)

    run_virtual(main())


def test_plain_input_closes_the_childs_calls_after_a_shutdown():
    async def main() -> None:
        calls = [use("slow", "s", seconds=60), use("slow", "t", seconds=1)]
        child = researcher(calls, "hello", tools=[slow], parallel=False, pending="error")
        shutdown = GracefulShutdown(timeout=2)
        parent = agent("Boss", ask("p"), "Sure.", tools=[child.as_tool()], shutdown=shutdown)
        task = parent.call("go").as_task()
        await asyncio.sleep(1)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await task
        parent.shutdown = None
        taken = child_of(parent)
        assert [call.id for call in await child.pending_calls(memory=taken.memory)] == ["t"]
        assert (await parent.call("never mind")).text == "Sure."
        await assert_all_whole(parent.conversation(), remembered(parent))
        parent.model.turns += ((ask("q", "hi", conversation_id=taken.id),), ("Bye.",))
        assert (await parent.call("say hi")).text == "Bye."

    run_virtual(main())


def test_a_failure_to_close_is_reported_and_blocks_no_run():
    """Another run holds the sub-agent's conversation at that moment."""

    async def main() -> None:
        child = researcher(use("ask_person", "q"), [Delay(5), "to somebody else"], external=True)
        parent = agent("Boss", ask("p"), "Sure.", tools=[child.as_tool()])
        await parent.call("go")
        theirs = child.call(given("q"), memory=child_of(parent).memory).as_task()
        await asyncio.sleep(1)
        with collect_dropped() as dropped:
            assert (await parent.call("never mind")).text == "Sure."
        assert [type(error) for error in dropped] == [AgentBusyError]
        await theirs

    run_virtual(main())
