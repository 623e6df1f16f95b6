"""Graceful shutdown: who is running may finish, who does not is cut off and goes on in another process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from agentscope_rx import GenerateReason, InMemoryMemory, Msg, Toolkit, fold, tool
from agentscope_rx.agent import GracefulShutdown, ShutdownState
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.session import InMemorySession, JsonSession
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel
from tests.agent.parts import agent, assert_whole, remembered, slow, weather
from tests.support.signals import child

done: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done():
    done.clear()


@tool
async def work(name: str, seconds: float = 0.0) -> str:
    """Does something."""
    await asyncio.sleep(seconds)
    done.append(name)
    return f"{name} done"


def call(name: str, id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def friday(shutdown, *turns, parallel=True, **options):
    toolkit = Toolkit([work, weather, slow], parallel=parallel)
    return agent(ScriptedModel(*turns), tools=None, toolkit=toolkit, shutdown=shutdown, **options)


@pytest.mark.spec("case 143")
def test_runs_in_progress_finish_and_new_ones_are_refused():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=30)
        one, two = friday(shutdown, [Delay(5), "one"], "never"), friday(shutdown, "two")
        assert shutdown.state is ShutdownState.RUNNING
        running = one.call("go").as_task()
        await asyncio.sleep(1)
        ending = shutdown.begin().as_task()
        await asyncio.sleep(1)
        assert shutdown.state is ShutdownState.SHUTTING_DOWN
        for refused in (one, two):
            with pytest.raises(AgentShuttingDownError) as caught:
                await refused.call("more")
            assert caught.value.run_id is None and caught.value.retryable
        assert list(remembered(two)) == []
        assert (await running).text == "one"
        report = await ending
        assert len(report.finished) == 1 and not report.cut_off and not report.stuck
        assert shutdown.state is ShutdownState.TERMINATED and asyncio.get_running_loop().time() == 5

    run_virtual(main())


def test_with_no_runs_it_ends_at_once_and_may_be_begun_again():
    async def main() -> None:
        shutdown = GracefulShutdown()
        friday(shutdown, "one")
        first = await shutdown.begin()
        assert await shutdown.begin() is first and await shutdown.terminated() is first
        assert asyncio.get_running_loop().time() == 0

    run_virtual(main())


@pytest.mark.spec("case 144", "case 145", "case 146", "§13")
@pytest.mark.parametrize("partial", ["keep", "discard"])
def test_a_model_that_takes_too_long_is_cut_off(partial):
    async def main() -> None:
        store = InMemorySession()
        shutdown = GracefulShutdown(timeout=10, partial=partial)
        first = friday(shutdown, ["I think ", Delay(100), "not."])
        await first.bind(store, "s")
        seen: list[Event] = []
        failed: list[Exception] = []
        first.stream("why?").subscribe(seen.append, failed.append)
        report = await shutdown.begin()
        assert asyncio.get_running_loop().time() == 10 and len(report.cut_off) == 1
        assert isinstance(failed[0], AgentShuttingDownError) and failed[0].saved == "s"
        assert failed[0].run_id == report.cut_off[0]
        kept = ["why?", "I think "] if partial == "keep" else ["why?"]
        assert [m.text for m in remembered(first)] == kept
        assert fold(seen).history == tuple(remembered(first)) and seen[-1].type == "error"
        assert_whole(first)

        second = friday(None, "because.")
        await second.load(store, "s")
        assert (await second.call()).text == "because."
        assert [m.text for m in remembered(second)] == [*kept, "because."]

    run_virtual(main())


@pytest.mark.spec("W73")
@pytest.mark.parametrize("again", ["nothing", "the same", "something else"])
def test_what_is_asked_after_the_restart(again: str):
    """The same input goes on from where it was cut off, another is answered."""

    async def main() -> None:
        store = InMemorySession()
        shutdown = GracefulShutdown(timeout=1)
        first = friday(shutdown, [Delay(100), "not."])
        await first.bind(store, "s")
        running = first.call("why?").as_task()
        await asyncio.sleep(0)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await running

        second = friday(None, "because.", "what?")
        await second.bind(store, "s")
        given = {"nothing": None, "the same": "why?", "something else": "who?"}[again]
        assert (await second.call(given)).text == "because."
        told = ["why?", "who?"] if again == "something else" else ["why?"]
        assert [m.text for m in remembered(second)] == [*told, "because."]
        # only the first call after it: "why?" again is another question
        assert (await second.call("why?")).text == "what?"
        assert [m.text for m in remembered(second)] == [*told, "because.", "why?", "what?"]

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_not_begun_stay_pending_and_run_elsewhere(parallel: bool):
    async def main() -> None:
        store = InMemorySession()
        shutdown = GracefulShutdown(timeout=10)
        first = friday(
            shutdown,
            [call("work", i, name=i, seconds=s) for i, s in zip("abc", (1, 100, 1), strict=True)],
            parallel=parallel,
        )
        await first.bind(store, "s")
        running = first.call("go").as_task()
        await asyncio.sleep(0)
        report = await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await running
        assert report.cut_off and done == (["a", "c"] if parallel else ["a"])

        second = friday(None, "all done", parallel=parallel)
        await second.load(store, "s")
        assert (await second.call("go")).text == "all done"
        assert done == ["a", "c"]
        kinds = {r.id: r.kind for m in remembered(second) for r in m.tool_results}
        assert kinds == {"a": None, "b": "interrupted", "c": None}
        assert_whole(second)

    run_virtual(main())


def test_calls_of_an_answer_that_is_cut_off_are_closed():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=1)
        first = friday(shutdown, [call("work", "a", name="a"), Delay(0.5), "and", Delay(100)])
        running = first.call("go").as_task()
        await asyncio.sleep(0)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError) as caught:
            await running
        assert caught.value.saved is None
        assert [r.kind for m in remembered(first) for r in m.tool_results] == ["interrupted"]
        assert_whole(first)

    run_virtual(main())


def test_what_does_not_end_is_reported_as_stuck():
    @tool(interruptible=False)
    async def stubborn() -> str:
        """Does not listen."""
        await asyncio.sleep(100)
        return "at last"

    async def main() -> None:
        shutdown = GracefulShutdown(timeout=10, grace=5)
        someone = agent(ScriptedModel(call("stubborn", "a")), tools=[stubborn], shutdown=shutdown)
        running = someone.call("go").as_task()
        await asyncio.sleep(0)
        report = await shutdown.begin()
        assert asyncio.get_running_loop().time() == 15
        assert report.stuck and not report.cut_off and not report.finished
        with pytest.raises(AgentShuttingDownError):
            await running
        assert [r.text for m in remembered(someone) for r in m.tool_results] == ["at last"]

    run_virtual(main())


def test_who_leaves_does_not_stop_the_shutdown():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=10)
        someone = friday(shutdown, [Delay(100), "late"])
        running = someone.call("go").as_task()
        leaving = shutdown.begin().as_task()
        waiting = shutdown.terminated().as_task()
        gone = shutdown.terminated().as_task()
        await asyncio.sleep(1)
        leaving.cancel()
        gone.cancel()
        assert len((await waiting).cut_off) == 1
        with pytest.raises(AgentShuttingDownError):
            await running

    run_virtual(main())


def test_many_conversations_of_one_agent_are_cut_off_each():
    async def main() -> None:
        store = InMemorySession()
        shutdown = GracefulShutdown(timeout=10)
        someone = friday(shutdown, *[[Delay(5 * n), f"{n}"] for n in range(5)])
        memories = [InMemoryMemory() for _ in range(5)]
        for n, memory in enumerate(memories):
            await someone.bind(store, f"{n}", memory=memory)
        calls = [someone.call("go", memory=memory).as_task() for memory in memories]
        await asyncio.sleep(0)
        report = await shutdown.begin()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [end.text if isinstance(end, Msg) else end.saved for end in ends] == ["0", "1", "2", "3", "4"]
        assert sum(isinstance(end, Msg) for end in ends) == len(report.finished) in (2, 3)
        assert len(report.finished) + len(report.cut_off) == 5

    run_virtual(main())


def test_a_call_that_waits_for_a_clean_up_counts_as_in_progress():
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=None)
        someone = friday(shutdown, [call("slow", "s", seconds=50)], [Delay(20), "second"])
        first = someone.call("one").as_task()
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(0)
        second = someone.call("two").as_task()
        await asyncio.sleep(0)
        await shutdown.begin()
        assert (await second).text == "second"

    run_virtual(main())


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1}, {"grace": -1}, {"partial": "maybe"}])
def test_options_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigurationError):
        GracefulShutdown(**options)


def test_it_can_be_begun_from_another_thread():
    shutdown = GracefulShutdown(timeout=0.2)
    someone = friday(shutdown, [Delay(30), "late"])
    ended: list[Exception] = []
    over = threading.Event()
    someone.call("go").subscribe(on_error=lambda error: (ended.append(error), over.set()))
    assert len(shutdown.begin().run().cut_off) == 1
    assert over.wait(5) and isinstance(ended[0], AgentShuttingDownError)


SERVICE = """
    import asyncio, sys
    from agentscope_rx import ReActAgent, hook
    from agentscope_rx.agent import GracefulShutdown
    from agentscope_rx.events import ReasoningChunkEvent
    from agentscope_rx.session import JsonSession
    from agentscope_rx.testing.scripted_model import Delay, ScriptedModel

    shutdown = GracefulShutdown(timeout=0.3)

    @hook(ReasoningChunkEvent)
    def ready(event):
        print("ready", flush=True)

    model = ScriptedModel(["Well, ", Delay(600), "no."])
    agent = ReActAgent("Friday", model, hooks=[ready], shutdown=shutdown)

    async def main():
        shutdown.on_signals()
        await agent.bind(JsonSession(sys.argv[1]), "s")
        running = agent.call("go").as_task()
        report = await shutdown.terminated()
        print(len(report.cut_off), await asyncio.gather(running, return_exceptions=True))

    def script():
        shutdown.on_signals()
        agent.bind(JsonSession(sys.argv[1]), "s").run()
        try:
            agent.call("go").run()
        except Exception as error:
            print(shutdown.terminated().run().cut_off and 1, [error])

    asyncio.run(main()) if sys.argv[2] == "loop" else script()
"""


@pytest.mark.parametrize("kind", ["loop", "script"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_terminated_process_saves_and_the_next_one_resumes(tmp_path, kind: str, number: signal.Signals):
    command = [sys.executable, "-c", textwrap.dedent(SERVICE), str(tmp_path), kind]
    with child(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    assert out.startswith("1 [AgentShuttingDownError") and process.returncode == 0

    async def main() -> None:
        someone = friday(None, "of course not.")
        assert await someone.load(JsonSession(tmp_path), "s")
        reply = await someone.call()
        assert reply.generate_reason is GenerateReason.MODEL_STOP
        assert [m.text for m in remembered(someone)] == ["go", "Well, ", "of course not."]

    run_virtual(main())


def test_signals_can_be_given_back():
    shutdown = GracefulShutdown()
    before = signal.getsignal(signal.SIGTERM)
    undo = shutdown.on_signals(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is not before
    undo()
    assert signal.getsignal(signal.SIGTERM) is before and shutdown.state is ShutdownState.RUNNING
