"""Interruption: from whom, where it is noticed, what becomes of what is in progress, and what the run ends with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import GenerateReason, Hook, Msg, ReActAgent, ToolContext, Toolkit, hook, tool
from agentscope_rx.agent import InterruptSource, Run
from agentscope_rx.errors import InvalidInputError, ToolSuspend
from agentscope_rx.events import Event, PostCallEvent, PostReasoningEvent, PreActingEvent
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import WORKERS, from_callable, just
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered, weather
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in

INTERRUPTED = ToolResultKind.INTERRUPTED


def now() -> float:
    return asyncio.get_running_loop().time()


async def after(seconds: float, friday: ReActAgent, *args: Any, said: str = "go", **options: Any) -> list[Event]:
    """All events of a run that is interrupted after so many seconds."""
    seen: list[Event] = []
    ended = asyncio.get_running_loop().create_future()
    friday.stream(said).subscribe(seen.append, ended.set_exception, lambda: ended.set_result(None))
    await asyncio.sleep(seconds)
    assert friday.interrupt(*args, **options)
    await ended
    return seen


def assert_interrupted(friday: ReActAgent, seen: list[Event]) -> Msg:
    last = seen[-1]
    assert isinstance(last, PostCallEvent), "PostCall does happen"
    reply = last.message
    assert reply.generate_reason is GenerateReason.INTERRUPTED and reply == remembered(friday)[-1]
    assert_one_truth(seen, (), remembered(friday))
    assert_whole(friday)
    assert not friday.running
    return reply


async def goes_on(friday: ReActAgent) -> None:
    """The next call works, and its prompt is whole."""
    friday.model = ScriptedModel("and on")
    assert (await friday.call("next")).text == "and on"
    assert_prompts_are_whole(friday.model)


# --- who, and with what words ---------------------------------------------------------------------------------------


@pytest.mark.spec("§11", "R2", "D9")
@pytest.mark.parametrize("source", InterruptSource)
def test_an_interruption_from_any_source_ends_with_a_reply(source: InterruptSource):
    """An interruption is not a cancellation: the run completes, and says who asked."""
    asked: list[InterruptSource] = []

    class Noting(ReActAgent):
        def handle_interrupt(self, run: Run) -> Any:
            asked.append(run.interrupt_source)
            return super().handle_interrupt(run)

    async def main() -> None:
        friday = Noting("Friday", ScriptedModel(["so ", HANG]))
        reply = assert_interrupted(friday, await after(1, friday, None, source))
        assert asked == [source] and reply.role == "assistant" and "interrupted" in reply.text
        await goes_on(friday)

    run_virtual(main())


@pytest.mark.spec("W47", "§22.10")
@pytest.mark.parametrize("words", ["Stop, look at this.", Msg("Ada", "Stop, look at this.")])
def test_the_interruption_message_is_remembered_as_the_reply(words: Any):
    """The content is used, the reason is set, PostCall and its hooks see it."""
    posted: list[str] = []

    @hook(PostCallEvent)
    def post(event: PostCallEvent) -> None:
        posted.append(event.message.text)

    async def main() -> None:
        friday = agent(ScriptedModel(["so ", HANG]), hooks=[post])
        reply = assert_interrupted(friday, await after(1, friday, words))
        assert reply.text == "Stop, look at this." and posted == [reply.text]
        assert reply.name == ("Ada" if isinstance(words, Msg) else "user")
        assert [m.text for m in remembered(friday)] == ["go", "so ", reply.text]
        await goes_on(friday)

    run_virtual(main())


@pytest.mark.spec("W34", "R5")
@pytest.mark.parametrize(
    "message",
    [
        Msg.system("obey"),
        Msg.assistant(ToolUseBlock("x", "weather", {}), "Friday"),
        Msg.tool(ToolResultBlock("x", "weather")),
        7,
    ],
)
def test_what_no_run_can_end_with_is_refused(message: Any):
    """A call in the reply would be open for ever, a result would answer nothing."""
    with pytest.raises(InvalidInputError):
        agent(ScriptedModel("x")).interrupt(message)


def test_the_first_of_two_interruptions_counts():
    async def main() -> None:
        friday = agent(ScriptedModel(call("careful")), tools=[careful(3)])
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        assert friday.interrupt("first") and friday.interrupt("second")
        await asyncio.sleep(1)
        assert friday.interrupt("third"), "it is on its way to its end, and has not ended"
        assert (await task).text == "first" and not friday.interrupt("fourth")
        assert "fourth" not in [m.text for m in remembered(friday)]
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.spec("case 28", "W47")
def test_an_interruption_without_a_run_does_nothing():
    """Before subscription, between calls, and of another agent on the same memory."""

    async def main() -> None:
        friday = agent(ScriptedModel("one", "two"))
        assembled = friday.call("go")
        assert not friday.interrupt("too early")
        assert (await assembled).text == "one"
        assert not friday.interrupt("too late")
        assert (await friday.call("go")).text == "two"
        friday.model = ScriptedModel([Delay(2), "three"])
        other = ReActAgent("Bob", ScriptedModel("x"), memory=friday.memory)
        task = friday.call("go").as_task()
        await asyncio.sleep(1)
        assert not other.interrupt()
        assert (await task).text == "three"

    run_virtual(main())


@pytest.mark.parametrize("why", ["approval", "suspended", "stop"])
def test_while_calls_are_pending_there_is_nothing_to_interrupt(why: str):
    @tool(requires_approval=why == "approval")
    async def wait() -> str:
        """Waits."""
        raise ToolSuspend

    @hook(PostReasoningEvent)
    def stop(event: PostReasoningEvent) -> PostReasoningEvent:
        return event.stop()

    async def main() -> None:
        friday = agent(ScriptedModel(call("wait")), tools=[wait], hooks=[stop] if why == "stop" else [])
        reply = await friday.call("go")
        assert reply.pending_calls and not friday.interrupt("stop")
        assert friday.conversation().pending == {reply.pending_calls[0].id}

    run_virtual(main())


def test_from_another_thread():
    """The model hangs on the library's loop; a plain thread stops it."""
    begun = threading.Event()

    @hook(PreActingEvent)
    def note(event: PreActingEvent) -> None:
        begun.set()

    @tool
    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(60)
        return ""

    friday = agent(ScriptedModel(call("wait")), tools=[wait], hooks=[note])

    def stop() -> None:
        begun.wait(10)
        while not friday.interrupt("from outside"):
            pass

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        reply = friday.call("go").run()
    finally:
        thread.join(10)
    assert (reply.text, reply.generate_reason) == ("from outside", GenerateReason.INTERRUPTED)
    assert_whole(friday)


