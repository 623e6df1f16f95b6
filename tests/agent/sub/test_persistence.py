"""Sub-agents' conversations are saved with their parent's, in one step, and go on in another process."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from agentscope_rx import Approve, GracefulShutdown, InMemorySession, JsonSession, Session
from agentscope_rx.errors import AgentShuttingDownError, SavedStateError
from agentscope_rx.testing import Delay, run_virtual
from tests.agent.parts import remembered
from tests.agent.sub.parts import Done, agent, ask, assert_all_whole, child_of, given, history, researcher, use
from tests.support.assertions import assert_prompts_are_whole, results_in


@pytest.fixture(params=["memory", "files"])
def session(request: pytest.FixtureRequest, tmp_path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def team(done: Done, *, low: tuple[Any, ...] = (), mid: tuple[Any, ...] = (), top: tuple[Any, ...] = ()):
    """A boss, a researcher and a helper of hers; new objects, as another process has them."""
    helper = agent("Low", *low, tools=[done.delete], external=True)
    child = researcher(*mid, tools=[helper.as_tool(), done.delete])
    return agent("Boss", *top, tools=[child.as_tool()]), child, helper


@pytest.mark.spec("R27")
def test_an_approval_in_another_process_reaches_the_sub_agent(session: Session):
    """R27, field #40: two levels deep; nothing runs twice, nothing is asked twice."""
    done = Done()

    async def main() -> None:
        boss, *_ = team(
            done,
            low=([use("delete", "x", path="1"), use("ask_person", "y")],),
            mid=([use("call_low", "l", message="dig"), use("delete", "z", path="2")],),
            top=(ask("p"),),
        )
        assert await boss.bind(session, "s") is False
        reply = await boss.call("go")
        assert [call.id for call in reply.pending_calls] == ["p/l/x", "p/l/y", "p/z"]
        # answered in part: that is kept, too
        await boss.call(Approve("p/z", remember="tool"))
        assert done.deleted == ["2"]

        boss, child, low = team(done)
        assert await boss.load(session, "s")
        assert [call.id for call in await boss.pending_calls()] == ["p/l/x", "p/l/y"]
        assert boss.conversation().children.all[0].memory is None, "read, but not asked for yet"

        # and saved again before anything has asked for it
        other = InMemorySession()
        await boss.save(other, "copy")
        boss, child, low = team(done, low=("low",), mid=([use("delete", "more", path="3")], "mid"), top=("top",))
        assert await boss.bind(other, "copy")
        reply = await boss.call([Approve("p/l/x"), given("p/l/y", "yes")])
        assert reply.text == "top"
        # (approved for good before the restart)
        assert done.deleted == ["2", "1", "3"]
        assert len(child.model.requests) == 2 and len(low.model.requests) == 1
        for each in (boss, child, low):
            assert_prompts_are_whole(each.model)
        await assert_all_whole(boss.conversation(), remembered(boss))

        again, *_ = team(done, mid=("of course",), top=(ask("q", conversation_id=child_of(boss).id), "fine"))
        await again.load(other, "copy")
        assert (await again.call("do you remember?")).text == "fine"
        assert (await history(child_of(again)))[0].text == "go"

    run_virtual(main())


def test_a_shutdown_in_the_middle_goes_on_in_another_process(session: Session):
    done = Done()

    async def main() -> None:
        boss, *_ = team(done, mid=([Delay(60), "late"],), top=(ask("p", "look it up"),))
        await boss.bind(session, "s")
        shutdown = GracefulShutdown(timeout=2)
        shutdown.add(boss)
        boss.shutdown = shutdown
        task = boss.call("go").as_task()
        await asyncio.sleep(1)
        await shutdown.begin()
        with suppress(AgentShuttingDownError):
            await task
        assert task.exception() is not None

        boss, child, _ = team(done, mid=("here it is",), top=("thanks",))
        await boss.bind(session, "s")
        assert [call.id for call in await boss.pending_calls()] == ["p"]
        assert (await boss.call()).text == "thanks"
        said = [message.text for message in child.model.requests[0].messages]
        assert said.count("look it up") == 1
        await assert_all_whole(boss.conversation(), remembered(boss))

    run_virtual(main())


def test_what_waits_is_passed_by_in_another_process(session: Session):
    done = Done()

    async def main() -> None:
        boss, *_ = team(
            done, low=(use("delete", "x", path="1"),), mid=(use("call_low", "l", message="dig"),), top=(ask("p"),)
        )
        await boss.call("go")
        await boss.save(session, "s")
        boss, *_ = team(done, top=("Sure.",))
        await boss.load(session, "s")
        assert (await boss.call("never mind")).text == "Sure."
        await assert_all_whole(boss.conversation(), remembered(boss))
        low = child_of(child_of(boss).conversation)
        assert results_in(await history(low))["x"][0] == "interrupted" and not done.deleted

    run_virtual(main())


