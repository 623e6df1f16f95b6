"""`agent.compact()`: the hooks that compact, asked between runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, Memory, Msg, hook
from agentscope_rx.errors import AgentBusyError, ConfigurationError, ConversationLeasedError
from agentscope_rx.events import ContextEvent, MemoryEvent
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.sql import SqlMemory
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import ScriptedModel, Turn
from tests.agent.compacting import SUMMARY, Compacts, look, requests, summarized, texts
from tests.agent.parts import agent, assert_whole, remembered
from tests.agent.test_compaction_ends import SlowWrites
from tests.agent.test_leases import lease_of, policy


def friday(*turns: Turn, delay: float = 0.0, **options):
    compacts = Compacts(lambda request: summarized(request, 0), delay=delay, why=["manual"])
    options.setdefault("hooks", [compacts])
    return agent(ScriptedModel(*(turns or (look(1), "done", "more"))), **options)


def marks_in(memory: InMemoryMemory) -> set[bool]:
    return {COMPRESSED in each.marks for each in memory.messages}


def test_it_makes_the_conversation_smaller_between_runs():
    one = friday()

    async def main() -> None:
        await one.call("hi")
        done = await one.compact()
        assert isinstance(done, Compaction) and len(done.replaced) == 4
        (event,) = done.events
        assert (event.step, event.cause, event.agent) == ("summarize", "manual", "Friday")
        await one.call("and now?")

    run_virtual(main())
    assert requests(one.model)[-1] == [SUMMARY, "and now?"]
    assert texts(remembered(one))[:4] == ["hi", "c1", "c1", "done"]
    assert_whole(one)


def test_what_the_hook_is_told():
    one = friday()
    run_virtual(one.call("hi"))
    run_virtual(one.compact())
    (compacts,) = one.hooks.all
    asked = compacts.asked[-1]
    assert asked.why == "manual" and not asked.question and asked.error is None
    assert asked.system_message is not None and asked.system_message.text == "You are Friday."
    assert [each.name for each in asked.tools][:1] == ["weather"]


def test_it_is_empty_if_nothing_was_to_do():
    one = friday(hooks=[Compacts(lambda request: None)])
    assert run_virtual(one.compact()) == Compaction()


def test_an_agent_without_such_a_hook_says_so():
    with pytest.raises(ConfigurationError, match="has no hook that compacts"):
        agent(ScriptedModel("hello")).compact()
    with pytest.raises(ConfigurationError, match="memory must be"):
        friday().compact(memory=[])  # type: ignore[arg-type]


def test_another_memory_is_another_conversation():
    one, other = friday("hello"), InMemoryMemory()
    run_virtual(one.call("hi", memory=other))
    run_virtual(one.compact(memory=other))
    assert marks_in(other) == {True} and not remembered(one)


def test_it_waits_for_no_run():
    one = friday(look(1).replace(name="slow", input={"seconds": 9.0}), "done")

    async def main() -> None:
        running = asyncio.ensure_future(one.call("hi"))
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError):
            await one.compact()
        await running
        await one.compact()

    run_virtual(main())
    assert marks_in(one.memory) == {True}


def test_no_run_begins_meanwhile():
    one = friday(delay=5)

    async def main() -> None:
        await one.call("hi")
        working = asyncio.ensure_future(one.compact())
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError):
            await one.call("too early")
        await working
        await one.call("now")

    run_virtual(main())


def test_an_error_of_the_hook_is_its_error():
    def fails(request: CompactionRequest) -> Compaction:
        raise ValueError("no")

    one = friday(hooks=[Compacts(fails, why=["manual"])])
    run_virtual(one.call("hi"))
    with pytest.raises(ValueError, match="no"):
        run_virtual(one.compact())
    assert not one.running


def test_an_interruption_ends_the_work():
    one = friday(delay=5)

    async def main() -> None:
        await one.call("hi")
        working = asyncio.ensure_future(one.compact())
        await asyncio.sleep(1)
        assert one.interrupt()
        assert await working == Compaction()

    run_virtual(main())
    assert marks_in(one.memory) == {False}


@pytest.mark.parametrize("seconds", [0.5, 3, 6])
def test_disposal_leaves_memory_whole(seconds: float):
    one = friday(delay=3, memory=SlowWrites())

    async def main() -> None:
        await one.call("hi")
        working = asyncio.ensure_future(one.compact())
        await asyncio.sleep(seconds)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await one.idle()
        await asyncio.sleep(5)
        await one.call("and now?")

    run_virtual(main())
    assert [COMPRESSED in each.marks for each in remembered(one)[:4]] == [seconds > 1] * 4
    assert_whole(one)


def test_observers_see_what_was_done():
    seen: list[str] = []
    one = friday()
    one.hooks.add(hook(ContextEvent)(lambda event: seen.append(event.step)))
    one.hooks.add(hook(MemoryEvent)(lambda event: seen.append(f"{len(event.replaced)} messages")))
    run_virtual(one.call("hi"))
    run_virtual(one.compact())
    assert seen == ["summarize", "4 messages"]


# --- saved conversations ------------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "files"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def test_a_bound_conversation_is_saved(session: Session):
    async def main() -> None:
        one = friday()
        await one.bind(session, "k")
        await one.call("hi")
        await one.compact()
        history = await session.history("k")
        assert [each.stage for each in history] == ["run", "compact"]
        other = friday("more")
        await other.load(session, "k")
        assert marks_in(other.memory) == {True}
        await other.call("and now?")
        assert requests(other.model)[-1] == [SUMMARY, "and now?"]
        # before the compaction
        await other.load(session, "k", at=history[0])
        assert marks_in(other.memory) == {False}

    asyncio.run(main())


def test_a_compaction_of_nothing_saves_nothing(session: Session):
    async def main() -> None:
        one = friday(hooks=[Compacts(lambda request: None)])
        await one.bind(session, "k")
        await one.call("hi")
        await one.compact()
        assert [each.stage for each in await session.history("k")] == ["run"]

    asyncio.run(main())


def test_an_agent_with_a_session_loads_it_first(session: Session):
    async def main() -> None:
        await friday(session=session, session_key="k").call("hi")
        one = friday(session=session, session_key="k")
        assert len((await one.compact()).replaced) == 4

    asyncio.run(main())


def test_the_state_before_a_compaction_in_a_run_comes_back(session: Session):
    async def main() -> None:
        one = friday("hello", look(1), "done", hooks=[Compacts(above=2)])
        await one.bind(session, "k")
        await one.call("hi")
        await one.call("weather?")
        assert True in marks_in(one.memory)
        first, _ = await session.history("k")
        await one.load(session, "k", at=first)
        assert texts(remembered(one)) == ["hi", "hello"] and marks_in(one.memory) == {False}

    asyncio.run(main())


def test_it_works_with_the_lease_of_the_conversation():
    async def main() -> None:
        session = InMemorySession()
        one, other = friday(delay=5), friday(delay=5)
        await one.bind(session, "k", lease=policy(1))
        await other.bind(session, "k", lease=policy(2))
        await one.call("hi")
        working = asyncio.ensure_future(one.compact())
        await asyncio.sleep(1)
        with pytest.raises(ConversationLeasedError):
            await other.compact()
        await working
        assert (await lease_of(session))["holder"] is None
        assert (await other.compact()) == Compaction(), "it is compact already, as it is stored"
        assert (await lease_of(session))["holder"] is None

    run_virtual(main())


def test_a_conversation_in_a_database(tmp_path: Path):
    async def main() -> None:
        memory: Memory = SqlMemory(f"sqlite:///{tmp_path}/memory.db", "k")
        one = friday(memory=memory)
        await one.call("hi")
        await one.compact()
        await one.call(Msg.user("and now?"))
        assert requests(one.model)[-1] == [SUMMARY, "and now?"]
        assert isinstance(memory, SqlMemory)
        await memory.close()

    asyncio.run(main())