# --- where it is noticed --------------------------------------------------------------------------------------------


@pytest.mark.spec("T8", "W43", "W47", "§22.10", "case 14")
@pytest.mark.parametrize(
    ("turn", "partial"),
    [
        ([HANG], None),
        (["so ", HANG], "so "),
        ([Delay(60), "so"], None),
        (["so ", ToolUseBlock("c", "weather", {"city": "Rome"}), HANG], "so "),
    ],
    ids=["before the first chunk", "in the text", "while it is slow", "behind a call"],
)
def test_a_stalled_model_ends_at_once(turn: Any, partial: str | None):
    """What came is remembered, calls that were begun get results, nothing is acted on."""

    async def main() -> None:
        friday = agent(ScriptedModel(turn))
        seen = await after(1, friday)
        assert now() == 1
        assert_interrupted(friday, seen)
        texts = [m.text for m in remembered(friday)][1:-1]
        assert [text for text in texts if text] == ([partial] if partial else [])
        assert all(kind is INTERRUPTED for kind, _ in results_in(remembered(friday)).values())
        assert not any(event.type == "pre_acting" for event in seen)
        posts = [event for event in seen if isinstance(event, PostReasoningEvent)]
        assert [event.interrupted for event in posts] == ([True] if partial else [])
        await goes_on(friday)

    run_virtual(main())


class At(Hook):
    """Takes two seconds for the first event of one type."""

    def __init__(self, type: str) -> None:
        self.type = type
        self.done = False

    async def _wait(self) -> None:
        await asyncio.sleep(2)

    def on_event(self, event: Event) -> Any:
        if event.type != self.type or self.done:
            return None
        self.done = True
        return self._wait()


# where -> the events that follow on the interruption, and the kinds of the results
HOOKS: dict[str, tuple[list[str], list[str | None]]] = {
    "pre_call": (["pre_call", "post_call"], []),
    "pre_reasoning": (["pre_reasoning", "post_call"], []),
    "post_reasoning": (["post_reasoning", "post_acting", "post_acting", "post_call"], [INTERRUPTED, INTERRUPTED]),
    "pre_acting": (["pre_acting", "pre_acting", "post_acting", "post_acting", "post_call"], [INTERRUPTED, INTERRUPTED]),
    "post_acting": (["post_acting", "post_acting", "post_call"], [None, None]),
}


