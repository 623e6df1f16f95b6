"""`session=` and `session_key=`: the agent's own conversation is bound at its first run, within the run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import Approve, ConversationPool, InMemoryMemory, Msg, ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, SavedStateError, SessionError
from agentscope_rx.events import ErrorEvent, PreCallEvent
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.session import InMemorySession, JsonSession, Session, open_session
from agentscope_rx.testing import ScriptedModel, collect_dropped, run_virtual
from agentscope_rx.testing.scripted_model import Delay
from tests.agent.parts import assert_whole, remembered


def friday(session: Any = None, key: str | None = "ann", *turns: Any, **options: Any) -> ReActAgent:
    model = ScriptedModel(*(turns or ("ok",)), repeat=True)
    return ReActAgent("Friday", model, session=session, session_key=key, **options)


def said(found: ReActAgent) -> list[str]:
    return [message.text for message in remembered(found)]


class Slow(InMemorySession):
    """Takes a second for a load, and may refuse it."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = 0
        self.broken = False

    def load_all(self, key: Any, names: Any = None) -> Any:
        from agentscope_rx.reactive import from_callable

        async def load() -> Any:
            self.loads += 1
            await asyncio.sleep(1)
            if self.broken:
                raise SessionError("no answer", key=key)
            return await super(Slow, self).load_all(key, names)

        return from_callable(load)


class Seen(ScriptedModel):
    """Notes which tools it is told of in each round."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.told: list[list[str]] = []

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        self.told.append([each.name for each in tools])
        return super().do_stream(messages, tools, options)


@pytest.mark.parametrize("place", ["chat.db", "conversations", "memory:option"])
def test_a_path_or_url_is_enough(tmp_path: Path, place: str):
    async def main() -> None:
        name = place if ":" in place else f"{tmp_path}/{place}"
        one = friday(name, "ann", "1")
        assert isinstance(one.session, Session) and one.session == open_session(name)
        await one.call("a")
        assert one.conversation().saved_as == "ann"
        await one.session.close()
        again = friday(name, "ann", "2")
        assert said(again) == []
        await again.call("b")
        assert said(again) == ["a", "1", "b", "2"]
        assert again.session is not None and len(await again.session.history("ann")) == 2
        await again.session.close()

    run_virtual(main())


def test_it_is_bound_before_the_input_is_taken():
    """The hooks on PreCall see what was loaded; so do calls that only look."""

    async def main() -> None:
        session = InMemorySession()
        await friday(session, "ann", "1").call("a")
        one = friday(session, "ann", "2")
        events = [event async for event in one.stream("b")]
        assert isinstance(events[0], PreCallEvent) and [each.text for each in events[0].history] == ["a", "1"]
        two = friday(session)
        assert await two.pending_calls() == () and said(two) == ["a", "1", "b", "2"]
        three = friday(session)
        await three.observe(Msg.user("c", "Bob"))
        assert said(three) == ["a", "1", "b", "2", "c"]

    run_virtual(main())


def test_pending_calls_and_groups_are_those_of_the_session():
    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Deletes a file."""
        return f"deleted {path}"

    @tool
    def plain() -> str:
        """Does nothing."""
        return "nothing"

    def make(*turns: Any) -> ReActAgent:
        kit = Toolkit([delete])
        kit.create_tool_group("extra", "More.")
        kit.register(plain, group="extra")
        return ReActAgent(
            "Friday", Seen(*turns), toolkit=kit, enable_meta_tool=True, session=session, session_key="ann"
        )

    session = InMemorySession()

    async def main() -> None:
        activate = ToolUseBlock("m", "reset_equipped_tools", {"to_activate": ["extra"]})
        await make([activate], [ToolUseBlock("c", "delete", {"path": "x"})]).call("go")
        # the first call runs what the session has pending, with the groups of the session
        reply = await make("done").call()
        assert [each.id for each in reply.pending_calls] == ["c"]
        other = make("done")
        await other.call(Approve("c"))
        assert isinstance(other.model, Seen) and "plain" in other.model.told[0]

    run_virtual(main())


@pytest.mark.parametrize("check_running", [True, False])
def test_first_calls_that_come_together_bind_once(check_running: bool):
    async def main() -> None:
        session = Slow()
        await friday(session, "ann", "1").call("a")
        session.loads = 0
        one = friday(session, "ann", check_running=check_running, when_busy="queue" if check_running else "error")
        await asyncio.gather(*(one.call(f"{n}").as_task() for n in range(3)))
        assert session.loads == 1
        assert said(one)[:2] == ["a", "1"] and sorted(said(one)) == sorted(["a", "1", "0", "1", "2", *["ok"] * 3])
        twin = ReActAgent("Friday", ScriptedModel())
        await twin.load(session, "ann")
        assert said(twin) == said(one)

    run_virtual(main())


