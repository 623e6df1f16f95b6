"""Calls that find their conversation in use: they are refused, wait for their turn, or replace what is in progress."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from random import Random
from typing import Any

import pytest
import reactivex
from hypothesis import given, note, settings
from hypothesis import strategies as st

from agentscope_rx import GenerateReason, InMemoryMemory, ReActAgent, UsageLimits, UserAgent, tool
from agentscope_rx.agent import GracefulShutdown, InterruptSource
from agentscope_rx.errors import (
    AgentBusyError,
    AgentScopeError,
    AgentShuttingDownError,
    ConfigurationError,
    QueuedCallInterruptedError,
    RunDeadlineError,
    RunEndedError,
)
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, remembered


def friday(*turns: Any, **options: Any) -> ReActAgent:
    """Each turn takes a second; `...` hangs."""
    made = [HANG if turn is ... else [Delay(1), turn] if isinstance(turn, str) else turn for turn in turns]
    return agent(ScriptedModel(*made), **options)


def said(it: ReActAgent) -> list[str]:
    return [message.text for message in remembered(it) if message.text]


def begun(it: ReActAgent, *texts: str, **options: Any) -> list[asyncio.Task[Any]]:
    return [it.call(text, **options).as_task() for text in texts]


async def free(it: ReActAgent) -> None:
    """Nothing runs, waits or is left."""
    await it.idle()
    assert not it.running and it.entered == () and not it.conversation().flag._waiting
    assert_whole(it)


# --- the choice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_", ["wait", "", None, 3, ["queue"]])
def test_a_misspelt_choice_names_the_choices(given_: Any):
    with pytest.raises(ConfigurationError, match="'error', 'queue', 'replace'"):
        agent(ScriptedModel("x"), when_busy=given_)
    if given_ is not None:
        with pytest.raises(ConfigurationError, match="'error', 'queue', 'replace'"):
            agent(ScriptedModel("x")).call("hi", when_busy=given_)


def test_overlapping_calls_have_nothing_to_wait_for():
    with pytest.raises(ConfigurationError, match="check_running=False"):
        agent(ScriptedModel("x"), when_busy="queue", check_running=False)
    it = agent(ScriptedModel("x"), check_running=False)
    for choice in ("queue", "replace"):
        with pytest.raises(ConfigurationError, match="check_running=False"):
            it.stream("hi", when_busy=choice)  # type: ignore[arg-type]
    assert it.call("hi", when_busy="error").run().text == "x"


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
def test_a_queue_limit_is_a_positive_number(limit: Any):
    with pytest.raises(ConfigurationError, match="queue_limit"):
        agent(ScriptedModel("x"), when_busy="queue", queue_limit=limit)
    with pytest.raises(ConfigurationError, match="queue_limit"):
        UserAgent("Ann", lambda question: "x", queue_limit=limit)


def test_the_choice_of_a_call_replaces_the_agents():
    async def main() -> None:
        it = friday("a", "b", when_busy="queue")
        first, second = begun(it, "1", "2")
        await asyncio.sleep(0)
        with pytest.raises(AgentBusyError, match="'queue'"):
            await it.call("3", when_busy="error")
        assert [(await task).text for task in (first, second)] == ["a", "b"]
        assert said(it) == ["1", "a", "2", "b"]
        await free(it)

    run_virtual(main())


def test_an_overridden_stream_is_asked_only_for_what_was_chosen():
    class Shown(ReActAgent):
        def stream(self, *args: Any, **options: Any) -> Any:
            asked.append(options.get("when_busy", "nothing"))
            return super().stream(*args, **options)

    asked: list[Any] = []
    it = Shown("Friday", ScriptedModel("a", "b"))
    assert [it.call("1").run().text, it.call("2", when_busy="queue").run().text] == ["a", "b"]
    assert asked == ["nothing", "queue"]


# --- queue ----------------------------------------------------------------------------------------------------------


def test_queued_calls_run_in_order_and_are_shown_as_waiting():
    async def main() -> None:
        it = friday("a", "b", "c", when_busy="queue")
        tasks = begun(it, "1", "2", "3")
        await asyncio.sleep(0.5)
        running, *waiting = it.entered
        assert it.runs == (running,) and len(waiting) == 2
        assert running.stats().waiting_for is None
        assert [run.stats().waiting_for for run in waiting] == [running.id] * 2
        assert [run.stats().events for run in waiting] == [0, 0]
        await asyncio.sleep(1)
        assert [run.stats().waiting_for for run in it.entered] == [None, waiting[0].id]
        assert [(await task).text for task in tasks] == ["a", "b", "c"]
        assert asyncio.get_running_loop().time() == 3
        assert said(it) == ["1", "a", "2", "b", "3", "c"]
        await free(it)

    run_virtual(main())


def test_a_full_queue_refuses_and_says_so():
    async def main() -> None:
        it = friday("a", "b", "c", when_busy="queue", queue_limit=2)
        tasks = begun(it, "1", "2", "3")
        await asyncio.sleep(0)
        with pytest.raises(AgentBusyError, match=r"2 calls wait .*queue_limit"):
            await it.call("4")
        assert [(await task).text for task in tasks] == ["a", "b", "c"]
        await free(it)

    run_virtual(main())


@pytest.mark.parametrize("end", ["fail", "dispose", "interrupt"])
def test_the_next_call_begins_however_the_one_before_ends(end: str):
    @tool
    async def careful() -> str:
        """Takes two seconds to clean up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
        return "x"

    async def main() -> None:
        turn: Any = [Delay(1), AgentScopeError("no")] if end == "fail" else call("careful")
        it = friday(turn, "b", when_busy="queue", tools=[careful])
        first, second = begun(it, "1", "2")
        await asyncio.sleep(1)
        if end == "dispose":
            first.cancel()
        elif end == "interrupt":
            it.interrupt(run_id=it.runs[0].id)
        assert (await second).text == "b"
        if end == "fail":
            with pytest.raises(AgentScopeError, match="no"):
                await first
        assert asyncio.get_running_loop().time() == {"fail": 2, "dispose": 4, "interrupt": 4}[end]
        await free(it)

    run_virtual(main())


