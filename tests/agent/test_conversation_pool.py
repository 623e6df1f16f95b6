"""A pool finds the conversation of a user: loaded once, kept while in use, evicted when idle, and never mixed up."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from agentscope_rx import (
    Approve,
    ConversationPool,
    InMemoryMemory,
    InMemorySession,
    JsonSession,
    ReActAgent,
    RuntimeContext,
    StreamOptions,
    tool,
)
from agentscope_rx.agent import StatePersistence
from agentscope_rx.errors import AgentBusyError, ConfigurationError, InvalidInputError, PoolClosedError
from agentscope_rx.events import PostCallEvent, PostReasoningEvent
from agentscope_rx.reactive import Flow, just
from agentscope_rx.session import Session
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent
from tests.agent.pools import Counting, SlowSession, said, stored


@pytest.fixture(params=["memory", "files"])
def session(request: Any, tmp_path: Path) -> Session:
    return InMemorySession() if request.param == "memory" else JsonSession(tmp_path)


def counting(delay: float = 0.0, **options: Any) -> ReActAgent:
    return agent(Counting(delay), **options)


def test_each_pair_has_a_conversation_of_its_own(session: Session):
    async def main() -> None:
        async with ConversationPool(counting(), session) as pool:
            pairs = [("ann", "1"), ("ann", "2"), ("bob", "1")]
            for round in (1, 2):
                for user, session_id in pairs:
                    reply = await pool.call(user, session_id, f"{user} {session_id}")
                    assert reply.text == f"{round}: {user} {session_id}"
            assert pool.statistics()[:6] == (3, 1000, 0, 0, 3, 0)
        assert pool.statistics().kept == 0
        # another process
        async with ConversationPool(counting(), session) as pool:
            for user, session_id in pairs:
                text = f"{user} {session_id}"
                assert (await stored(pool, user, session_id)) == [text, f"1: {text}", text, f"2: {text}"]

    run_virtual(main())


def test_a_stream_is_that_of_the_agent():
    async def main() -> None:
        pool = ConversationPool(agent(ScriptedModel(["It ", "is."], repeat=True)), InMemorySession())
        events = [event async for event in pool.stream("ann", "1", "hi", StreamOptions(incremental=False))]
        assert [event.seq for event in events] == list(range(len(events)))
        assert isinstance(events[-1], PostCallEvent)
        assert [text async for text in pool.stream("ann", "1", "hi").text()] == ["It ", "is."]
        context = events[0].context
        assert (context.user_id, context.session_id) == ("ann", "1")
        await pool.aclose()

    run_virtual(main())


def test_options_reach_the_call():
    seen: list[RuntimeContext] = []

    @tool
    async def look(context: RuntimeContext) -> str:
        """Looks."""
        seen.append(context)
        return "seen"

    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel(call("look"), "ok", repeat=True), tools=[look])
        pool = ConversationPool(friday, InMemorySession())
        context = RuntimeContext(user_id="ann", tenant="acme")
        await pool.call("ann", "1", "hi", context=context)
        await pool.call("ann", "1", "hi")
        assert seen[0] is context and (seen[1].user_id, seen[1].session_id) == ("ann", "1")
        with pytest.raises(InvalidInputError, match="'bob'"):
            pool.call("bob", "1", "hi", context=context)
        with pytest.raises(InvalidInputError, match="'other'"):
            pool.stream("ann", "1", "hi", context=RuntimeContext(session_id="other"))
        await pool.aclose()

    run_virtual(main())


def test_first_calls_at_once_load_once():
    async def main() -> None:
        session = SlowSession()
        async with ConversationPool(counting(), session) as pool:
            await pool.call("ann", "1", "one")
        loads = session.loads
        async with ConversationPool(counting(1), session) as pool:
            tasks = [pool.call("ann", "1", f"{n}").as_task() for n in range(3)]
            others = [pool.pending_calls("ann", "1").as_task() for _ in range(3)]
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert [await other for other in others] == [()] * 3
            assert sum(isinstance(outcome, AgentBusyError) for outcome in outcomes) == 2
            assert session.loads == loads + 1 and pool.statistics().loads == 1
            assert (await stored(pool, "ann", "1"))[:2] == ["one", "1: one"]

    run_virtual(main())


def test_the_least_recently_used_is_evicted_first():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), max_kept=2)
        for user in "abac":
            await pool.call(user, "1", "hi")
        assert pool.statistics()[:6] == (2, 2, 0, 0, 3, 1)
        await pool.call("a", "1", "hi")
        assert pool.statistics().loads == 3, "a was used after b"
        await pool.call("b", "1", "hi")
        assert pool.statistics().loads == 4
        await pool.aclose()

    run_virtual(main())


def test_a_pool_without_places_loads_for_each_call():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), max_kept=0)
        for n in (1, 2, 3):
            assert (await pool.call("ann", "1", "hi")).text == f"{n}: hi"
            assert pool.statistics() == (0, 0, 0, 0, n, n, 1)
        await pool.aclose()

    run_virtual(main())


def test_what_is_in_use_stays():
    async def main() -> None:
        pool = ConversationPool(counting(10), InMemorySession(), max_kept=1, max_idle=1)
        tasks = [pool.call(user, "1", "hi").as_task() for user in "abc"]
        async with pool.conversation("d", "1") as leased:
            await asyncio.sleep(5)
            assert pool.statistics() == (4, 1, 4, 0, 4, 0, 3)
            assert [task.done() for task in tasks] == [False] * 3
            await asyncio.gather(*tasks)
            # (they were too many)
            assert pool.statistics()[:6] == (1, 1, 1, 0, 4, 3)
            memory = leased.memory
            await asyncio.sleep(100)
            assert (await leased.call("hi")).text == "1: hi"
            assert pool.statistics().kept == 1
        async with pool.conversation("d", "1") as leased:
            assert leased.memory is memory
        await asyncio.sleep(1)
        assert pool.statistics().kept == 0
        await pool.aclose()

    run_virtual(main())


def test_a_run_begun_without_the_pool_is_a_use_too():
    async def main() -> None:
        friday = counting(100)
        pool = ConversationPool(friday, InMemorySession(), max_kept=0, max_idle=1)
        async with pool.conversation("ann", "1") as leased:
            task = friday.call("hi", memory=leased.memory).as_task()
            await asyncio.sleep(1)
        await asyncio.sleep(50)
        assert pool.statistics()[:3] == (1, 0, 1)
        assert await pool.evict("ann", "1") is False
        await task
        assert await pool.evict("ann", "1") is True
        await pool.aclose()

    run_virtual(main())


def test_age_is_told_by_the_clock_of_the_loop():
    async def main() -> None:
        time = asyncio.get_running_loop().time
        pool = ConversationPool(counting(), InMemorySession(), max_idle=60)
        for user in "abc":
            await pool.call(user, "1", "hi")
            await asyncio.sleep(10)
        await pool.call("a", "1", "hi")
        kept = {}
        while pool.statistics().kept:
            kept[time()] = pool.statistics().kept
            await asyncio.sleep(10)
        assert kept == {30: 3, 40: 3, 50: 3, 60: 3, 70: 2, 80: 1} and time() == 90
        await pool.aclose()

    run_virtual(main())


def timers() -> int:
    return sum(not timer.cancelled() for timer in asyncio.get_running_loop()._scheduled)  # type: ignore[attr-defined]


def test_a_timer_that_is_early_by_a_rounding_error_evicts():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), max_idle=0.1)
        for _ in range(50):
            # 0.7 + 0.1 - 0.7 is less than 0.1
            await asyncio.sleep(0.7)
            await pool.call("ann", "1", "hi")
        await asyncio.sleep(1)
        assert pool.statistics().evictions == 50
        await pool.aclose()

    run_virtual(main())


def test_there_is_one_timer_and_none_for_an_empty_pool():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), max_idle=60)
        assert timers() == 0
        for n in range(20):
            await pool.call(f"{n}", "1", "hi")
            assert timers() == 1
        async with pool.conversation("0", "1"):
            assert timers() == 1
        for n in range(20):
            assert await pool.evict(f"{n}", "1")
        assert timers() == 0
        await pool.call("ann", "1", "hi")
        await pool.aclose()
        await asyncio.sleep(0)
        assert timers() == 0
        pool = ConversationPool(counting(), InMemorySession(), max_idle=60)
        await pool.call("ann", "1", "hi")
        gone = ref(pool)
        del pool
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None, "held by its timer"
        assert timers() == 0

    run_virtual(main())


def test_an_evicted_conversation_leaves_nothing():
    made: list[ref[InMemoryMemory]] = []

    def memory(user: str, session_id: str) -> InMemoryMemory:
        new = InMemoryMemory()
        made.append(ref(new))
        return new

    async def main() -> None:
        friday = counting()
        pool = ConversationPool(friday, InMemorySession(), memory=memory, max_kept=5)
        for n in range(100):
            await pool.call(f"user {n}", "1", "hi")
        await asyncio.sleep(0)
        gc.collect()
        assert len(made) == 100 and sum(each() is not None for each in made) == 5
        # and the agent's own, if it was ever asked for
        assert len(friday._conversations.all) <= 6
        await pool.aclose()

    run_virtual(main())


def test_an_interruption_reaches_one_conversation():
    async def main() -> None:
        friday = agent(ScriptedModel(HANG, HANG, HANG))
        pool = ConversationPool(friday, InMemorySession())
        assert not pool.interrupt("ann", "1")
        tasks = [pool.call(user, "1", "hi").as_task() for user in ("ann", "bob")]
        await asyncio.sleep(1)
        assert not pool.interrupt("ann", "2")
        assert not pool.interrupt("ann", "1", run_id="another")
        assert pool.interrupt("ann", "1", "stop")
        assert (await tasks[0]).text == "stop" and not tasks[1].done()
        assert pool.interrupt("bob", "1", "you too")
        assert (await tasks[1]).text == "you too"
        assert pool.statistics()[:4] == (2, 1000, 0, 0)
        await pool.aclose()

    run_virtual(main())


def test_pending_calls_and_approvals_belong_to_the_pair():
    done: list[str] = []

    @tool(requires_approval=True)
    async def delete(path: str) -> str:
        """Deletes."""
        done.append(path)
        return f"deleted {path}"

    async def main() -> None:
        model = ScriptedModel(*[call("delete", path="x")] * 2, "ann: done", call("delete", path="x"), "ann: again")
        friday = ReActAgent("Friday", model, tools=[delete])
        pool = ConversationPool(friday, InMemorySession(), max_kept=0)
        ((ann,), (bob,)) = [(await pool.call(user, "1", "go")).pending_calls for user in ("ann", "bob")]
        assert [c.id for c in await pool.pending_calls("ann", "1")] == [ann.id]
        assert await pool.pending_calls("ann", "2") == ()
        assert (await pool.call("ann", "1", Approve(ann.id, remember="tool"))).text == "ann: done"
        assert (await pool.call("ann", "1", "once more")).text == "ann: again", "remembered over evictions"
        assert done == ["x", "x"]
        assert [c.id for c in await pool.pending_calls("bob", "1")] == [bob.id], "ann's approval is not bob's"
        await pool.aclose()

    run_virtual(main())


def test_tools_may_be_those_of_the_user():
    made: list[tuple[str, str]] = []

    def tools_of(user: str) -> ReActAgent:
        @tool
        async def look() -> str:
            """Looks."""
            return f"for {user}"

        class Repeat(ScriptedModel):
            def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
                last = messages[-1]
                turn = last.tool_results[-1].text if last.tool_results else call("look")
                return ScriptedModel(turn).do_stream(messages, tools, options)

        return ReActAgent("Friday", Repeat("x"), tools=[look])

    def plain(user: str, session_id: str) -> ReActAgent:
        made.append((user, session_id))
        return tools_of(user)

    async def later(user: str, session_id: str) -> ReActAgent:
        await asyncio.sleep(1)
        return plain(user, session_id)

    def flows(user: str, session_id: str) -> Flow[ReActAgent]:
        return just(plain(user, session_id))

    async def main() -> None:
        for factory in (plain, later, flows):
            made.clear()
            pool = ConversationPool(factory, InMemorySession(), max_kept=1)
            for user in ("ann", "bob", "ann"):
                assert (await pool.call(user, "1", "look")).text == f"for {user}"
                assert (await pool.call(user, "1", "look")).text == f"for {user}"
            assert made == [("ann", "1"), ("bob", "1"), ("ann", "1")]
            await pool.aclose()

    run_virtual(main())


def test_the_memory_may_be_another_one():
    class Own(InMemoryMemory):
        def __init__(self, user: str) -> None:
            super().__init__()
            self.user = user

    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession(), memory=lambda user, session_id: Own(user))
        async with pool.conversation("ann", "1") as leased:
            assert isinstance(leased.memory, Own) and leased.memory.user == "ann"
        await pool.aclose()
        shared = InMemoryMemory()
        pool = ConversationPool(counting(), InMemorySession(), memory=lambda user, session_id: shared)
        await pool.call("ann", "1", "secret")
        with pytest.raises(ConfigurationError, match="ann/1"):
            await pool.call("bob", "1", "hi")
        assert said(shared) == ["secret", "1: secret"]
        await pool.aclose()

    run_virtual(main())


def test_closing_waits_for_calls_and_refuses_new_ones():
    async def main() -> None:
        session = SlowSession()
        pool = ConversationPool(agent(ScriptedModel([Delay(10), "ok"])), session)
        task = pool.call("ann", "1", "hi").as_task()
        await asyncio.sleep(5)
        closing = asyncio.ensure_future(pool.aclose())
        await asyncio.sleep(1)
        with pytest.raises(PoolClosedError, match="'bob'") as caught:
            await pool.call("bob", "2", "hi")
        assert (caught.value.user, caught.value.session_id) == ("bob", "2")
        assert not closing.done()
        await closing
        assert task.result().text == "ok" and asyncio.get_running_loop().time() == 12
        assert pool.statistics().kept == 0
        await pool.aclose()

    run_virtual(main())


def test_closing_waits_for_a_run_begun_without_the_pool():
    async def main() -> None:
        friday = counting(100)
        pool = ConversationPool(friday, InMemorySession())
        async with pool.conversation("ann", "1") as leased:
            run = friday.start("hi", memory=leased.memory)
        await pool.aclose()
        assert (await run.result()).text == "1: hi" and pool.statistics()[:3] == (0, 1000, 0)

    run_virtual(main())


def test_a_cancelled_close_may_be_repeated():
    async def main() -> None:
        pool = ConversationPool(counting(10), InMemorySession())
        task = pool.call("ann", "1", "hi").as_task()
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await pool.aclose()
        await task
        await pool.aclose()
        assert pool.statistics().kept == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("pair", "problem"),
    [(("", "1"), "user"), (("ann", " "), "session_id"), ((None, "1"), "user"), (("ann", 1), "session_id")],
)
def test_a_pair_is_two_texts(pair: Any, problem: str):
    pool = ConversationPool(counting(), InMemorySession())
    for use in (pool.call, pool.stream, pool.pending_calls, pool.interrupt, pool.evict):
        with pytest.raises(InvalidInputError, match=problem):
            use(*pair)
    with pytest.raises(InvalidInputError, match="user"):
        pool.call("\ud800", "1", "hi")


@pytest.mark.parametrize(
    "arguments",
    [
        {"agent": "Friday"},
        {"agent": ReActAgent},
        {"session": 3},
        {"session": "ftp://sessions"},
        {"max_kept": -1},
        {"max_kept": True},
        {"max_idle": 0},
        {"max_idle": "long"},
        {"agent": counting(state_persistence=StatePersistence.memory_only())},
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Any):
    with pytest.raises(ConfigurationError):
        ConversationPool(**{"agent": counting(), "session": InMemorySession(), **arguments})


@pytest.mark.parametrize("result", [None, "Friday", counting(state_persistence=StatePersistence(memory=False))])
def test_a_factory_must_return_an_agent(result: Any):
    async def main() -> None:
        pool = ConversationPool(lambda user, session_id: result, InMemorySession())
        with pytest.raises(ConfigurationError):
            await pool.call("ann", "1", "hi")
        assert pool.statistics()[:5] == (0, 1000, 0, 0, 0)

    run_virtual(main())


def test_a_call_that_is_never_begun_warns():
    pool = ConversationPool(counting(), InMemorySession())
    with pytest.warns(RuntimeWarning, match="conversation 's1'"):
        pool.call("ann", "s1", "hi")


def test_a_shared_run_of_a_pool() -> None:
    async def main() -> None:
        made: list[str] = []

        async def factory(user: str, session_id: str) -> ReActAgent:
            await asyncio.sleep(1)
            made.append(user)
            return ReActAgent("Friday", ScriptedModel([Delay(1), "Yes."], "Both."))

        async with ConversationPool(factory, InMemorySession()) as pool:
            handle = pool.start("ann", "s1", "One")
            handle.enqueue("Two", when="idle")
            assert pool.statistics().in_use == 1
            assert (await handle.result()).text == "Both."
            texts = [event.message.text async for event in handle.events().of_type(PostReasoningEvent)]
            assert texts == ["Yes.", "Both."]
            other = pool.start("ann", "s1", "Three", when_busy="replace", linger=0)
            other.dispose()
            await other.idle()
        assert made == ["ann"]
        assert pool.statistics().kept == 0

    run_virtual(main())


def test_an_option_that_a_pool_does_not_take_is_named():
    async def main():
        async with ConversationPool(counting(), InMemorySession()) as pool:
            for begin in (pool.call, pool.stream, pool.start):
                with pytest.raises(ConfigurationError, match="gives each conversation its own memory"):
                    begin("ann", "1", "hi", memory=InMemoryMemory())  # type: ignore[operator]
                with pytest.raises(ConfigurationError, match=r"has no option 'limit'. It takes context, limits"):
                    begin("ann", "1", "hi", limit=3)  # type: ignore[operator]
            async with pool.conversation("ann", "1") as leased:
                with pytest.raises(ConfigurationError, match="its own memory"):
                    leased.call("hi", memory=leased.memory)  # type: ignore[call-arg]

    run_virtual(main())
