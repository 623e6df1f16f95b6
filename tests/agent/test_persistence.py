"""Saved conversations: what comes back, in another process, is what was there; pending work of every kind goes on."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import (
    Approve,
    GenerateReason,
    InMemoryMemory,
    Msg,
    Reject,
    Toolkit,
    ToolSuspend,
    tool,
)
from agentscope_rx.agent import StatePersistence
from agentscope_rx.errors import AgentBusyError, ConfigurationError, SavedStateError, SessionError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import throw
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel
from tests.agent.parts import agent, assert_whole, remembered, slow, weather

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    done.append(path)
    return f"deleted {path}"


@tool
def ask_boss(question: str) -> str:
    """Asks a person who is not there."""
    raise ToolSuspend("ask later")


def call(name: str, id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def friday(*turns, **options):
    return agent(ScriptedModel(*turns), tools=None, toolkit=Toolkit([delete, ask_boss, weather, slow]), **options)


@pytest.fixture(params=["memory", "files"])
def session(request, tmp_path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def test_what_is_loaded_is_what_was_saved(session: Session):
    async def main() -> None:
        first = friday([call("weather", "w", city="Rome")], "Sunny.")
        await first.call("How is Rome?")
        await first.save(session, "ann/1")

        second = friday("Still sunny.")
        assert await second.load(session, "ann/1") is True
        assert list(remembered(second)) == list(remembered(first))
        assert (await second.call("And now?")).text == "Still sunny."
        assert_whole(second)

    run_virtual(main())


def test_loading_what_is_not_there_changes_nothing(session: Session):
    async def main() -> None:
        someone = friday("hello")
        await someone.call("hi")
        before = list(remembered(someone))
        assert await someone.load(session, "nobody") is False
        assert list(remembered(someone)) == before

    run_virtual(main())


def test_approvals_are_asked_for_in_another_process(session: Session):
    async def main() -> None:
        first = friday([call("delete", "a", path="x"), call("delete", "b", path="y")])
        await first.call("go")
        await first.call(Approve("a", remember="arguments"))
        assert done == ["x"]
        await first.save(session, "s")

    async def other_process() -> None:
        second = friday("all done", [call("delete", "c", path="x")], "done again")
        await second.load(session, "s")
        assert [c.id for c in (await second.call()).pending_calls] == ["b"]
        reply = await second.call(Approve("b"))
        assert reply.text == "all done" and done == ["x", "y"]
        # what was approved for good is so here, too
        assert (await second.call("more")).text == "done again" and done == ["x", "y", "x"]
        assert_whole(second)

    run_virtual(main())
    run_virtual(other_process())


def test_answers_out_of_turn_are_saved_too(session: Session):
    async def main() -> None:
        toolkit = Toolkit([delete], parallel=False)
        first = agent(
            ScriptedModel([call("delete", "a", path="x"), call("delete", "b", path="y")]), tools=None, toolkit=toolkit
        )
        await first.call("go")
        await first.call(Reject("b", "not this one"))
        await first.save(session, "s")
        second = agent(ScriptedModel("ok"), tools=None, toolkit=toolkit)
        await second.load(session, "s")
        reply = await second.call(Approve("a"))
        assert reply.text == "ok" and done == ["x"]
        assert [(r.id, r.kind) for m in remembered(second) for r in m.tool_results] == [("a", None), ("b", "rejected")]

    run_virtual(main())


def test_suspended_calls_are_answered_in_another_process(session: Session):
    async def main() -> None:
        first = friday([call("weather", "w", city="Rome"), call("ask_boss", "q", question="?")])
        assert (await first.call("go")).generate_reason is GenerateReason.TOOL_SUSPENDED
        await first.save(session, "s")
        second = friday("The boss says yes.")
        await second.load(session, "s")
        reply = await second.call(Msg.tool(ToolResultBlock("q", "ask_boss", "yes")))
        assert reply.text == "The boss says yes."
        assert_whole(second)

    run_virtual(main())


@pytest.mark.spec("W44")
@pytest.mark.parametrize("pending", [True, False])
def test_a_loaded_agent_knows_what_is_not_its_own(session: Session, pending: bool):
    """An open call of the same name in the history is a peer's if the saved state says so: it is never run, and
    gets a result only because the model would be told in each prompt that one is to come."""

    async def main() -> None:
        first = friday("hi")
        await first.call("hello")
        # an agent of the same name has an open call in this history
        await first.memory.add([Msg.assistant(call("weather", "peer", city="Rome"), "Friday")])
        await first.save(session, "s", persistence=StatePersistence(pending=pending))
        second = friday("well", "well")
        await second.load(session, "s")
        assert [each.id for each in await second.pending_calls()] == ([] if pending else ["peer"])
        await second.call("go on")
        (result,) = (result for message in remembered(second) for result in message.tool_results)
        assert (result.id, result.kind) == ("peer", "interrupted")
        assert ("effect is unknown" in result.text) == pending

    run_virtual(main())


def test_persistence_chooses(session: Session):
    async def main() -> None:
        first = friday([call("delete", "a", path="x")])
        await first.call("go")
        await first.save(session, "only memory", persistence=StatePersistence.memory_only())
        assert (await session.load_all("only memory")).values == {}
        await first.save(session, "only state", persistence=StatePersistence(memory=False))
        assert (await session.load_all("only state")).lists == {}
        second = friday()
        assert await second.load(session, "only state") is True
        assert list(remembered(second)) == []

    run_virtual(main())


@pytest.mark.spec("R7")
def test_a_bound_conversation_is_saved_at_every_end(session: Session):
    """Completed, failed, interrupted, disposed."""

    async def main() -> None:
        first = friday("one", ValueError("model"), [Delay(10), "late"], [call("slow", "s", seconds=10)])
        assert await first.bind(session, "s") is False

        async def saved() -> list[Msg]:
            other = friday()
            await other.load(session, "s")
            assert_whole(other)
            return list(remembered(other))

        await first.call("a")
        assert [m.text for m in await saved()] == ["a", "one"]
        with pytest.raises(ValueError, match="model"):
            await first.call("b")
        assert [m.text for m in await saved()][2:] == ["b"]
        running = first.call("c").as_task()
        await asyncio.sleep(1)
        first.interrupt("stop")
        await running
        assert [m.text for m in await saved()][3:] == ["c", "stop"]
        running = first.call("d").as_task()
        await asyncio.sleep(1)
        running.cancel()
        await first.idle()
        assert list(remembered(first)) == await saved()
        assert [m.tool_results[0].kind for m in (await saved())[-1:]] == ["interrupted"]

        again = friday("back")
        assert await again.bind(session, "s") is True
        assert (await again.call("e")).text == "back"

    run_virtual(main())


class Full(InMemorySession):
    """Takes nothing more."""

    full = False

    def save_all(self, key, values, lists=None, **options):
        return (
            throw(SessionError("no space", key=key)) if self.full else super().save_all(key, values, lists, **options)
        )


def test_a_failed_save_fails_the_run_and_memory_has_the_reply():
    async def main() -> None:
        store = Full()
        someone = friday("one", "two", RuntimeError("model"), [Delay(5), "three"])
        await someone.bind(store, "s")
        await someone.call("a")
        store.full = True
        with pytest.raises(SessionError, match="no space"):
            await someone.call("b")
        assert not someone.running and [m.text for m in remembered(someone)] == ["a", "one", "b", "two"]
        # why the run failed is not replaced by why it could not be saved
        with collect_dropped() as dropped, pytest.raises(RuntimeError, match="model"):
            await someone.call("c")
        assert [str(error) for error in dropped] == ["no space"]
        with collect_dropped() as dropped:
            running = someone.call("d").as_task()
            await asyncio.sleep(1)
            running.cancel()
            await someone.idle()
        assert [str(error) for error in dropped] == ["no space"]
        store.full = False
        assert_whole(someone)

    run_virtual(main())


def test_save_and_load_wait_for_clean_up_and_refuse_in_a_run():
    async def main() -> None:
        store = InMemorySession()
        someone = friday([Delay(5), "one"], [call("slow", "s", seconds=10)], "three")
        running = someone.call("a").as_task()
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError):
            await someone.save(store, "s")
        with pytest.raises(AgentBusyError):
            await someone.load(store, "s")
        await running
        running = someone.call("b").as_task()
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(0)
        await someone.save(store, "s")
        other = friday()
        await other.load(store, "s")
        assert_whole(other)

    run_virtual(main())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"version": 99}, "version 99"),
        ({"version": 1}, "not the state"),
        ("nonsense", "not the state"),
        (
            {"version": 1, "agent": "Monday", "pending": [], "answers": [], "rules": [], "cut_off": None},
            "named 'Monday', .* Give this agent that name, or a key of its own",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_refused_without_changes(value: object, text: str):
    async def main() -> None:
        store = InMemorySession()
        someone = friday([call("delete", "a", path="x")], "ok")
        await someone.call("go")
        before = list(remembered(someone))
        await store.save_all("s", {"state": value}, {"memory": []})
        with pytest.raises(SavedStateError, match=text):
            await someone.load(store, "s")
        assert list(remembered(someone)) == before
        assert (await someone.call(Approve("a"))).text == "ok"

    run_virtual(main())


def test_messages_that_are_none_are_refused_by_their_place():
    async def main() -> None:
        store = InMemorySession()
        await store.save_all("s", {}, {"memory": [Msg.user("hi").to_dict(), {"name": 1}]})
        someone = friday()
        with pytest.raises(SavedStateError, match="item 1"):
            await someone.load(store, "s")
        assert list(remembered(someone)) == []

    run_virtual(main())


def test_conversations_are_saved_one_by_one():
    async def main() -> None:
        store = InMemorySession()
        someone = friday("to ann", "to bob")
        ann, bob = InMemoryMemory(), InMemoryMemory()
        await someone.bind(store, "ann", memory=ann)
        await someone.call("hi", memory=ann)
        await someone.call("hi", memory=bob)
        assert await store.keys() == ["ann"]
        await someone.save(store, "bob", memory=bob)
        assert [m["content"][0]["text"] for m in await store.load_list("bob", "memory")] == ["hi", "to bob"]

    run_virtual(main())


def test_only_what_is_new_is_written_out():
    async def main() -> None:
        store = InMemorySession()
        someone = friday(*[f"{n}" for n in range(5)])
        await someone.bind(store, "s")
        conversation = someone.conversation()
        for _ in range(5):
            before = list(conversation._saved_items.items)
            await someone.call("go")
            assert all(new is old for new, old in zip(conversation._saved_items.items, before, strict=False))
        assert len(await store.load_list("s", "memory")) == 10

    run_virtual(main())


def test_what_is_no_session_is_refused_at_once():
    someone = friday()
    for act in (someone.save, someone.load, someone.bind):
        with pytest.raises(ConfigurationError, match="Session"):
            act("sessions/", "s")  # type: ignore[arg-type]
