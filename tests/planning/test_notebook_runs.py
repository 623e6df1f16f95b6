"""A notebook in runs of agents: wiring, conversations, saving, events, listeners, and every end of a run."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook, InMemoryMemory, ReActAgent
from agentscope_rx.errors import ConfigurationError, DuplicateToolError, InvalidInputError, ToolDefinitionError
from agentscope_rx.events import Event, PlanEvent, PostActingEvent, StreamOptions, event_from_json, fold
from agentscope_rx.hooks import hook
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.plan import Plan
from agentscope_rx.planning import InMemoryPlanStorage, PlanMode, PlanNotebook, SessionPlanStorage, TodoList
from agentscope_rx.reactive import Flow, concat_map, just, timer
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import ScriptedModel, call, check_hook, collect_dropped, run_virtual
from tests.agent.parts import assert_whole, events_of, types
from tests.planning.parts import BEGIN, TRIP, finish, friday, texts
from tests.planning.test_notebook_tools import TEN
from tests.support.assertions import results

VIEW = call("view_historical_plans")
OVER = call("finish_plan", state="done", outcome="there")


@pytest.mark.spec("case 152")
def test_an_agent_gets_the_tools_and_the_hook():
    """ReActAgentPlanIntegrationTest#testPlanToolsAutoRegistration / #testPlanHintHookAutoRegistration."""
    book = PlanNotebook()
    agent = friday("Hi.", notebook=book)
    assert set(agent.toolkit.names) == TEN and book in agent.hooks and agent.plan_notebook is book
    by_hook = ReActAgent("Friday", ScriptedModel("Hi."), hooks=[book])
    assert set(by_hook.toolkit.names) == TEN and by_hook.plan_notebook is book
    by_hook.hooks.remove(book)
    assert by_hook.toolkit.names == () and by_hook.plan_notebook is None
    only_tools = ReActAgent("Friday", ScriptedModel("Hi."), tools=book.tools())
    assert set(only_tools.toolkit.names) == TEN and len(only_tools.hooks) == 0
    assert ReActAgent("Friday", ScriptedModel("Hi.")).plan_notebook is None


def test_what_is_no_notebook_is_refused():
    with pytest.raises(ConfigurationError, match="plan_notebook"):
        ReActAgent("Friday", ScriptedModel("Hi."), plan_notebook="plan")  # pyright: ignore
    with pytest.raises(DuplicateToolError):
        ReActAgent("Friday", ScriptedModel("Hi."), hooks=[PlanNotebook(), PlanNotebook(name="other")])


@pytest.mark.parametrize("make", [PlanNotebook, TodoList, PlanMode])
def test_a_hook_is_not_given_as_a_tool(make):
    with pytest.raises(ToolDefinitionError, match="It is a hook"):
        ReActAgent("Friday", ScriptedModel("Hi."), tools=[make()])


@pytest.mark.parametrize("make", [PlanNotebook, TodoList, PlanMode])
def test_the_hooks_keep_the_laws_of_hooks(make):
    check_hook(make)


def test_each_conversation_has_its_own_plan():
    async def main() -> None:
        agent = friday(TRIP, "Planned.", "Hi.", VIEW, "None.")
        ann, bob = InMemoryMemory(), InMemoryMemory()
        await agent.call("Plan my trip.", memory=ann)
        await agent.call("Hello", memory=bob)
        await agent.call("And before?", memory=bob)
        book = agent.plan_notebook
        assert book.plan(agent.conversation(ann)).name == "Trip"
        assert book.plan(agent.conversation(bob)) is None and book.plan(agent.conversation()) is None
        assert results(bob.messages)[-1].text == "No historical plans found."
        assert not any("Trip" in message.text for request in agent.model.requests[2:] for message in request.messages)

    run_virtual(main())


def test_one_notebook_serves_agents_at_once():
    async def main() -> None:
        book = PlanNotebook()
        agents = [friday(TRIP, BEGIN, *(finish(i) for i in range(each)), "Done.", notebook=book) for each in (0, 1, 3)]
        await asyncio.gather(*(agent.call("Plan my trip.") for agent in agents))
        plans = [book.plan(agent.conversation()) for agent in agents]
        assert [plan.count("done") for plan in plans] == [0, 1, 3]
        assert [plan.in_progress for plan in plans] == [0, 1, None]

    run_virtual(main())


