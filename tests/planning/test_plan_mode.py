"""Plan mode: read-only tools until a person has approved the plan; over restarts, and in the caller's hands."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Approve, GenerateReason, InMemoryMemory, Msg, ReActAgent, Reject, ToolUseBlock, hook, tool
from agentscope_rx.errors import ConfigurationError, HookError, InvalidInputError
from agentscope_rx.events import Event, PlanEvent, PreActingEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.planning import PlanMode, PlanNotebook, TodoList
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import Toolkit
from agentscope_rx.tools.files import FileTools
from tests.agent.parts import assert_whole, events_of
from tests.support.assertions import results

done: list[str] = []
REJECTED = ToolResultKind.REJECTED


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool(read_only=True)
def look(path: str) -> str:
    """Reads."""
    done.append(f"look {path}")
    return "a file"


@tool
def change(path: str) -> str:
    """Writes."""
    done.append(f"change {path}")
    return "changed"


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Deletes."""
    done.append(f"delete {path}")
    return "gone"


LOOK, CHANGE, DELETE = (call(name, path="a") for name in ("look", "change", "delete"))


def submit(plan: str = "1. change a") -> ToolUseBlock:
    return call("submit_plan", plan=plan)


def friday(*turns: object, plan_mode: PlanMode | bool = True, **options) -> ReActAgent:
    options.setdefault("tools", [look, change, delete])
    return ReActAgent("Friday", ScriptedModel(*turns), plan_mode=plan_mode, **options)


def kinds(agent: ReActAgent) -> list[ToolResultKind | None]:
    return [result.kind for result in results(agent.memory.messages)]


def hints(agent: ReActAgent) -> list[bool]:
    return ["Plan mode is on" in request.messages[-1].text for request in agent.model.requests]


def mode_of(agent: ReActAgent) -> PlanMode:
    return next(each for each in agent.hooks if isinstance(each, PlanMode))


def test_only_reading_tools_run_until_the_plan_is_approved():
    async def main() -> None:
        agent = friday([LOOK, CHANGE, DELETE], submit(), [CHANGE, LOOK], "Done.")
        reply = await agent.call("Change a.")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [each.name for each in reply.pending_calls] == ["submit_plan"]
        assert kinds(agent) == [None, REJECTED, REJECTED], "no approval was asked for what may not run"
        assert done == ["look a"]
        assert "submit_plan" in results(agent.memory.messages)[1].text
        reply = await agent.call(Approve(reply.pending_calls[0]))
        assert reply.text == "Done." and done == ["look a", "change a", "look a"]
        assert hints(agent) == [True, True, False, False]
        assert not mode_of(agent).is_on(agent.conversation())
        assert_whole(agent)

    run_virtual(main())


def test_a_rejected_plan_is_revised():
    async def main() -> None:
        agent = friday(submit("all of it"), CHANGE, submit("only a"), CHANGE, "Done.")
        reply = await agent.call("Change a.")
        reply = await agent.call(Reject(reply.pending_calls[0], "too much"))
        assert kinds(agent) == [REJECTED, REJECTED] and done == []
        assert results(agent.memory.messages)[0].text.endswith("too much")
        assert reply.pending_calls[0].input["plan"] == "only a"
        assert (await agent.call(Approve(reply.pending_calls[0]))).text == "Done."
        assert done == ["change a"] and hints(agent) == [True, True, True, False, False]

    run_virtual(main())


def test_the_approved_plan_is_an_event_as_the_caller_edits_it():
    async def main() -> None:
        agent = friday(submit(), "Done.")
        seen: list[str] = []
        mode_of(agent).on_change("a", lambda event: seen.append(event.change))
        reply = await agent.call("Change a.")
        events = await events_of(agent, Approve(reply.pending_calls[0], {"plan": "1. look twice"}))
        (event,) = [each for each in events if isinstance(each, PlanEvent)]
        assert (event.name, event.change, event.text) == ("plan_mode", "mode_off", "1. look twice")
        assert seen == ["mode_off"] and mode_of(agent).remove_on_change("a")

    run_virtual(main())