def test_a_save_does_not_write_again_what_has_not_changed(tmp_path):
    """Size: of ten sub-agents' conversations, a turn with none of them touches none of their files."""

    async def main() -> None:
        child = researcher(*(f"answer {n}" for n in range(10)))
        calls = [ask(f"p{n}") for n in range(10)]
        boss = agent("Boss", calls, "ok", "hi", tools=[child.as_tool()])
        await boss.bind(JsonSession(tmp_path), "s")
        await boss.call("go")
        files = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("child*")}
        assert len(files) == 10
        sizes = {path: path.read_bytes() for path in files}
        await boss.call("hello")
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("child*")} == files
        assert {path: path.read_bytes() for path in files} == sizes

    run_virtual(main())


def test_a_slot_is_used_again():
    async def main() -> None:
        session = InMemorySession()
        child = researcher("1", "2", "3", "4")
        options = {"max_conversations": 2}
        boss = agent("Boss", ask("a"), "ok", ask("b"), "ok", ask("c"), "ok", tools=[child.as_tool(**options)])
        await boss.bind(session, "s")
        for _ in range(3):
            await boss.call("go")
        saved = await session.load_all("s")
        assert sorted(saved.lists) == ["child:0", "child:1", "history", "memory"]
        assert sorted(each["slot"] for each in saved.values["state"]["children"]) == [0, 1]
        other = agent("Boss", ask("d", conversation_id=child_of(boss, 1).id), "ok", tools=[child.as_tool()])
        await other.load(session, "s")
        await other.call("go")
        assert [message.text for message in await history(child_of(other, 1))] == ["go", "3", "go", "4"]

    run_virtual(main())


def test_a_state_of_version_1_is_read_and_a_newer_one_is_not():
    async def main() -> None:
        session = InMemorySession()
        boss = agent("Boss", "hi", "again")
        await boss.call("hello")
        await boss.save(session, "s")
        state = (await session.load_all("s")).values["state"]
        old = {
            name: value for name, value in state.items() if name in ("agent", "pending", "answers", "rules", "cut_off")
        }
        await session.save("s", "state", {"version": 1, **old})
        assert await agent("Boss").load(session, "s")
        await session.save("s", "state", {**state, "version": 5})
        with pytest.raises(SavedStateError, match="version 5"):
            await agent("Boss").load(session, "s")

    run_virtual(main())


@pytest.mark.parametrize("wrong", ["missing", "damaged", "state"])
def test_what_is_not_whole_is_refused_and_changes_nothing(wrong: str):
    async def main() -> None:
        session = InMemorySession()
        child = researcher("one")
        boss = agent("Boss", ask("p"), "ok", tools=[child.as_tool()])
        await boss.call("go")
        await boss.save(session, "s")
        if wrong == "missing":
            await session.remove("s", "child:0")
        elif wrong == "damaged":
            await session.save_list("s", "child:0", [{"name": "x"}])
        else:
            state: Any = (await session.load_all("s")).values["state"]
            state["children"][0]["state"]["pending"] = "all"
            await session.save("s", "state", json.loads(json.dumps(state)))
        other = agent("Boss", "hi", tools=[child.as_tool()])
        with pytest.raises(SavedStateError, match="child" if wrong != "state" else "state"):
            await other.load(session, "s")
        assert not remembered(other) and other.conversation().children is None

    run_virtual(main())


def test_a_saved_child_is_refused_to_another_agent_of_its_name():
    async def main() -> None:
        session = InMemorySession()
        boss = agent("Boss", ask("p"), "ok", tools=[researcher("one").as_tool()])
        await boss.call("go")
        await boss.save(session, "s")
        stranger = agent("Stranger", "two").as_tool("call_researcher")
        other = agent("Boss", ask("q", conversation_id=child_of(boss).id), "ok", tools=[stranger])
        await other.load(session, "s")
        await other.call("go")
        assert "saved by an agent named 'Researcher'" in results_in(remembered(other))["q"][1]

    run_virtual(main())


def test_a_pending_call_whose_tool_is_gone_gets_a_result():
    done = Done()

    async def main() -> None:
        session = InMemorySession()
        boss, *_ = team(done, mid=(use("delete", "z", path="2"),), top=(ask("p"),))
        await boss.call("go")
        await boss.save(session, "s")
        bare = agent("Boss", "I see.")
        await bare.load(session, "s")
        assert [call.id for call in await bare.pending_calls()] == ["p/z"]
        assert (await bare.call(Approve("p/z"))).text == "I see."
        assert results_in(remembered(bare))["p"][0] == "not_found"
        await bare.save(session, "s")
        saved = await session.load_all("s")
        assert len(saved.lists["child:0"]) == 2

    run_virtual(main())