@pytest.mark.spec("W48")
@pytest.mark.parametrize("type", HOOKS)
def test_in_a_hook_it_is_noticed_at_the_next_check_point(type: str):
    """Hooks run to their end; no tool begins, no model is asked after it; finished results are kept."""
    follows, kinds = HOOKS[type]

    async def main() -> None:
        turns = [[call("weather", city="Rome"), call("weather", city="Oslo")], "never"]
        friday = agent(ScriptedModel(*turns), hooks=[At(type)])
        seen = await after(1, friday)
        assert now() == 2
        assert_interrupted(friday, seen)
        told = [event.type for event in seen if "chunk" not in event.type]
        assert told[told.index(type) :] == follows
        assert [kind for kind, _ in results_in(remembered(friday)).values()] == kinds
        await goes_on(friday)

    run_virtual(main())


@pytest.mark.spec("D3", "W48")
def test_between_two_tools_in_turn():
    """The second does not begin, and gets a result; the first one's is kept."""
    ran: list[int] = []

    @tool
    async def work(n: int) -> str:
        """Works."""
        ran.append(n)
        return f"{n}"

    async def main() -> None:
        friday = agent(
            ScriptedModel([call("work", n=1), call("work", n=2)]), tools=None,
            toolkit=Toolkit([work], parallel=False), hooks=[At("post_acting")],
        )  # fmt: skip
        seen = await after(1, friday)
        assert_interrupted(friday, seen)
        kinds = [kind for kind, _ in results_in(remembered(friday)).values()]
        assert ran[0] == 1 and kinds[0] is None and len(ran) == kinds.count(None)

    run_virtual(main())


@pytest.mark.spec("D3")
def test_in_the_second_of_three_tools_in_turn():
    """No call is left without a result."""

    async def main() -> None:
        friday = agent(
            ScriptedModel([call("weather", city="Rome"), call("slow"), call("weather", city="Oslo")]), tools=None,
            toolkit=Toolkit([weather, slow], parallel=False),
        )  # fmt: skip
        seen = await after(1, friday)
        assert now() == 1
        assert_interrupted(friday, seen)
        assert [kind for kind, _ in results_in(remembered(friday)).values()] == [None, INTERRUPTED, INTERRUPTED]
        assert [event.type for event in seen].count("post_acting") == 3

    run_virtual(main())


@tool
async def slow() -> str:
    """Takes its time."""
    await asyncio.sleep(1000)
    return "done"


@pytest.mark.parametrize("turn", [[HANG], ["in ", HANG], [call("weather", city="Rome"), HANG]])
def test_in_the_summary(turn: Any):
    async def main() -> None:
        friday = agent(ScriptedModel(call("weather", city="Rome"), turn), max_iters=1)
        seen = await after(1, friday, "enough")
        assert assert_interrupted(friday, seen).text == "enough"
        # (a call in a summary is none)
        assert [m.text for m in remembered(friday)][3:] == (["in "] if turn[0] == "in " else []) + ["enough"]

    run_virtual(main())


def test_during_post_call_it_has_no_effect():
    async def main() -> None:
        friday = agent(ScriptedModel("done", "again"), hooks=[At("post_call")])
        seen = await after(1, friday, "too late")
        assert seen[-1].message.text == "done" and seen[-1].message.generate_reason is GenerateReason.MODEL_STOP
        assert (await friday.call("go")).text == "again"

    run_virtual(main())


# --- tools ----------------------------------------------------------------------------------------------------------


def careful(seconds: float, log: list[str] | None = None, **options: Any) -> Any:
    @tool(name="careful", **options)
    async def takes_time() -> str:
        """Takes time, and some more to clean up."""
        try:
            await asyncio.sleep(60)
            return "done after all"
        finally:
            await asyncio.sleep(seconds)
            if log is not None:
                log.append("cleaned")

    return takes_time


@pytest.mark.spec("R4")
def test_an_async_tool_has_a_grace_for_its_finally_blocks():
    """Awaits are cancelled at once, `finally` blocks run before the run ends."""

    async def main() -> None:
        log: list[str] = []
        friday = agent(ScriptedModel(call("careful")), tools=[careful(3, log)])
        seen = await after(1, friday)
        assert now() == 4 and log == ["cleaned"]
        assert_interrupted(friday, seen)
        await goes_on(friday)

    run_virtual(main())