@pytest.fixture(params=["memory", "files"])
def session(request, tmp_path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def test_a_pending_approval_survives_a_restart(session: Session):
    async def main() -> None:
        first = friday([CHANGE, submit()])
        await first.bind(session, "ann")
        await first.call("Change a.")
        second = friday(CHANGE, "Done.")
        await second.bind(session, "ann")
        assert mode_of(second).is_on(second.conversation())
        (pending,) = await second.pending_calls()
        assert (await second.call(Approve(pending))).text == "Done."
        assert done == ["change a"]
        third = friday(CHANGE, "Done.")
        await third.bind(session, "ann")
        assert not mode_of(third).is_on(third.conversation()), "the approval was saved"
        await third.call("Again.")
        assert done == ["change a"] * 2

    run_virtual(main())


def test_the_mode_is_of_one_conversation():
    async def main() -> None:
        agent = friday(CHANGE, "Done.", CHANGE, "Done.")
        ann, bob = InMemoryMemory(), InMemoryMemory()
        assert agent.leave_plan_mode(memory=ann) is True and agent.leave_plan_mode(memory=ann) is False
        await agent.call("Change a.", memory=ann)
        await agent.call("Change a.", memory=bob)
        assert [result.kind for memory in (ann, bob) for result in results(memory.messages)] == [None, REJECTED]

    run_virtual(main())


def test_the_caller_enters_the_mode_again():
    async def main() -> None:
        agent = friday(CHANGE, "Done.", CHANGE, submit(), plan_mode=PlanMode(start=False))
        await agent.call("Change a.")
        assert agent.enter_plan_mode() is True and agent.enter_plan_mode() is False
        await agent.call("Change a.")
        assert kinds(agent) == [None, REJECTED] and hints(agent) == [False, False, True, True]

    run_virtual(main())


def test_the_model_enters_the_mode_if_it_may():
    async def main() -> None:
        assert "enter_plan_mode" not in friday("Hi.").toolkit
        agent = friday(call("enter_plan_mode"), CHANGE, "Done.", plan_mode=PlanMode(start=False, enter_tool=True))
        events = await events_of(agent, "Change a.")
        assert [event.change for event in events if isinstance(event, PlanEvent)] == ["mode_on"]
        assert kinds(agent) == [None, REJECTED]

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_behind_an_entry_are_in_the_mode(parallel: bool):
    async def main() -> None:
        mode, kit = PlanMode(start=False, enter_tool=True), Toolkit([look, change, delete], parallel=parallel)
        agent = friday([call("enter_plan_mode"), CHANGE, LOOK], "Done.", plan_mode=mode, tools=None, toolkit=kit)
        await agent.call("Change a.")
        assert kinds(agent) == [None, REJECTED, None] and done == ["look a"]
        assert_whole(agent)

    run_virtual(main())


def test_a_person_enters_the_mode_between_two_calls():
    async def main() -> None:
        @tool
        def first() -> str:
            """The person enters the mode meanwhile."""
            assert agent.enter_plan_mode()
            return "1"

        turns = [call("first"), CHANGE], "Done."
        kit = Toolkit([first, change], parallel=False)
        agent = friday(*turns, plan_mode=PlanMode(start=False), tools=None, toolkit=kit)
        await agent.call("Change a.")
        assert kinds(agent) == [None, REJECTED] and done == []
        assert_whole(agent)

    run_virtual(main())


def test_a_plan_is_not_submitted_outside_of_the_mode():
    async def main() -> None:
        agent = friday(submit(), "Done.", plan_mode=PlanMode(start=False))
        assert (await agent.call("Change a.")).text == "Done."
        assert kinds(agent) == [REJECTED] and "Plan mode is off" in results(agent.memory.messages)[0].text

    run_virtual(main())


def test_planning_tools_and_allowed_ones_run_in_the_mode():
    async def main() -> None:
        hooks = [TodoList(), PlanNotebook()]
        rounds = [CHANGE, call("write_todos", todos=[]), call("get_subtask_count"), call("nothing")]
        agent = friday(rounds, "Done.", plan_mode=PlanMode(allow=["change"], hint=""), hooks=hooks)
        await agent.call("Change a.")
        assert done == ["change a"] and REJECTED not in kinds(agent)
        assert hints(agent) == [False, False]

    run_virtual(main())


def test_a_call_that_a_hook_changes_is_refused_too():
    @hook(PreActingEvent)
    def turn(event: Event) -> Event:
        assert isinstance(event, PreActingEvent)
        use = event.tool_use
        return event.replace(tool_use=ToolUseBlock(use.id, "change", use.input))

    async def main() -> None:
        agent = friday(LOOK, "Done.", hooks=[turn])
        events = await events_of(agent, "Look at a.")
        assert done == [] and kinds(agent) == [REJECTED]
        assert not any(isinstance(event, PreActingEvent) for event in events)
        assert_whole(agent)

    run_virtual(main())


def test_a_sub_agent_is_a_tool_that_may_change_something():
    async def main() -> None:
        helper = ReActAgent("Helper", ScriptedModel("Hi.", "Hi."))
        ask = call("call_helper", message="Hello")
        agent = friday(ask, "Done.", tools=[helper.as_tool()])
        await agent.call("Ask.")
        trusted = Toolkit()
        trusted.register(helper.as_tool(), read_only=True)
        other = friday(ask, "Done.", tools=None, toolkit=trusted)
        await other.call("Ask.")
        assert kinds(agent) == [REJECTED] and kinds(other) == [None]

    run_virtual(main())


def test_the_output_of_a_call_is_given_in_the_mode():
    async def main() -> None:
        agent = friday(call("generate_response", city="Rome"), "Done.")
        shape = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        reply = await agent.call("Which?", output=shape)
        assert reply.structured() == {"city": "Rome"}

    run_virtual(main())


def test_tools_that_only_read_say_so(tmp_path):
    toolkit = Toolkit()
    toolkit.register_all(FileTools(tmp_path))
    reading = {name for name in toolkit.names if toolkit.get(name).read_only}
    assert reading == {"read_file", "list_directory", "glob", "grep"}
    toolkit.register(change, name="viewed", read_only=True)
    assert toolkit.get("viewed").read_only and not change.read_only


@pytest.mark.parametrize("when", ["pending", "running"])
def test_an_interruption_leaves_the_mode_on(when: str):
    @tool(read_only=True)
    async def slowly() -> str:
        """Takes its time."""
        await asyncio.sleep(100)
        return "late"

    async def main() -> None:
        agent = friday([call("slowly"), submit()] if when == "running" else submit(), "Hi.", tools=[slowly])
        running = asyncio.ensure_future(agent.call("Change a.").as_task())
        await asyncio.sleep(1)
        assert agent.interrupt() is (when == "running")
        await running
        assert mode_of(agent).is_on(agent.conversation())
        assert (await agent.call("Something else.")).text == "Hi."
        assert_whole(agent)
        assert mode_of(agent).is_on(agent.conversation())

    run_virtual(main())


@pytest.mark.parametrize(
    "make",
    [
        lambda: friday("Hi.", plan_mode="yes"),
        lambda: PlanMode(start="yes"),
        lambda: PlanMode(enter_tool=1),
        lambda: PlanMode(allow="look"),
        lambda: ReActAgent("Friday", ScriptedModel("Hi.")).enter_plan_mode(),
    ],
)
def test_options_that_cannot_work_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


@pytest.mark.parametrize("answer", [3, ValueError("no")])
def test_a_refusal_that_fails_ends_the_run(answer: object):
    class Odd(Hook):
        def refusal(self, call, tool, source):
            if isinstance(answer, Exception):
                raise answer
            return answer

    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel(LOOK, "Hi."), tools=[look], hooks=[Odd()])
        with pytest.raises(HookError if answer == 3 else ValueError):
            await agent.call("Look.")
        assert done == []
        assert_whole(agent)

    run_virtual(main())


def test_a_state_that_cannot_be_read_fails_the_run():
    async def main() -> None:
        agent = friday("Hi.")
        agent.conversation().parts.restore({"plan_mode": {"version": 1, "state": {"on": "maybe"}}})
        with pytest.raises(InvalidInputError, match="plan mode"):
            await agent.call(Msg.user("Hello"))

    run_virtual(main())
