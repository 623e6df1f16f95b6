"""One agent on many loops: run(), several asyncio.run()s, a thread; and what a loop leaves that ends under a run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine

import pytest
import reactivex

from agentscope_rx import GenerateReason, Msg, ReActAgent, hook, tool
from agentscope_rx.events import PostCallEvent, PreCallEvent
from agentscope_rx.memory import InMemoryMemory
from agentscope_rx.reactive import Flow, from_callable
from agentscope_rx.testing import ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, remembered


@tool
def never() -> object:
    """Waits for something that never comes, and for which no task waits that the end of a loop could cancel."""
    return reactivex.never()


def stuck(*turns, **options) -> ReActAgent:
    return agent(ScriptedModel(call("never"), *turns), tools=[never], **options)


def closed_under(main: Coroutine[object, object, object]) -> object:
    """Run on a loop that is then closed without a word to those who live there, as `asyncio.run` would say it."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def leave_behind(friday: ReActAgent) -> object:
    """Begin a run and return as soon as its tool runs, keeping the subscription alive."""
    begun = asyncio.get_running_loop().create_future()

    def on_next(event) -> None:
        if event.type == "pre_acting":
            begun.set_result(None)

    subscription = friday.stream("go").subscribe(on_next)
    await begun
    return subscription


def test_one_agent_under_run_then_two_loops_then_a_thread():
    friday = agent(ScriptedModel("one", "two", "three", "four"))

    async def ask() -> Msg:
        return await friday.call("Hi")

    replies = [friday.call("Hi").run().text, asyncio.run(ask()).text, asyncio.run(ask()).text]
    thread = threading.Thread(target=lambda: replies.append(friday.call("Hi").run().text))
    thread.start()
    thread.join(10)
    assert replies == ["one", "two", "three", "four"]


@pytest.mark.parametrize("check_running", [True, False])
def test_a_run_lost_with_its_loop_leaves_memory_whole(check_running: bool):
    friday = stuck("next", check_running=check_running)
    kept = closed_under(leave_behind(friday))
    assert not friday.running and not friday.interrupt()
    friday.idle().run()
    assert friday.call("again").run().text == "next"
    assert len(friday.conversation().flags) == 1
    assert_whole(friday)
    assert [m.role.value for m in remembered(friday)] == ["user", "assistant", "tool", "user", "assistant"]
    assert remembered(friday)[2].tool_results[0].kind == "interrupted"
    del kept


def test_overlapping_lost_runs_are_all_cleaned_up():
    async def two() -> list[object]:
        return [await leave_behind(friday), await leave_behind(friday)]

    friday = agent(ScriptedModel(call("never"), call("never"), "next"), tools=[never], check_running=False)
    kept = closed_under(two())
    assert friday.call("again").run().text == "next"
    results = [result for message in remembered(friday) for result in message.tool_results]
    assert [result.kind for result in results] == ["interrupted", "interrupted"]
    assert len({result.id for result in results}) == 2
    del kept


def test_a_call_without_input_does_not_rerun_a_lost_runs_call():
    friday = stuck("next")
    kept = closed_under(leave_behind(friday))
    assert friday.call().run().text == "next"
    assert_whole(friday)
    del kept


def test_a_failed_repair_of_a_lost_run_does_not_fail_the_next():
    class Unwilling(InMemoryMemory):
        refused = 0

        def add(self, messages):
            if messages[0].tool_results and not self.refused:
                self.refused += 1
                raise OSError("disk full")
            return super().add(messages)

    friday = stuck("next", memory=Unwilling())
    kept = closed_under(leave_behind(friday))
    with collect_dropped() as dropped:
        assert friday.call("again").run().text == "next"
    assert [str(each) for each in dropped] == ["disk full"]
    # the call is found open by the next run, and closed then
    assert_whole(friday)
    del kept


def test_overlapping_runs_do_not_take_each_others_calls():
    ran = []

    @tool
    async def once() -> str:
        """Has an effect."""
        ran.append("once")
        await asyncio.sleep(5)
        return "done"

    async def main() -> None:
        for words in ("meanwhile", None):
            ran.clear()
            friday = agent(ScriptedModel(call("once"), "second", "first"), tools=[once], check_running=False)
            first = friday.call("go").as_task()
            await asyncio.sleep(1)
            assert (await friday.call(words)).text == "second"
            assert (await first).text == "first"
            assert ran == ["once"]
            results = [result for message in remembered(friday) for result in message.tool_results]
            assert [result.text for result in results] == ["done"]

    run_virtual(main())


def test_a_call_that_waits_for_a_clean_up_can_be_interrupted():
    @tool
    async def careful() -> str:
        """Takes time to clean up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
        return ""

    async def main() -> None:
        friday = agent(ScriptedModel(call("careful")), tools=[careful])
        running = friday.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(1)
        running.dispose()
        assert not friday.interrupt(), "the run is closing: there is nothing left to interrupt"
        waiting = friday.call("again").as_task()
        await asyncio.sleep(1)
        assert friday.interrupt("Never mind.")
        reply = await waiting
        assert (reply.text, reply.generate_reason) == ("Never mind.", GenerateReason.INTERRUPTED)
        assert_whole(friday)

    run_virtual(main())


def test_who_no_longer_waits_for_idle_is_forgotten():
    async def main() -> None:
        friday = agent(ScriptedModel(call("slow", seconds=60), "done"))
        running = friday.call("go").as_task()
        await asyncio.sleep(1)
        for _ in range(10):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await friday.idle()
        assert friday.conversation().flag._idle == ()
        await running

    run_virtual(main())


def test_disposal_lets_the_replacement_of_a_reply_finish():
    class Remote(InMemoryMemory):
        written = 0

        def replace(self, message: Msg) -> Flow[bool]:
            async def write() -> bool:
                await asyncio.sleep(1)
                self.written += 1
                return await super(Remote, self).replace(message)

            return from_callable(write)

    @hook(PostCallEvent)
    def polish(event: PostCallEvent) -> PostCallEvent:
        return event.replace(message=event.message.replace(content="polished"))

    async def main() -> None:
        memory = Remote()
        friday = agent(ScriptedModel("rough"), hooks=[polish], memory=memory)
        running = friday.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(0.5)
        running.dispose()
        await friday.idle()
        assert memory.written == 1
        assert remembered(friday)[-1].text == "polished"

    run_virtual(main())


def test_observing_adds_to_memory_whether_the_agent_runs_or_not():
    async def main() -> None:
        friday = agent(ScriptedModel([call("slow", seconds=3)], "done"))
        assert await friday.observe("Before.") is None
        running = friday.call("go").as_task()
        await asyncio.sleep(1)
        await friday.observe([Msg.user("Meanwhile."), Msg("Bob", "Hello.")])
        await running
        assert [m.text for m in remembered(friday) if m.role.value == "user"] == [
            "Before.",
            "go",
            "Meanwhile.",
            "Hello.",
        ]

    run_virtual(main())


def test_interrupting_counts_in_pre_call_and_not_in_post_call():
    @hook(PreCallEvent)
    def early(event: PreCallEvent) -> None:
        friday.interrupt("Stop.")

    @hook(PostCallEvent)
    def late(event: PostCallEvent) -> None:
        friday.interrupt("Too late.")

    friday = agent(ScriptedModel(), hooks=[early])
    assert run_virtual(friday.call("go")).text == "Stop."
    friday = agent(ScriptedModel("Done."), hooks=[late])
    assert run_virtual(friday.call("go")).generate_reason is GenerateReason.MODEL_STOP