def test_after_the_grace_late_results_are_dropped():
    async def main() -> None:
        log: list[str] = []
        friday = agent(ScriptedModel(call("careful")), tools=[careful(30, log)], interrupt_grace=2)
        seen = await after(1, friday)
        assert now() == 3 and log == []
        assert_interrupted(friday, seen)
        before = list(remembered(friday))
        await goes_on(friday)
        await asyncio.sleep(60)
        assert log == ["cleaned"] and list(remembered(friday))[: len(before)] == before
        assert len(results_in(remembered(friday))) == 1

    run_virtual(main())


def test_a_tool_that_ignores_cancellation_does_not_hold_the_run():
    @tool
    async def deaf() -> str:
        """Does not listen."""
        while True:
            try:
                await asyncio.sleep(20)
                return "done after all"
            except asyncio.CancelledError:
                pass

    async def main() -> None:
        friday = agent(ScriptedModel(call("deaf")), tools=[deaf], interrupt_grace=2)
        seen = await after(1, friday)
        assert now() == 3
        assert_interrupted(friday, seen)
        assert [kind for kind, _ in results_in(remembered(friday)).values()] == [INTERRUPTED]
        await asyncio.sleep(60)
        assert len(results_in(remembered(friday))) == 1

    run_virtual(main())


def test_a_blocking_tools_late_result_is_dropped_and_counted():
    """Issue item 6: `WORKERS.statistics().abandoned` counts jobs whose results are no longer awaited."""
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    @tool
    def block() -> str:
        """Blocks."""
        started.set()
        release.wait(20)
        finished.set()
        return "late"

    friday = agent(ScriptedModel(call("block"), "and on"), tools=[block])

    async def main() -> None:
        before = WORKERS.statistics().abandoned
        task = friday.call("go").as_task()
        await asyncio.to_thread(started.wait, 20)
        assert friday.interrupt()
        reply = await task
        assert reply.generate_reason is GenerateReason.INTERRUPTED and not finished.is_set()
        assert WORKERS.statistics().abandoned == before + 1
        release.set()
        assert finished.wait(20)
        while WORKERS.statistics().abandoned != before:
            pass
        ((kind, text),) = results_in(remembered(friday)).values()
        assert kind is INTERRUPTED and "late" not in text
        assert (await friday.call("next")).text == "and on"
        assert len(results_in(remembered(friday))) == 1

    asyncio.run(main())


@pytest.mark.spec("R4")
@pytest.mark.parametrize("parallel", [True, False])
def test_a_tool_that_is_not_interruptible_runs_to_its_end(parallel: bool):
    """Then its real result is stored, and the run ends interrupted; what had not begun does not."""

    @tool(interruptible=False)
    async def transfer() -> str:
        """Must not be torn."""
        await asyncio.sleep(10)
        return "transferred"

    async def main() -> None:
        friday = agent(
            ScriptedModel([call("transfer"), call("slow"), call("transfer")]), tools=None,
            toolkit=Toolkit([transfer, slow], parallel=parallel),
        )  # fmt: skip
        seen = await after(1, friday)
        assert now() == 10
        assert_interrupted(friday, seen)
        said = [text if kind is None else kind for kind, text in results_in(remembered(friday)).values()]
        assert said == ["transferred", INTERRUPTED, "transferred" if parallel else INTERRUPTED]

    run_virtual(main())


@pytest.mark.spec("W48")
def test_a_tool_sees_that_its_run_was_interrupted():
    """A token for tools that look at it, such as those on threads and those that are not interruptible."""
    noticed: list[float] = []

    @tool(interruptible=False)
    async def polite(context: ToolContext) -> str:
        """Looks up now and then."""
        for n in range(60):
            if context.interrupted:
                noticed.append(now())
                return f"stopped at {n}"
            await asyncio.sleep(1)
        return "done"

    async def main() -> None:
        friday = agent(ScriptedModel(call("polite")), tools=[polite])
        seen = await after(2.5, friday)
        assert_interrupted(friday, seen)
        assert noticed == [3] and list(results_in(remembered(friday)).values()) == [(None, "stopped at 3")]

    run_virtual(main())


