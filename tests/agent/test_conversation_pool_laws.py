"""Nothing said is lost in a pool: not by evictions, failures, disposals or other processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx import (
    ConversationPool,
    InMemoryMemory,
    InMemorySession,
    JsonSession,
    ReActAgent,
    tool,
)
from agentscope_rx.agent import conversation_key
from agentscope_rx.errors import ConfigurationError, SessionConflictError, SessionStorageError
from agentscope_rx.reactive import Flow, from_callable, throw
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole
from tests.agent.pools import Counting, SlowSession, said, stored


def counting(delay: float = 0.0, **options: Any) -> ReActAgent:
    return agent(Counting(delay), **options)


# --- keys -----------------------------------------------------------------------------------------------------------

PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip) | st.sampled_from(
    ["..", "a/b", "a", "b/c", "/", "%2F", "a%2Fb", "~", ".", "A", "\0", "é", "e\u0301", "x" * 300, "con", "../../etc"]
)


@given(PARTS, PARTS, PARTS, PARTS)
@example("a/b", "c", "a", "b/c")
@example("a", "b%2Fc", "a%2Fb", "c")
def test_no_two_pairs_have_one_key(user: str, session_id: str, other: str, other_id: str):
    same = (user, session_id) == (other, other_id)
    assert (conversation_key(user, session_id) == conversation_key(other, other_id)) == same
    assert conversation_key(user, session_id).isascii()


def test_odd_names_stay_in_their_folder(tmp_path: Path):
    pairs = [
        ("..", ".."),
        ("../..", "etc"),
        ("a/b", "c"),
        ("a", "b/c"),
        ("A", "x"),
        ("a", "x"),
        ("\0", "n"),
        ("é", "~"),
    ]
    root = tmp_path / "sessions"

    async def main() -> None:
        pool = ConversationPool(counting(), JsonSession(root), max_kept=0)
        for user, session_id in pairs:
            await pool.call(user, session_id, f"{user} {session_id}")
        for user, session_id in pairs:
            assert (await stored(pool, user, session_id))[0] == f"{user} {session_id}"
        await pool.aclose()

    run_virtual(main())
    assert [path.name for path in tmp_path.iterdir()] == ["sessions"]
    assert len(list(root.iterdir())) == len(pairs)


def test_a_key_for_two_pairs_is_refused():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), key=lambda user, session_id: user)
        await pool.call("ann", "1", "secret")
        with pytest.raises(ConfigurationError, match="'ann'"):
            await pool.call("ann", "2", "hi")
        assert pool.statistics()[:3] == (1, 1000, 0)
        await pool.aclose()

    run_virtual(main())


# --- evictions ------------------------------------------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "call", "stream", "dispose", "interrupt", "evict", "lease", "wait", "fail"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(steps=STEPS, max_kept=st.integers(0, 3), max_idle=st.none() | st.integers(1, 5))
def test_evictions_lose_nothing(steps: Any, max_kept: int, max_idle: int | None):
    """The same steps with a pool, and with one memory for each user that is kept for ever."""

    class Failing(Counting):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
            if messages[-1].text.startswith("fail"):
                return ScriptedModel(ValueError("no")).do_stream(messages, tools, options)
            return super().do_stream(messages, tools, options)

    async def main() -> None:
        pool = ConversationPool(agent(Failing(2)), InMemorySession(), max_kept=max_kept, max_idle=max_idle)
        plain = agent(Failing(2))
        memories = [InMemoryMemory() for _ in range(3)]
        for n, (what, user, pause) in enumerate(steps):
            name, memory = f"user {user}", memories[user]
            if what == "evict":
                assert await pool.evict(name, "1") in (True, False)
            elif what == "lease":
                assert await stored(pool, name, "1") == said(memory)
            elif what == "stream":
                assert [text async for text in pool.stream(name, "1", f"{n}").text()]
                await plain.call(f"{n}", memory=memory)
            elif what == "wait":
                await asyncio.sleep(pause)
            else:
                text = f"fail {n}" if what == "fail" else f"{n}"
                tasks = [pool.call(name, "1", text).as_task(), plain.call(text, memory=memory).as_task()]
                if what == "dispose":
                    await asyncio.sleep(1)
                    for task in tasks:
                        task.cancel()
                elif what == "interrupt":
                    await asyncio.sleep(1)
                    assert pool.interrupt(name, "1", "stopped") and plain.interrupt("stopped", memory=memory)
                outcomes = await asyncio.gather(*tasks, return_exceptions=True)
                assert len({type(outcome) for outcome in outcomes}) == 1
            counts = pool.statistics()
            assert counts.kept - counts.in_use <= max_kept and counts.unsaved == 0
        await plain.idle()
        for user, memory in enumerate(memories):
            assert await stored(pool, f"user {user}", "1") == said(memory)
        await pool.aclose()

    run_virtual(main())


# --- the session fails ----------------------------------------------------------------------------------------------


def test_a_failed_load_fails_all_that_wait_for_it():
    async def main() -> None:
        session = SlowSession()
        session.failing = {"load"}
        pool = ConversationPool(counting(), session)
        tasks = [pool.call("ann", "1", "hi").as_task() for _ in range(3)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, SessionStorageError) for outcome in outcomes)
        assert session.loads == 1
        assert pool.statistics() == (0, 1000, 0, 0, 0, 0, 0)
        session.failing = set()
        assert (await pool.call("ann", "1", "hi")).text == "1: hi"
        assert session.loads == 2
        await pool.aclose()

    run_virtual(main())


def test_a_failed_factory_is_asked_again():
    asked: list[str] = []

    def make(user: str, session_id: str) -> ReActAgent:
        asked.append(user)
        if len(asked) == 1:
            raise ZeroDivisionError("no")
        return counting()

    async def main() -> None:
        pool = ConversationPool(make, InMemorySession())
        with pytest.raises(ZeroDivisionError):
            await pool.call("ann", "1", "hi")
        assert (await pool.call("ann", "1", "hi")).text == "1: hi"
        await pool.aclose()

    run_virtual(main())


def test_what_could_not_be_saved_stays():
    async def main() -> None:
        session = SlowSession()
        pool = ConversationPool(counting(), session, max_kept=0, max_idle=10)
        await pool.call("ann", "1", "one")
        session.failing = {"save"}
        with pytest.raises(SessionStorageError):
            await pool.call("ann", "1", "two")
        await asyncio.sleep(100)
        assert pool.statistics() == (1, 0, 0, 1, 2, 1, 1)
        for fails in (pool.flush(), pool.evict("ann", "1")):
            with pytest.raises(SessionStorageError):
                await fails
        with pytest.raises(SessionStorageError):
            await pool.aclose()
        assert pool.statistics().unsaved == 1, "closed, and nothing is lost"
        session.failing = set()
        await pool.flush()
        assert pool.statistics().kept == 0
        other = ConversationPool(counting(), session)
        assert await stored(other, "ann", "1") == ["one", "1: one", "two", "2: two"]
        await other.aclose()

    run_virtual(main())


def test_the_next_run_saves_what_could_not_be_saved():
    async def main() -> None:
        session = SlowSession()
        pool = ConversationPool(counting(), session, max_kept=0)
        session.failing = {"save"}
        for text in ("one", "two"):
            with pytest.raises(SessionStorageError):
                await pool.call("ann", "1", text)
        session.failing = set()
        assert (await pool.call("ann", "1", "three")).text == "3: three"
        assert pool.statistics().kept == 0
        assert len(await stored(pool, "ann", "1")) == 6
        await pool.aclose()

    run_virtual(main())


def test_a_memory_changed_in_a_lease_is_saved_before_it_goes():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), max_kept=0)
        async with pool.conversation("ann", "1") as leased:
            await leased.agent.observe("Bob says hi", memory=leased.memory)
        assert pool.statistics().unsaved == 1
        assert await pool.evict("ann", "1")
        assert await stored(pool, "ann", "1") == ["Bob says hi"]
        async with pool.conversation("ann", "1") as leased:
            await leased.agent.observe("and bye", memory=leased.memory)
            await leased.save()
        assert pool.statistics().kept == 0
        await pool.aclose()
        async with ConversationPool(counting(), InMemorySession()) as pool, pool.conversation("ann", "1") as leased:
            await leased.agent.observe("kept at the end", memory=leased.memory)
        assert pool.statistics().kept == 0

    run_virtual(main())


def test_a_change_while_another_use_ends_is_not_overlooked():
    class Slow(InMemoryMemory):
        """What it gives is a second old."""

        def get(self) -> Flow[Any]:
            return from_callable(self.view)

        async def view(self) -> Any:
            found = self.messages
            await asyncio.sleep(1)
            return found

    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), memory=lambda user, session_id: Slow(), max_kept=0)
        first = pool.pending_calls("ann", "1").as_task()
        await asyncio.sleep(1.5)
        async with pool.conversation("ann", "1") as leased:
            await leased.agent.observe("unsaved", memory=leased.memory)
        assert not first.done()
        await first
        assert pool.statistics()[:4] == (1, 0, 0, 1)
        await pool.aclose()

    run_virtual(main())


def test_a_memory_that_cannot_be_read_stays():
    class Broken(InMemoryMemory):
        broken = False

        def get(self) -> Flow[Any]:
            return throw(OSError("gone")) if self.broken else super().get()

    async def main() -> None:
        memory = Broken()
        pool = ConversationPool(counting(), InMemorySession(), memory=lambda user, session_id: memory, max_kept=0)
        with collect_dropped() as dropped:
            async with pool.conversation("ann", "1"):
                memory.broken = True
        assert [str(error) for error in dropped] == ["gone"]
        assert pool.statistics()[:4] == (1, 0, 0, 1)
        memory.broken = False
        await pool.aclose()

    run_virtual(main())


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("resolve", ["discard", "load", "overwrite"])
def test_two_processes_do_not_overwrite_each_other(files: bool, resolve: str, tmp_path: Path):
    async def main() -> None:
        session = JsonSession(tmp_path) if files else InMemorySession()
        one = ConversationPool(counting(), session, max_idle=10)
        other = ConversationPool(counting(), JsonSession(tmp_path) if files else session, max_idle=10)
        await one.call("ann", "1", "a")
        await other.call("ann", "1", "b")
        with pytest.raises(SessionConflictError) as caught:
            await one.call("ann", "1", "c")
        assert caught.value.key == "ann/1"
        await asyncio.sleep(100)
        assert one.statistics()[:4] == (1, 1000, 0, 1), "c is not lost"
        with pytest.raises(SessionConflictError):
            await one.evict("ann", "1")
        if resolve == "discard":
            assert await one.evict("ann", "1", discard=True)
        else:
            async with one.conversation("ann", "1") as leased:
                assert said(leased.memory)[-2:] == ["c", "2: c"]
                await (leased.load() if resolve == "load" else leased.save(overwrite=True))
        await one.call("ann", "1", "d")
        ours = ["c", "2: c", "d", "3: d"] if resolve == "overwrite" else ["b", "2: b", "d", "3: d"]
        assert await stored(one, "ann", "1") == ["a", "1: a", *ours]
        assert one.statistics().unsaved == 0
        await one.aclose()
        await other.aclose()

    run_virtual(main())


# --- disposal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
@pytest.mark.parametrize("how", ["cancel", "cancel all", "close the stream", "interrupt"])
def test_left_at_any_point_it_is_whole(at: float, how: str):
    """Load until 1, reasoning until 2, a tool until 3, reasoning until 4, save until 5."""

    @tool
    async def look() -> str:
        """Looks."""
        await asyncio.sleep(1)
        return "seen"

    async def main() -> None:
        session = SlowSession()
        model = ScriptedModel([Delay(1), call("look")], [Delay(1), "ok"], repeat=True)
        friday = ReActAgent("Friday", model, tools=[look])
        pool = ConversationPool(friday, session, max_kept=0)
        if how == "close the stream":
            stream = pool.stream("ann", "1", "hi").buffered(1000)
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(at)
            reading.cancel()
            await asyncio.wait([reading])
            await stream.aclose()
        else:
            task = pool.call("ann", "1", "hi").as_task()
            waiting = pool.pending_calls("ann", "1").as_task()
            await asyncio.sleep(at)
            if how == "interrupt":
                pool.interrupt("ann", "1")
            else:
                task.cancel()
                if how == "cancel all":
                    waiting.cancel()
            await asyncio.wait([task, waiting])
            if how != "cancel all":
                assert waiting.result() == ()
        await pool.aclose()
        assert pool.statistics()[:4] == (0, 0, 0, 0)
        assert friday.runs == () and not friday.running
        pool = ConversationPool(friday, session)
        async with pool.conversation("ann", "1") as leased:
            friday.memory = leased.memory
            assert_whole(friday)
            before = len(said(leased.memory))
            friday.model = ScriptedModel("again")
            assert (await leased.call("go on")).text == "again"
            assert len(said(leased.memory)) == before + 2
        await pool.aclose()

    run_virtual(main())


def test_a_disposed_load_is_begun_again_by_the_next_in_line():
    async def main() -> None:
        session = SlowSession()
        pool = ConversationPool(counting(), session)
        tasks = [pool.pending_calls("ann", "1").as_task() for _ in range(3)]
        await asyncio.sleep(0.5)
        tasks[0].cancel()
        tasks[2].cancel()
        assert await tasks[1] == ()
        assert (session.loads, asyncio.get_running_loop().time()) == (2, 1.5)
        assert pool.statistics()[:5] == (1, 1000, 0, 0, 1)
        await pool.aclose()

    run_virtual(main())


def test_a_lease_ends_with_its_block():
    async def main() -> None:
        pool = ConversationPool(counting(), SlowSession(), max_kept=0)

        async def fail() -> None:
            async with pool.conversation("ann", "1") as leased:
                await leased.call("hi")
                raise KeyError("from the block")

        with pytest.raises(KeyError):
            await fail()
        assert pool.statistics()[:4] == (0, 0, 0, 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5), pool.conversation("ann", "1"):
                raise AssertionError
        assert pool.statistics()[:4] == (0, 0, 0, 0)
        await pool.aclose()

    run_virtual(main())


def test_a_subscriber_that_throws_leaves_the_pool_whole():
    async def main() -> None:
        pool = ConversationPool(counting(1), InMemorySession(), max_kept=0)

        def refuse(event: Any) -> None:
            raise ValueError("not this")

        with collect_dropped() as dropped:
            pool.stream("ann", "1", "hi").subscribe(refuse, lambda error: None)
            await asyncio.sleep(10)
        assert [str(error) for error in dropped] in (["not this"], [])
        await pool.aclose()
        assert pool.statistics()[:4] == (0, 0, 0, 0)

    run_virtual(main())
