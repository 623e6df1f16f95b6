"""Random trees of agents, cut off at random: interrupted, disposed, at a deadline, or by a memory that fails.

The law: whatever has ended a run, at every level each call has its result or waits, no tool has run twice, and the next
call goes on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from agentscope_rx import Approve, InMemoryMemory, InMemorySession, Msg, ReActAgent, Reject, ToolResultBlock
from agentscope_rx.agent import Conversation, GracefulShutdown, UsageLimits
from agentscope_rx.errors import AgentShuttingDownError, EmptyResponseError, RunDeadlineError, UsageLimitError
from agentscope_rx.messages import TextBlock, ToolUseBlock
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.virtual_time import virtual_loop
from tests.agent.parts import remembered
from tests.agent.sub.parts import history
from tests.agent.sub.test_trees import Node, Tree, thaw, trees_of
from tests.support.assertions import assert_prompts_are_whole, results_in
from tests.support.scripts.parts import Brittle, Faulty, Remote, StoreDown
from tests.support.scripts.steps import Fault

SLOW = ("quick", "slow", "slow", "risky", "outside")
REPAIRS = ("repairing", "saving", "a write that outlived", "a disposed run")
FAILURES = (RunDeadlineError, AgentShuttingDownError, StoreDown, EmptyResponseError, UsageLimitError)


@dataclass(frozen=True)
class Ended:
    """How a call is ended, in eighths of a second, and what the next one is given."""

    way: str = ""
    at: int = 0
    then: str = "answers"
    restart: bool = False


WAYS = st.sampled_from(["", "", "cancel", "interrupt", "deadline", "last word", "models", "tools", "shutdown"])
THEN = st.sampled_from(["answers", "answers", "nothing", "text"])
ENDS = st.lists(st.builds(Ended, WAYS, st.integers(0, 40), THEN, st.booleans()), max_size=6)
FAULTS = st.none() | st.builds(Fault, st.sampled_from(["raise", "fail", "late", "after"]), st.integers(0, 60))


def limits_of(ended: Ended) -> UsageLimits | None:
    if ended.way in ("models", "tools"):
        return UsageLimits(
            **{f"{ended.way[:-1]}_calls": 1 + ended.at // 4}, on_limit="summary" if ended.at % 2 else "error"
        )
    if ended.way not in ("deadline", "last word"):
        return None
    last = "summary" if ended.way == "last word" else "error"
    return UsageLimits(deadline=1.007 + ended.at / 8, summary_reserve=1.003, on_limit=last)


async def whole(conversation: Conversation, messages: list[Msg], *, torn: bool) -> None:
    """At every level each call has one result, or waits; if memory has failed, a next run there will see to it."""
    calls = [call.id for message in messages for call in message.tool_calls]
    open = set(calls) - set(results_in(messages))
    assert len(calls) == len(set(calls)) and set(results_in(messages)) <= set(calls)
    waits = conversation.pending or frozenset()
    assert torn or open == waits, f"open {open}, pending {waits}"
    for child in conversation.children.all if conversation.children is not None else ():
        if child.conversation is not None:
            await whole(child.conversation, await history(child), torn=torn)


def answer(call: ToolUseBlock, number: int) -> Any:
    if call.name == "outside":
        return Msg.tool(ToolResultBlock(call.id, call.name, (TextBlock("from outside"),)))
    return Reject(call) if number % 3 == 2 else Approve(call)


async def given_to(top: ReActAgent, then: str) -> Any:
    if then == "text":
        return "And now?"
    pending = await top.pending_calls() if then == "answers" else ()
    answers = [answer(call, number) for number, call in enumerate(pending) if call.name in ("risky", "outside")]
    return answers or None


@given(trees_of(SLOW), ENDS, FAULTS)
def test_every_tree_that_is_cut_off_is_whole(root: Node, ends: list[Ended], fault: Fault | None):
    faulty = Faulty(fault or Fault(at=-1))
    tree = Tree(root, memory=InMemoryMemory if fault is None else lambda: Brittle(faulty), pace=0.25)
    note(f"{root} {ends} {fault}")

    async def main() -> None:
        session = InMemorySession()
        top = tree.build(shutdown=GracefulShutdown(timeout=0.25))
        await top.bind(session, "s")
        given: Any = "go"
        torn = False
        for number, ended in enumerate([*ends, Ended(then="text"), Ended()]):
            if number == len(ends) + 1:
                for model in tree.models.values():
                    model.turns = (("done",),) * 200
            faulty.armed = number <= len(ends)
            with collect_dropped() as dropped:
                await played(top, given, ended)
            faulty.armed = False
            assert all(where.startswith(REPAIRS) or "StoreDown" in repr(dropped) for where in dropped.where), dropped
            assert not top.running
            torn = torn or bool(faulty.failed)
            await whole(top.conversation(), list(remembered(top)), torn=torn)
            assert set(tree.ran.values()) <= {1}
            if ended.restart or top.shutdown.refuses:
                await top.save(session, "s")
                pending = await top.pending_calls()
                top = tree.build(shutdown=GracefulShutdown(timeout=0.25))
                assert await top.bind(session, "s")
                assert await top.pending_calls() == pending
            given = await given_to(top, ended.then)
        await thaw(top)
        await whole(top.conversation(), list(remembered(top)), torn=torn)
        results = results_in(remembered(top))
        assert {call.id for message in remembered(top) for call in message.tool_calls} == set(results)
        for model in tree.models.values():
            assert_prompts_are_whole(model)

    run_virtual(main())


async def played(top: ReActAgent, given: Any, ended: Ended) -> None:
    """One call, ended as it says; returns when all is quiet."""
    task = top.call(given, limits=limits_of(ended)).as_task()
    if ended.way in ("cancel", "interrupt", "shutdown"):
        await asyncio.wait([task], timeout=ended.at / 8 + 0.013)
        if ended.way == "cancel":
            task.cancel()
        elif ended.way == "interrupt":
            top.interrupt()
        elif top.shutdown is not None:
            await top.shutdown.begin()
    await asyncio.wait_for(asyncio.wait([task]), 1000)
    await top.idle()
    if not task.cancelled() and (error := task.exception()) is not None:
        assert isinstance(error, FAILURES), repr(error)


LEFT = st.lists(st.tuples(st.booleans(), st.integers(0, 40), THEN), min_size=1, max_size=5)


@given(trees_of(SLOW), LEFT, st.sampled_from([InMemoryMemory, Remote]))
def test_every_tree_whose_loop_shuts_down_is_whole(root: Node, ends: list[tuple[bool, int, str]], memory: Any):
    """A tool in progress was cancelled by its loop, and the memory of a run that ends so was not repaired."""
    tree = Tree(root, memory=memory, pace=0.25)
    top = tree.build()
    given: Any = "go"
    note(f"{root} {ends}")

    def call(at: int | None) -> Any:
        async def left_behind() -> Any:
            subscription = top.stream(given).subscribe(lambda event: None, lambda error: None)
            if at is None:
                await top.idle()
            else:
                await asyncio.sleep(at / 8 + 0.013)
            return subscription

        with asyncio.Runner(loop_factory=virtual_loop) as runner:
            kept = runner.run(left_behind())
        assert not top.running and not top.conversation().flag.take_lost()
        return kept

    with collect_dropped() as dropped:
        for leaves, at, then in [*ends, (False, 0, "text"), (False, 0, "answers")]:
            kept = call(at if leaves else None)
            run_virtual(whole(top.conversation(), list(remembered(top)), torn=False))
            assert set(tree.ran.values()) <= {1}
            given = run_virtual(given_to(top, then))
            del kept
    assert set(dropped.where) <= {"a disposed run"}
    for model in tree.models.values():
        assert_prompts_are_whole(model)