def test_a_queued_call_waits_as_long_as_it_takes():
    @tool(interruptible=False)
    async def long() -> str:
        """Cannot be interrupted."""
        await asyncio.sleep(250)
        return "x"

    async def main() -> None:
        it = friday(call("long"), "b", when_busy="queue", tools=[long])
        first, second = begun(it, "1", "2")
        await asyncio.sleep(1)
        it.interrupt(run_id=it.runs[0].id)
        assert (await second).text == "b" and asyncio.get_running_loop().time() == 251
        assert (await first).generate_reason is GenerateReason.INTERRUPTED
        await free(it)

    run_virtual(main())


def test_an_interruption_ends_a_queued_call_at_once():
    async def main() -> None:
        it = friday("a", "b", when_busy="queue")
        errors: list[Exception] = []
        (first,) = begun(it, "1")
        await asyncio.sleep(0)
        it.stream("2").subscribe(lambda event: None, errors.append)
        third, fourth = begun(it, "3", "4")
        await asyncio.sleep(0)
        second = it.entered[1]
        assert it.interrupt(run_id=second.id, source=InterruptSource.TOOL)
        await asyncio.sleep(0)
        (error,) = errors
        assert isinstance(error, QueuedCallInterruptedError)
        assert (error.agent, error.run_id, error.source) == ("Friday", second.id, "tool")
        with pytest.raises(RunEndedError):
            second.inbox.put("too late")
        fourth.cancel()
        assert [(await task).text for task in (first, third)] == ["a", "b"]
        assert said(it) == ["1", "a", "3", "b"], "nothing of the others is remembered"
        await free(it)

    run_virtual(main())


def test_a_plain_interruption_stops_the_queued_calls_too():
    async def main() -> None:
        it = friday(..., when_busy="queue")
        tasks = begun(it, "1", "2", "3")
        await asyncio.sleep(1)
        assert it.interrupt("Stop.")
        await asyncio.wait(tasks)
        assert tasks[0].result().text == "Stop."
        assert [type(task.exception()) for task in tasks[1:]] == [QueuedCallInterruptedError] * 2
        assert said(it) == ["1", "Stop."]
        await free(it)

    run_virtual(main())


def test_a_deadline_counts_the_wait():
    async def main() -> None:
        it = friday([Delay(10), "a"], [Delay(3), "b"], when_busy="queue")
        (first,) = begun(it, "1")
        second = it.call("2", limits=UsageLimits(deadline=5)).as_task()
        third = it.call("3", limits=UsageLimits(deadline=11)).as_task()
        with pytest.raises(RunDeadlineError):
            await second
        assert asyncio.get_running_loop().time() == 5 and len(it.entered) == 2
        assert (await first).text == "a"
        with pytest.raises(RunDeadlineError):
            await third
        assert asyncio.get_running_loop().time() == 11
        assert said(it) == ["1", "a", "3"]
        await free(it)

    run_virtual(main())


