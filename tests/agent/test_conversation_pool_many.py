"""A pool on several loops and threads, for many users at once, and what it costs."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable, Coroutine
from typing import Any

import reactivex

from agentscope_rx import (
    ConversationPool,
    InMemoryMemory,
    InMemorySession,
    ReActAgent,
    RuntimeContext,
    tool,
)
from agentscope_rx.events import Event
from agentscope_rx.reactive import Flow, just
from agentscope_rx.session import Saved
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent
from tests.agent.pools import Counting, SlowSession, said


def counting(delay: float = 0.0, **options: Any) -> ReActAgent:
    return agent(Counting(delay), **options)


# --- loops, threads and processes -----------------------------------------------------------------------------------


def test_one_pool_on_several_loops_in_turn():
    pool = ConversationPool(counting(), InMemorySession(), max_idle=600)
    for n in (1, 2, 3):

        async def main(n: int = n) -> None:
            assert (await pool.call("ann", "1", "hi")).text == f"{n}: hi"

        asyncio.run(main())
    assert pool.call("ann", "1", "hi").run().text == "4: hi"
    assert pool.statistics().loads == 1
    asyncio.run(pool.aclose())


def test_one_pool_on_many_threads():
    pool = ConversationPool(counting(), InMemorySession(), max_kept=3)
    failures: list[BaseException] = []

    def work(n: int) -> None:
        async def several() -> None:
            for i in range(1, 11):
                assert (await pool.call(f"user {n}", "1", "hi")).text == f"{i}: hi"

        try:
            if n % 2:
                asyncio.run(several())
            else:
                for i in range(1, 11):
                    assert pool.call(f"user {n}", "1", "hi").run().text == f"{i}: hi"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    counts = pool.statistics()
    assert counts.kept <= 3 and (counts.in_use, counts.unsaved) == (0, 0)
    assert counts.loads - counts.evictions == counts.kept
    asyncio.run(pool.aclose())


def test_a_loop_that_was_closed_uses_nothing():
    @tool
    def never() -> object:
        """Waits for something that never comes, in no task."""
        return reactivex.never()

    session = InMemorySession()
    pool = ConversationPool(agent(ScriptedModel(call("never"), "next"), tools=[never]), session, max_kept=0)
    loop = asyncio.new_event_loop()

    async def begin() -> object:
        begun = loop.create_future()

        def on_next(event: Event) -> None:
            if event.type == "pre_acting":
                begun.set_result(None)

        subscription = pool.stream("ann", "1", "lost").subscribe(on_next)
        await begun
        return subscription

    subscription = loop.run_until_complete(begin())
    assert pool.statistics()[:4] == (1, 0, 1, 0)
    loop.close()
    assert pool.statistics()[:4] == (1, 0, 0, 1)

    async def again() -> None:
        await pool.flush()
        assert pool.statistics()[:4] == (0, 0, 0, 0)
        assert (await pool.call("ann", "1", "hi")).text == "next"
        async with pool.conversation("ann", "1") as leased:
            kinds = [result.kind for message in leased.memory.messages for result in message.tool_results]
            assert kinds == ["interrupted"] and said(leased.memory)[0] == "lost"
        await pool.aclose()

    asyncio.run(again())
    del subscription


def test_after_a_fork_the_child_keeps_nothing():
    async def main() -> None:
        pool = ConversationPool(counting(), InMemorySession())
        await pool.call("ann", "1", "hi")
        pool._kept.after_fork()
        assert pool.statistics()[:4] == (0, 1000, 0, 0)
        assert (await pool.call("ann", "1", "hi")).text == "2: hi", "loaded"
        await pool.aclose()

    asyncio.run(main())


# --- isolation ------------------------------------------------------------------------------------------------------


def test_many_users_at_once_are_not_mixed_up():
    seen: dict[str, set[str]] = {}

    @tool
    async def look(what: str, context: RuntimeContext) -> str:
        """Looks it up."""
        await asyncio.sleep(1)
        return f"{what} for {context.user_id}"

    class Looking(ScriptedModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[Any]:
            last = messages[-1]
            for message in messages:
                seen.setdefault(messages[1].text, set()).add(message.text[:4])
            turn = last.tool_results[-1].text if last.tool_results else call("look", what=last.text)
            return ScriptedModel([Delay(1), turn]).do_stream(messages, tools, options)

    async def main() -> None:
        friday = ReActAgent("Friday", Looking("x"), "sys", tools=[look])
        pool = ConversationPool(friday, SlowSession(), max_kept=7)
        for _ in range(3):
            replies = await asyncio.gather(*(pool.call(f"u{n:02}", "1", f"q{n:02}").as_task() for n in range(30)))
            assert [reply.text for reply in replies] == [f"q{n:02} for u{n:02}" for n in range(30)]
        assert seen == {f"q{n:02}": {"sys", f"q{n:02}", "", f"q{n:02} "[:4]} for n in range(30)}
        counts = pool.statistics()
        assert counts.kept == 7 and counts.overshoot == 23
        await pool.aclose()

    run_virtual(main())


# --- costs ----------------------------------------------------------------------------------------------------------


def python_calls(main: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    """The Python calls of each round in the coroutine: the same on a busy machine."""

    async def counted(rounds: int) -> int:
        count = 0

        def note(frame: Any, event: str, arg: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            await main(rounds)
        finally:
            sys.setprofile(None)
        return count

    asyncio.run(counted(2))
    return (asyncio.run(counted(60)) - asyncio.run(counted(20))) / 40


def test_a_call_costs_little_more_than_one_without_a_pool():
    def friday() -> ReActAgent:
        return agent(ScriptedModel("ok", repeat=True))

    async def plain(rounds: int) -> None:
        one, memory = friday(), InMemoryMemory()
        await one.bind(InMemorySession(), "ann", memory=memory)
        for _ in range(rounds):
            await one.call("hi", memory=memory)

    async def pooled(rounds: int) -> None:
        async with ConversationPool(friday(), InMemorySession()) as pool:
            for _ in range(rounds):
                await pool.call("ann", "1", "hi")

    # what the pool adds; a number, as a ratio would grow with each thing that makes a plain call cheaper
    assert python_calls(pooled) - python_calls(plain) < 310


def test_memory_does_not_grow_with_the_number_of_users():
    class Forgetting(InMemorySession):
        def save_all(self, *args: Any, **options: Any) -> Flow[str]:
            return just("version")

        def load_all(self, *args: Any, **options: Any) -> Flow[Saved]:
            return just(Saved())

    async def main() -> None:
        model = ScriptedModel("x" * 1000, repeat=True)
        sizes: list[int] = []
        async with ConversationPool(agent(model), Forgetting(), max_kept=20) as pool:
            tracemalloc.start()
            for n in range(300):
                # the script keeps all that it was asked
                model.requests.clear()
                await pool.call(f"user {n}", "1", "hi")
                if n in (99, 299):
                    gc.collect()
                    sizes.append(tracemalloc.get_traced_memory()[0])
            tracemalloc.stop()
        # 200 more conversations of a kilobyte
        assert sizes[1] - sizes[0] < 100_000

    run_virtual(main())
