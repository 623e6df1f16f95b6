"""Planning among other parts of the engine: operators around tools and stages, pools, threads, shutdowns."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from weakref import ref

import pytest
from reactivex import operators as ops

from agentscope_rx import Approve, ConversationPool, GracefulShutdown, InMemoryMemory, JsonSession, ReActAgent
from agentscope_rx.errors import AgentShuttingDownError, HookError
from agentscope_rx.events import Event, PlanEvent, fold, record, replay
from agentscope_rx.hooks import around
from agentscope_rx.parts import PartState, PartStates
from agentscope_rx.plan import Plan
from agentscope_rx.planning import PlanMode, PlanNotebook
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from agentscope_rx.tools import ToolNotice
from tests.agent.parts import assert_whole, events_of, types
from tests.planning.parts import BEGIN, TRIP, finish, friday, texts
from tests.planning.test_plan_mode import CHANGE, change, submit
from tests.planning.test_plan_mode import friday as planning_friday


def test_an_operator_around_a_tool_sees_the_notice():
    seen: list[object] = []

    async def main() -> None:
        spy = around("tool", lambda source: source.pipe(ops.do_action(lambda item: seen.append(type(item)))))
        events = await events_of(friday(TRIP, "Done.", hooks=[spy]), "Plan.")
        assert ToolNotice in seen and types(events).count("plan") == 1
        silent = around("tool", lambda source: source.pipe(ops.filter(lambda item: not isinstance(item, ToolNotice))))
        events = await events_of(friday(TRIP, "Done.", hooks=[silent]), "Plan.")
        assert types(events).count("plan") == 0

    run_virtual(main())


def test_an_operator_around_a_stage_passes_changes_once():
    async def main() -> None:
        plain = around("acting", lambda source: source.pipe(ops.map(lambda event: event)))
        events = await events_of(friday(TRIP, BEGIN, "Done.", hooks=[plain]), "Plan.")
        assert types(events).count("plan") == 2
        lossy = around("acting", lambda source: source.pipe(ops.filter(lambda e: not isinstance(e, PlanEvent))))
        agent = friday(TRIP, "Done.", hooks=[lossy])
        with pytest.raises(HookError, match="lost this PlanEvent"):
            await agent.call("Plan.")
        assert_whole(agent)

    run_virtual(main())


def test_a_recorded_run_has_its_changes(tmp_path: Path):
    async def main() -> None:
        agent = friday(TRIP, BEGIN, finish(0), "Done.")
        file = tmp_path / "run.jsonl"
        seen: list[Event] = await record(agent.stream("Plan."), file).pipe(ops.to_list())
        read: list[Event] = await replay(file).pipe(ops.to_list())
        assert fold(read).plan == fold(seen).plan == agent.plan_notebook.plan(agent.conversation())

    run_virtual(main())


def test_a_pool_keeps_the_plan_of_each_user(tmp_path: Path):
    async def main() -> None:
        agent = friday(TRIP, "Planned.", "Hi.", BEGIN, "Begun.")
        async with ConversationPool(agent, JsonSession(tmp_path), max_kept=1) as pool:
            await pool.call("ann", "1", "Plan my trip.")
            await pool.call("bob", "1", "Hello")
            assert (await pool.call("ann", "1", "Begin.")).text == "Begun."
        hints = [request.messages[-1].text for request in agent.model.requests]
        assert ["Trip" in text for text in hints] == [False, True, False, True, True]

    run_virtual(main())


def test_a_shutdown_leaves_the_plan_as_it_is(tmp_path: Path):
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=1)
        agent = friday(TRIP, Delay(100), "late", shutdown=shutdown)
        await agent.bind(JsonSession(tmp_path), "ann")
        running = asyncio.ensure_future(agent.call("Plan.").as_task())
        await asyncio.sleep(5)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await running
        again = friday("Done.")
        await again.bind(JsonSession(tmp_path), "ann")
        assert again.plan_notebook.plan(again.conversation()).name == "Trip"

    run_virtual(main())


def test_overlapping_runs_of_a_conversation_share_the_plan():
    async def main() -> None:
        agent = friday(TRIP, "Done.", BEGIN, finish(0), "a", "b", check_running=False)
        await agent.call("Plan.")
        await asyncio.gather(agent.call("One."), agent.call("Two."))
        plan = agent.plan_notebook.plan(agent.conversation())
        assert plan.count("done") <= 1 and plan.subtasks[0].state != "todo"

    run_virtual(main())


def test_plan_mode_and_a_notebook_work_together():
    async def main() -> None:
        book = PlanNotebook()
        agent = planning_friday([CHANGE, TRIP], submit(), CHANGE, "Done.", plan_notebook=book, tools=[change])
        reply = await agent.call("Change a.")
        assert book.plan(agent.conversation()).name == "Trip"
        assert (await agent.call(Approve(reply.pending_calls[0]))).text == "Done."
        assert [text.startswith("Error") for text in texts(agent)] == [True, False, False, False]
        assert all("system-hint" in text for text in (m.text for m in agent.model.requests[0].messages[-2:]))

    run_virtual(main())


def test_each_sub_agent_has_a_mode_of_its_own():
    async def main() -> None:
        helper = ReActAgent("Helper", ScriptedModel(CHANGE, "Cannot."), tools=[change], plan_mode=True)
        from agentscope_rx.testing import call

        agent = ReActAgent("Friday", ScriptedModel(call("call_helper", message="a"), "Done."), tools=[helper.as_tool()])
        await agent.call("Change a.")
        assert "Cannot." in texts(agent)[0]
        (child,) = agent.conversation().children.all
        assert "Plan mode is on" in texts_of(child.memory)[0]

    def texts_of(memory) -> list[str]:
        return [result.text for message in memory.messages for result in message.tool_results]

    run_virtual(main())


# --- the states of parts ----------------------------------------------------------------------------------------------


def test_threads_lose_no_change_of_a_part():
    parts = PartStates()

    def add() -> None:
        for _ in range(200):
            while True:
                before = parts.get("n")
                count = 0 if before is None else before.state
                if parts.swap("n", before, PartState(1, count + 1)):
                    break

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert parts.get("n").state == 800


def test_unknown_parts_survive_a_round_trip():
    parts = PartStates()
    saved = {"later": {"version": 7, "state": [1, {"a": None}]}, "plan": {"version": 1, "state": {}}}
    parts.restore(saved)
    assert parts.dump() == saved
    assert parts.swap("plan", parts.get("plan"), None) and parts.dump() == {"later": saved["later"]}
    assert not parts.swap("later", None, None)
    parts.restore({})
    assert parts.dump() == {}


def test_objects_without_a_conversation_have_their_own_state():
    book, mode = PlanNotebook(), PlanMode()
    book.set_plan(Plan("P")).run()
    assert book.plan().name == "P" and book.plan(PartStates()) is None
    assert PlanNotebook().plan() is None
    assert mode.leave() and not mode.is_on() and mode.is_on(PartStates())


def test_a_conversation_that_is_dropped_takes_its_plan_along():
    agent = friday(TRIP, "Done.")

    async def main() -> ref[PartStates]:
        memory = InMemoryMemory()
        await agent.call("Plan.", memory=memory)
        return ref(agent.conversation(memory).parts)

    parts = run_virtual(main())
    agent.model.requests.clear()
    gc.collect()
    assert parts() is None