@pytest.mark.parametrize("count", range(12))
def test_a_disposal_at_any_step_of_the_wait(count: int):
    """Steps of the loop around the moment in which the call before it ends."""

    async def main() -> None:
        it = friday("a", "b", "c", when_busy="queue")
        first, second, third = begun(it, "1", "2", "3")
        if count:
            await asyncio.sleep(0.999999 if count < 6 else 1)
        for _ in range(count):
            await asyncio.sleep(0)
        second.cancel()
        assert (await third).text in ("b", "c") and (await first).text == "a"
        await asyncio.wait([second])
        assert said(it)[:2] == ["1", "a"] and said(it)[-2:] == ["3", (await third).text]
        await free(it)

    run_virtual(main())


def test_input_for_a_queued_call_waits_with_it():
    async def main() -> None:
        it = friday("a", "b", "c", when_busy="queue")
        tasks = begun(it, "1", "2")
        await asyncio.sleep(0.5)
        waiting = it.entered[1]
        it.enqueue("for the second", run_id=waiting.id)
        it.enqueue("for the first", "idle")
        assert [(await task).text for task in tasks] == ["b", "c"]
        assert said(it) == ["1", "a", "for the first", "b", "2", "for the second", "c"]
        await free(it)

    run_virtual(main())


def test_a_shutdown_ends_queued_calls_with_its_own_error():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=2)
        it = friday(..., when_busy="queue", shutdown=shutdown)
        tasks = begun(it, "1", "2")
        await asyncio.sleep(1)
        report = await shutdown.begin()
        await asyncio.wait(tasks)
        assert [type(task.exception()) for task in tasks] == [AgentShuttingDownError] * 2
        assert len(report.cut_off) == 2 and report.stuck == ()
        assert said(it) == ["1"]
        await free(it)

    run_virtual(main())


def test_conversations_have_queues_of_their_own():
    async def main() -> None:
        it = friday("a", "b", "c", when_busy="queue")
        memories = [InMemoryMemory() for _ in range(2)]
        tasks = [it.call("x", memory=memories[n]).as_task() for n in (0, 1, 0)]
        await asyncio.wait(tasks)
        assert asyncio.get_running_loop().time() == 2
        assert [len(memory.messages) for memory in memories] == [4, 2]

    run_virtual(main())


# --- replace --------------------------------------------------------------------------------------------------------


def test_a_call_replaces_what_runs_and_what_waits():
    async def main() -> None:
        it = friday(..., "b", when_busy="queue")
        tasks = begun(it, "1", "2", "3")
        await asyncio.sleep(1)
        reply = await it.call("now", when_busy="replace")
        assert reply.text == "b" and asyncio.get_running_loop().time() == 2
        assert tasks[0].result().generate_reason is GenerateReason.INTERRUPTED
        errors = [task.exception() for task in tasks[1:]]
        assert [(type(error), error.source) for error in errors] == [(QueuedCallInterruptedError, "system")] * 2
        assert said(it)[0] == "1" and said(it)[2:] == ["now", "b"]
        await free(it)

    run_virtual(main())


def test_of_several_replacements_the_last_one_runs():
    async def main() -> None:
        it = friday(..., "b", when_busy="replace")
        (first,) = begun(it, "A")
        await asyncio.sleep(1)
        second, third = begun(it, "B", "C")
        fourth = it.call("D", when_busy="queue").as_task()
        it.model = ScriptedModel([Delay(1), "c"], [Delay(1), "d"])
        await asyncio.wait([first, second, third, fourth])
        assert first.result().generate_reason is GenerateReason.INTERRUPTED
        assert isinstance(second.exception(), QueuedCallInterruptedError)
        assert (third.result().text, fourth.result().text) == ("c", "d")
        assert [text for text in said(it) if len(text) == 1] == ["A", "C", "c", "D", "d"]
        await free(it)

    run_virtual(main())