def test_a_failure_is_the_runs_and_the_next_run_tries_again():
    async def main() -> None:
        session = Slow()
        session.broken = True
        one = friday(session)
        events: list[Any] = []
        with pytest.raises(SessionError, match="no answer"):
            await one.stream("a").pipe(ops.do_action(events.append))
        assert [type(each) for each in events] == [ErrorEvent] and not one.running and said(one) == []
        with pytest.raises(SessionError, match="no answer"):
            await one.pending_calls()
        session.broken = False
        await session.save_all("ann", {"state": {"version": 99}})
        with pytest.raises(SavedStateError, match="99"):
            await one.call("a")
        await session.delete("ann")
        await one.call("a")
        assert said(one) == ["a", "ok"] and await session.exists("ann")

    run_virtual(main())


@pytest.mark.parametrize("how", ["dispose", "interrupt", "deadline"])
def test_a_run_can_end_while_it_is_bound(how: str):
    async def main() -> None:
        from agentscope_rx.agent import UsageLimits
        from agentscope_rx.errors import RunDeadlineError

        session = Slow()
        one = friday(session, "ann", "1", [Delay(5), "late"])
        await one.call("a")
        one = friday(session)
        limits = UsageLimits(deadline=0.5) if how == "deadline" else None
        running = one.call("b", limits=limits).as_task()
        await asyncio.sleep(0.2)
        if how == "dispose":
            running.cancel()
            await one.idle()
        elif how == "interrupt":
            one.interrupt("stop")
            assert (await running).text == "stop"
        else:
            with pytest.raises(RunDeadlineError):
                await running
        assert not one.running
        assert_whole(one)
        await one.call("c")
        assert said(one)[:2] == ["a", "1"] and said(one)[-2:] == ["c", "ok"]

    with collect_dropped() as dropped:
        run_virtual(main())
    assert dropped == []


def test_other_memories_and_other_places_are_left_alone():
    async def main() -> None:
        session, other = InMemorySession(), InMemorySession()
        one, bob = friday(session), InMemoryMemory()
        await one.call("a", memory=bob)
        assert await session.keys() == [] and one.conversation(bob).saved_as is None
        # a binding of the caller's comes first
        await one.bind(other, "elsewhere")
        await one.call("a")
        assert await session.keys() == [] and await other.keys() == ["elsewhere"]

    run_virtual(main())


def test_a_checkpoint_that_was_loaded_before_stays():
    async def main() -> None:
        session = InMemorySession()
        one = friday(session, "ann", "1", "2")
        await one.call("a")
        await one.call("b")
        again = friday(session, "ann", "3")
        await again.load(session, "ann", at=1)
        await again.call("c")
        assert said(again) == ["a", "1", "c", "3"]
        assert [each.parent for each in await session.history("ann")] == [None, 1, 1]

    run_virtual(main())


def test_a_session_needs_a_key_and_a_key_a_session(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="session_key='ann'"):
        friday("chat.db", None)
    with pytest.raises(ConfigurationError, match="needs a session"):
        friday(None, "ann")
    with pytest.raises(ConfigurationError, match="session_key"):
        friday("chat.db", "  ")
    with pytest.raises(ConfigurationError, match="Session"):
        friday(3, "ann")
    with pytest.raises(ConfigurationError, match="no store for 'ftp'"):
        friday("ftp://chat", "ann")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["memory", "journal", "state"])
def test_an_entry_of_the_other_kind_is_not_an_agents(name: str):
    store = InMemorySession()
    if name == "state":
        store.save_list("ann", name, ["mine"]).run()
    else:
        store.save("ann", name, "mine").run()
    with pytest.raises(SavedStateError, match=f"entry '{name}' is a .*another key"):
        friday(store).call("Hello").run()
    assert store.load_all("ann").run().version == "1"


def test_a_lease_of_another_name_is_told():
    with pytest.raises(ConfigurationError, match=r"A lease.* is 'error' or 'queue', not 'wait'"):
        friday(None, None).bind(InMemorySession(), "ann", lease="wait").run()  # type: ignore[arg-type]


def test_a_path_where_a_session_is_needed_names_open_session():
    agent = friday(None, None)
    for use in (agent.bind, agent.save, agent.load):
        with pytest.raises(ConfigurationError, match=r"open_session\(\.\.\.\)") as caught:
            use("redis://:s3cret@host", "ann")  # type: ignore[arg-type]
        assert "s3cret" not in str(caught.value)


def test_a_pool_takes_a_path(tmp_path: Path):
    async def main() -> None:
        agent = ReActAgent("Friday", ScriptedModel("ok", repeat=True))
        async with ConversationPool(agent, tmp_path / "conversations") as pool:
            await pool.call("ann", "s1", "hi")
        assert await JsonSession(tmp_path / "conversations").keys() == ["ann/s1"]

    run_virtual(main())