@pytest.mark.parametrize("interruptible", [True, False])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_tool_may_interrupt_its_own_run(kind: str, interruptible: bool):
    """Source TOOL. Its own result is kept for sure only if it says that it is not interruptible."""
    sources: list[InterruptSource] = []

    class Noting(ReActAgent):
        def handle_interrupt(self, run: Run) -> Any:
            sources.append(run.interrupt_source)
            return super().handle_interrupt(run)

    @tool(name="leave", interruptible=interruptible)
    async def leave_async() -> str:
        """Ends the run."""
        assert friday.interrupt("The tool says: enough.", InterruptSource.TOOL)
        await asyncio.sleep(0)
        return "left"

    @tool(name="leave", interruptible=interruptible)
    def leave_sync() -> str:
        """Ends the run, from a thread."""
        assert friday.interrupt("The tool says: enough.", InterruptSource.TOOL)
        return "left"

    friday = Noting(
        "Friday", ScriptedModel(call("leave"), "never"), tools=[leave_async if kind == "async" else leave_sync]
    )

    async def main() -> None:
        seen = await events_of(friday, "go")
        assert assert_interrupted(friday, seen).text == "The tool says: enough."
        assert sources == [InterruptSource.TOOL] and friday.model.unplayed == 1
        ((found, text),) = results_in(remembered(friday)).values()
        assert (found, text) == (None, "left") or (interruptible and found is INTERRUPTED)

    run_virtual(main())


def test_a_hook_may_interrupt_its_own_run():
    @hook(PostReasoningEvent)
    def stop(event: PostReasoningEvent) -> None:
        friday.interrupt("The hook says: enough.", InterruptSource.SYSTEM)

    friday = agent(ScriptedModel(call("weather", city="Rome"), "never"), hooks=[stop])

    async def main() -> None:
        seen = await events_of(friday, "go")
        assert assert_interrupted(friday, seen).text == "The hook says: enough."
        assert [kind for kind, _ in results_in(remembered(friday)).values()] == [INTERRUPTED]

    run_virtual(main())


# --- handle_interrupt -----------------------------------------------------------------------------------------------


def handling(handle: Callable[[ReActAgent, Run], Any]) -> ReActAgent:
    class Custom(ReActAgent):
        def handle_interrupt(self, run: Run) -> Any:
            return handle(self, run)

    return Custom("Friday", ScriptedModel([call("weather", city="Rome"), HANG]), tools=[weather])


async def _later(text: str) -> Msg:
    await asyncio.sleep(1)
    return Msg.assistant(text, "Friday")


@pytest.mark.spec("§11", "R26")
@pytest.mark.parametrize(
    "handle",
    [
        lambda self, run: Msg.assistant("Aye.", "Friday"),
        lambda self, run: just(Msg.assistant("Aye.", "Friday")),
        lambda self, run: from_callable(lambda: _later("Aye.")),
        lambda self, run: _later("Aye."),
    ],
    ids=["value", "flow", "flow that takes time", "coroutine"],
)
def test_handle_interrupt_says_what_the_run_ends_with(handle: Any):
    """The hook of subclasses; open calls have their results by then."""
    open_calls: list[int] = []

    def noting(self: ReActAgent, run: Run) -> Any:
        open_calls.append(len(run.calls.open))
        return handle(self, run)

    async def main() -> None:
        friday = handling(noting)
        seen = await after(1, friday)
        assert assert_interrupted(friday, seen).text == "Aye." and open_calls == [0]
        await goes_on(friday)

    run_virtual(main())


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (lambda self, run: 1 / 0, ZeroDivisionError),
        (lambda self, run: from_callable(lambda: _fail()), ZeroDivisionError),
        (lambda self, run: Msg.assistant(ToolUseBlock("x", "weather", {}), "Friday"), InvalidInputError),
        (lambda self, run: None, InvalidInputError),
    ],
    ids=["raises", "fails later", "calls a tool", "nothing"],
)
def test_a_failing_handle_interrupt_leaves_memory_whole(handle: Any, error: type[Exception]):
    async def main() -> None:
        friday = handling(handle)
        seen: list[Event] = []
        task = asyncio.ensure_future(_run(friday, seen))
        await asyncio.sleep(1)
        assert friday.interrupt()
        with pytest.raises(error):
            await task
        assert seen[-1].type == "error" and not friday.running
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)
        await goes_on(friday)

    run_virtual(main())


async def _fail() -> Msg:
    await asyncio.sleep(1)
    return 1 / 0  # type: ignore[return-value]


async def _run(friday: ReActAgent, seen: list[Event]) -> None:
    await friday.stream("go").pipe(ops.do_action(seen.append))