def test_a_replacement_waits_for_a_tool_it_cannot_stop():
    @tool(interruptible=False)
    async def pay() -> str:
        """Runs to its end."""
        await asyncio.sleep(5)
        return "paid"

    async def main() -> None:
        it = friday(call("pay"), "b", tools=[pay])
        (first,) = begun(it, "1")
        await asyncio.sleep(1)
        with pytest.raises(RunDeadlineError):
            await it.call("2", when_busy="replace", limits=UsageLimits(deadline=1))
        assert (await it.call("3", when_busy="replace")).text == "b"
        assert asyncio.get_running_loop().time() == 6
        assert (await first).generate_reason is GenerateReason.INTERRUPTED
        assert remembered(it)[2].tool_results[0].text == "paid"
        await free(it)

    run_virtual(main())


def test_a_replacement_that_leaves_brings_no_other_back():
    async def main() -> None:
        it = friday(..., "b", when_busy="queue")
        first, second = begun(it, "1", "2")
        await asyncio.sleep(1)
        third = it.call("3", when_busy="replace").as_task()
        await asyncio.sleep(0)
        third.cancel()
        await asyncio.wait([first, second, third])
        assert first.result().generate_reason is GenerateReason.INTERRUPTED
        assert isinstance(second.exception(), QueuedCallInterruptedError)
        assert (await it.call("4")).text == "b"
        await free(it)

    run_virtual(main())