def test_calls_of_one_round_change_one_plan():
    async def main() -> None:
        agent = friday(TRIP, [BEGIN, call("update_plan_info", name="Tour"), finish(0)], "Done.")
        await agent.call("Plan my trip.")
        plan = agent.plan_notebook.plan(agent.conversation())
        assert (plan.name, plan.count("done"), plan.in_progress) == ("Tour", 1, 1)
        assert_whole(agent)

    run_virtual(main())


def test_a_sub_agent_has_a_plan_of_its_own():
    async def main() -> None:
        book = PlanNotebook()
        helper = ReActAgent("Helper", ScriptedModel(TRIP, "Planned."), hooks=[book])
        agent = friday(call("call_helper", message="Plan."), "Done.", notebook=book, tools=[helper.as_tool()])
        events = await events_of(agent, "Go.")
        (event,) = [each for each in events if isinstance(each, PlanEvent)]
        assert (event.agent, event.depth, event.plan.name) == ("Helper", 1, "Trip")
        assert book.plan(agent.conversation()) is None
        (child,) = agent.conversation().children.all
        assert book.plan(child.conversation).name == "Trip"
        assert fold(events).plan is None

    run_virtual(main())


# --- saving -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "files"])
def session(request, tmp_path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


@pytest.mark.spec("case 151", "W74")
def test_a_plan_is_saved_with_its_conversation(session: Session):
    """PlanNotebookStateModuleTest: nothing of the plan is lost; the history is kept, too."""

    async def main() -> None:
        first = friday(TRIP, BEGIN, finish(0), TRIP, "Done.")
        await first.bind(session, "ann")
        await first.call("Plan my trip.")
        second = friday(finish(0), "Done.")
        assert await second.bind(session, "ann")
        before, after = ((agent.plan_notebook, agent.conversation()) for agent in (first, second))
        assert after[0].plan(after[1]) == before[0].plan(before[1]) is not None
        (old,) = await after[0].historical_plans(after[1])
        assert (old,) == await before[0].historical_plans(before[1])
        assert (old.subtasks[0].outcome, old.subtasks[0].state) == ("ok", "done")
        await second.call("Go on.")
        assert "'in_progress' now" in texts(second)[-1]
        assert "first subtask" in second.model.requests[0].messages[-1].text

    run_virtual(main())


@pytest.mark.spec("case 151")
def test_names_keep_plans_apart(session: Session):
    """PlanNotebookStateModuleTest#testKeyPrefixIsolation / #testNullPlan."""

    async def main() -> None:
        first = friday(TRIP, "Done.", notebook=PlanNotebook(name="work"))
        await first.call("Plan my trip.")
        await first.save(session, "ann")
        other = friday("Hi.", notebook=PlanNotebook(name="home"))
        await other.load(session, "ann")
        assert other.plan_notebook.plan(other.conversation()) is None
        await other.call("Hello")
        await other.save(session, "ann")
        again = friday(notebook=PlanNotebook(name="work"))
        await again.load(session, "ann")
        assert again.plan_notebook.plan(again.conversation()).name == "Trip"
        blank = friday("Hi.")
        await blank.call("Hello")
        await blank.save(session, "blank")
        await again.load(session, "blank")
        assert again.plan_notebook.plan(again.conversation()) is None

    run_virtual(main())


def test_a_storage_that_comes_later_loses_no_plan(session: Session):
    async def main() -> None:
        first = friday(TRIP, OVER, "Done.")
        await first.bind(session, "ann")
        await first.call("Plan my trip.")
        (old,) = await first.plan_notebook.historical_plans(first.conversation())
        storage = InMemoryPlanStorage()
        again = call("recover_historical_plan", plan_id=old.id)
        second = friday(TRIP, OVER, again, OVER, "Done.", notebook=PlanNotebook(storage=storage))
        await second.bind(session, "ann")
        await second.call("Another trip.")
        kept = await second.plan_notebook.historical_plans(second.conversation())
        assert len(kept) == 2 and old.id in {plan.id for plan in kept}
        assert len(await storage.plans()) == 2

    run_virtual(main())


def test_a_storage_in_a_session_serves_all_conversations(session: Session):
    async def main() -> None:
        storage = SessionPlanStorage(session, "plans of all")
        agent = friday(TRIP, OVER, "Done.", notebook=PlanNotebook(storage=storage))
        await agent.call("Plan my trip.")
        (old,) = await storage.plans()
        assert (old.name, old.state, old.outcome) == ("Trip", "done", "there")
        other = friday(
            VIEW,
            call("recover_historical_plan", plan_id=old.id),
            OVER,
            "Done.",
            notebook=PlanNotebook(storage=SessionPlanStorage(session, "plans of all")),
        )
        await other.call("Go on with it.")
        assert old.id in texts(other)[0]
        assert [plan.id for plan in await storage.plans()] == [old.id], "one of each id"

    run_virtual(main())


# --- events and listeners ---------------------------------------------------------------------------------------------


def test_changes_are_events_of_the_run():
    async def main() -> None:
        agent = friday(TRIP, BEGIN, call("get_subtask_count"), finish(0), OVER, "Done.")
        events = await events_of(agent, "Plan my trip.")
        plans = [event for event in events if isinstance(event, PlanEvent)]
        assert [(event.change, event.subtask) for event in plans] == [
            ("created", None),
            ("subtask_state", 0),
            ("subtask_finished", 0),
            ("finished", None),
        ]
        assert [event.seq for event in events] == list(range(len(events)))
        assert {event.run_id for event in plans} == {events[0].run_id}
        assert types(events)[4:8] == ["pre_acting", "plan", "acting_chunk", "post_acting"]
        assert plans[-1].plan.state == "done"
        for event in plans:
            assert event_from_json(event.to_json()) == event.replace(source=event_from_json(event.to_json()).source)
        last = next(i for i, event in enumerate(events) if event is plans[2])
        assert fold(events[: last + 1]).plan == plans[2].plan
        assert fold(events).plan is None
        only = [event async for event in friday(TRIP, "Done.").stream("Plan", StreamOptions(kinds=PlanEvent))]
        assert types(only) == ["plan"]

    run_virtual(main())


def test_hooks_observe_changes_and_cannot_stop_them():
    seen: list[tuple[str, str, str]] = []

    class Watch(Hook):
        def on_plan(self, event: PlanEvent) -> None:
            seen.append((event.change, event.agent, event.plan.name))
            raise ValueError("no")

    async def main() -> None:
        agent = friday(TRIP, BEGIN, "Done.", hooks=[Watch()])
        with collect_dropped() as dropped:
            events = await events_of(agent, "Plan my trip.")
        assert seen == [("created", "Friday", "Trip"), ("subtask_state", "Friday", "Trip")]
        assert len(dropped) == 2 and types(events).count("plan") == 2

    run_virtual(main())


def test_changes_flow_to_subscribers_until_they_leave():
    async def main() -> None:
        agent = friday(TRIP, BEGIN, "Done.", finish(0), "Done.")
        book = agent.plan_notebook
        seen: list[str] = []
        subscription = book.changes.subscribe(lambda event: seen.append(event.change))
        pulled: list[str] = []

        async def pull() -> None:
            async for event in book.changes:
                pulled.append(event.change)
                if len(pulled) == 3:
                    return

        puller = asyncio.ensure_future(pull())
        await asyncio.sleep(0)
        await agent.call("Plan my trip.")
        await asyncio.sleep(0)
        assert seen == ["created", "subtask_state"]
        subscription.dispose()
        await agent.call("Go on.")
        await puller
        assert seen == ["created", "subtask_state"] and pulled == [*seen, "subtask_finished"]
        assert book._changes.count == 0

    run_virtual(main())


def test_a_subscriber_that_fails_does_not_break_the_tool():
    async def main() -> None:
        agent = friday(TRIP, BEGIN, "Done.")

        def fail(event: Event) -> None:
            raise ValueError("no")

        errors: list[Exception] = []
        agent.plan_notebook.changes.subscribe(fail, errors.append)
        with collect_dropped():
            assert (await agent.call("Plan my trip.")).text == "Done."
            await asyncio.sleep(0)
        assert agent.plan_notebook.plan(agent.conversation()).in_progress == 0
        assert [result.kind for result in results(agent.memory.messages)] == [None, None]

    run_virtual(main())


# --- ends -------------------------------------------------------------------------------------------------------------


class SlowStorage(InMemoryPlanStorage):
    """Takes ten seconds."""

    def add(self, plan: Plan) -> Flow[None]:
        return timer(10).pipe(concat_map(lambda _: super(SlowStorage, self).add(plan)))


@pytest.mark.parametrize("end", ["interrupt", "dispose", "none"])
def test_an_end_while_a_plan_is_stored_loses_nothing(end: str):
    async def main() -> None:
        storage = SlowStorage()
        agent = friday(TRIP, OVER, "Done.", "Hi.", notebook=PlanNotebook(storage=storage))
        handle = agent.stream("Plan my trip.").subscribe(lambda event: None, lambda error: None)
        await asyncio.sleep(5)
        plan = agent.plan_notebook.plan(agent.conversation())
        assert plan is not None and not plan.closed
        if end == "interrupt":
            assert agent.interrupt()
        elif end == "dispose":
            handle.dispose()
        await agent.idle()
        assert_whole(agent)
        kept = {each.id for each in await storage.plans()}
        if end == "none":
            assert agent.plan_notebook.plan(agent.conversation()) is None and kept == {plan.id}
        else:
            assert agent.plan_notebook.plan(agent.conversation()) is plan and kept == set()
            assert results(agent.memory.messages)[-1].kind is ToolResultKind.INTERRUPTED
        assert (await agent.call("Hello")).text == ("Hi." if end == "none" else "Done.")

    run_virtual(main())


def test_two_changes_at_once_do_not_overwrite_each_other():
    async def main() -> None:
        edit = call("update_plan_info", name="Tour")
        agent = friday(TRIP, [OVER, edit], "Done.", notebook=PlanNotebook(storage=SlowStorage()))
        await agent.call("Plan my trip.")
        assert "changed meanwhile" in texts(agent)[1] and "Tour" in texts(agent)[2]
        assert agent.plan_notebook.plan(agent.conversation()).name == "Tour"

    run_virtual(main())


def test_a_run_that_fails_keeps_the_plan():
    @hook(PostActingEvent)
    def broken(event: Event) -> None:
        raise ValueError("no")

    async def main() -> None:
        agent = friday(TRIP, "Hi.", hooks=[broken])
        with pytest.raises(ValueError, match="no"):
            await agent.call("Plan my trip.")
        assert agent.plan_notebook.plan(agent.conversation()).name == "Trip"
        assert_whole(agent)
        assert (await agent.call("Hello")).text == "Hi."

    run_virtual(main())


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({"version": 1, "state": {"current": {"name": ""}}}, "not a Plan"),
        ({"version": 1, "state": 3}, "must be a JSON object"),
        ({"version": 1, "state": {"history": 3}}, "must be a list"),
        ({"version": 99, "state": {}}, "version 99"),
    ],
)
def test_a_state_that_cannot_be_read_fails_the_run(saved, said: str):
    async def main() -> None:
        agent = friday("Hi.")
        agent.conversation().parts.restore({"plan": saved})
        with pytest.raises(InvalidInputError, match=said):
            await agent.call("Hello")
        assert agent.conversation().parts.dump() == {"plan": saved}, "it is kept"

    run_virtual(main())


def test_a_flow_of_a_set_plan_is_cold():
    async def main() -> None:
        agent = friday("Hi.")
        book, where = agent.plan_notebook, agent.conversation()
        setting = book.set_plan(Plan("Mine"), where)
        assert book.plan(where) is None
        await setting.pipe(concat_map(lambda _: just(None)))
        assert book.plan(where).name == "Mine"

    run_virtual(main())