def test_a_call_that_waits_for_a_clean_up_ends_with_a_reply():
    """With when_busy="error" there is no queue: the short wait belongs to the run."""

    @tool
    async def careful() -> str:
        """Takes two seconds to clean up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
        return "x"

    async def main(choice: Any) -> None:
        it = friday(call("careful"), "b", tools=[careful])
        (first,) = begun(it, "1")
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(0.5)
        second = it.call("2", when_busy=choice).as_task()
        await asyncio.sleep(0.5)
        assert it.interrupt("Stop.")
        await asyncio.wait([second])
        if choice == "error":
            assert second.result().text == "Stop." and said(it)[-2:] == ["2", "Stop."]
        else:
            assert isinstance(second.exception(), QueuedCallInterruptedError) and "2" not in said(it)
            assert asyncio.get_running_loop().time() == 2, "at once"
        await free(it)

    for choice in ("error", "queue", "replace"):
        run_virtual(main(choice))


# --- laws -----------------------------------------------------------------------------------------------------------

CHOICES = st.sampled_from(["queue", "queue", "queue", "replace", "error"])
WAYS = st.sampled_from(["", "", "", "cancel", "interrupt", "deadline"])
CALLERS = st.lists(st.tuples(st.integers(0, 8), CHOICES, WAYS, st.integers(0, 12)), min_size=1, max_size=8)


@settings(max_examples=150)
@given(CALLERS, st.lists(st.sampled_from(["ok", "fail", "tool"]), max_size=8), st.integers(1, 4))
def test_calls_that_have_run_are_whole_and_in_order(callers: Any, turns: Any, limit: int):
    """Of the calls that ran none overlapped, queued ones kept their order, and the others have left no trace."""
    note(f"{callers} {turns} {limit}")

    @tool
    async def careful() -> str:
        """Takes half a second to clean up."""
        try:
            await asyncio.sleep(0.5)
        finally:
            await asyncio.sleep(0.5)
        return "x"

    def turn(kind: str) -> Any:
        if kind == "tool":
            return call("careful")
        return [Delay(0.4), AgentScopeError("no") if kind == "fail" else "fine"]

    async def main() -> None:
        it = agent(
            ScriptedModel(*map(turn, turns), *[turn("ok")] * 30), queue_limit=limit, tools=[careful]
        )  # fmt: skip
        subscribed: list[str] = []

        async def one(number: int, at: int, choice: Any, way: str, moment: int) -> tuple[str, Any]:
            text = f"q{number}"
            await asyncio.sleep(at * 0.25 + number * 0.001)
            before = set(it.entered)
            limits = UsageLimits(deadline=moment * 0.25 + 0.1) if way == "deadline" else None
            task = it.call(text, when_busy=choice, limits=limits).as_task()
            await asyncio.sleep(0)
            subscribed.append(text)
            own = set(it.entered) - before
            await asyncio.wait([task], timeout=moment * 0.25 + 0.013 if way in ("cancel", "interrupt") else None)
            if way == "cancel":
                task.cancel()
            elif way == "interrupt":
                for run in own:
                    it.interrupt(run_id=run.id)
            await asyncio.wait([task])
            return text, None if task.cancelled() else task.exception() or task.result()

        ended = dict(await asyncio.gather(*(one(n, *each) for n, each in enumerate(callers))))
        await it.idle()
        assert not it.entered and not it.conversation().flag._waiting and not it.running
        assert_whole(it)
        asked = [text for text in said(it) if text in ended]
        assert len(asked) == len(set(asked))
        for text, how in ended.items():
            if isinstance(how, (AgentBusyError, QueuedCallInterruptedError)):
                assert text not in asked
            elif how is not None and not isinstance(how, Exception):
                assert text in asked
        # a call that waits never overtakes one that waits
        order = [text for text in subscribed if text in asked]
        assert asked == order

    run_virtual(main())


def test_eight_threads_queue_fifty_calls_each():
    it = ReActAgent("Friday", ScriptedModel("ok", repeat=True), when_busy="queue", queue_limit=1000)
    replies: dict[int, list[str]] = {}

    def work(n: int) -> None:
        async def several() -> list[str]:
            calls = [it.call(f"{n}:{i}").as_task() for i in range(50)]
            return [(await each).text for each in calls]

        replies[n] = asyncio.run(several()) if n % 2 else [it.call(f"{n}:{i}").run().text for i in range(50)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert replies == {n: ["ok"] * 50 for n in range(8)}
    asked = [message.text for message in remembered(it)][::2]
    assert sorted(asked) == sorted(f"{n}:{i}" for n in range(8) for i in range(50))
    for n in range(8):
        assert [text for text in asked if text.startswith(f"{n}:")] == [f"{n}:{i}" for i in range(50)]
    assert {message.text for message in remembered(it)[1::2]} == {"ok"}


@pytest.mark.parametrize("seed", range(4))
def test_replacements_on_several_threads_leave_all_whole(seed: int):
    it = ReActAgent("Friday", ScriptedModel([Delay(0.001), "ok"], repeat=True), queue_limit=5)
    ended: Counter[str] = Counter()
    lock = threading.Lock()

    def work(n: int) -> None:
        random = Random(seed * 10 + n)

        async def one() -> None:
            task = it.call("q", when_busy=random.choice(["queue", "queue", "replace"])).as_task()
            if random.random() < 0.2:
                await asyncio.sleep(random.random() * 0.003)
                task.cancel()
            elif random.random() < 0.2:
                await asyncio.sleep(random.random() * 0.003)
                it.interrupt()
            await asyncio.wait([task])
            error = None if task.cancelled() else task.exception()
            assert error is None or isinstance(error, (AgentBusyError, QueuedCallInterruptedError)), repr(error)
            with lock:
                ended["cancelled" if task.cancelled() else type(error).__name__] += 1

        async def several() -> None:
            for _ in range(5):
                await asyncio.gather(*(one() for _ in range(4)))

        asyncio.run(several())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    # errors of calls that are cancelled in the turn in which they fail
    with collect_dropped():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sum(ended.values()) == 80 and ended["NoneType"] > 0
    it.idle().run()
    assert not it.running and it.entered == () and not it.conversation().flag._waiting
    assert_whole(it)
    roles = [message.role for message in remembered(it)]
    assert len([role for role in roles if role == "assistant"]) >= ended["NoneType"]


@tool
def never() -> object:
    """Waits for something that never comes, and for which no task waits that the end of a loop could cancel."""
    return reactivex.never()


def test_a_queued_call_enters_when_the_runs_loop_is_closed():
    """The run can neither end nor repair its memory: the call that waits on another loop does it."""
    it = agent(ScriptedModel(call("never"), "b"), tools=[never], when_busy="queue")
    begun_, queued = threading.Event(), threading.Event()
    kept: list[object] = []

    def abandon() -> None:
        async def leave_behind() -> None:
            acting = asyncio.get_running_loop().create_future()
            kept.append(it.stream("1").subscribe(lambda e: acting.set_result(e) if e.type == "pre_acting" else None))
            await acting

        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(leave_behind())
            begun_.set()
            assert queued.wait(10)
        finally:
            # without a word to those who live there, as `asyncio.run` would say it
            loop.close()

    async def main() -> str:
        task = it.call("2").as_task()
        await asyncio.sleep(0)
        assert [run.stats().waiting_for for run in it.entered] == [None, it.entered[0].id]
        queued.set()
        return (await task).text

    thread = threading.Thread(target=abandon)
    thread.start()
    assert begun_.wait(10)
    assert asyncio.run(main()) == "b"
    thread.join(10)
    assert said(it) == ["1", "2", "b"]
    assert_whole(it)
    kept.clear()
