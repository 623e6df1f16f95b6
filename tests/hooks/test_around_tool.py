"""Operators around a tool call: one result comes out, and an error of theirs is the tool's."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest
import reactivex as rx
from reactivex import operators as ops

from agentscope_rx import ReActAgent, TextBlock, Toolkit, UsageLimits, tool
from agentscope_rx.errors import HookError, ToolError, ToolSuspend
from agentscope_rx.events import ActingChunkEvent, PostActingEvent, RetryEvent
from agentscope_rx.hooks import ToolRequest, around
from agentscope_rx.messages import GenerateReason, ToolResultBlock, ToolResultKind
from agentscope_rx.reactive import Flow, RetryPolicy, Scope, catch, concat, empty, just, never, retry, throw, timeout
from agentscope_rx.reactive.kernel.observer import attach
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import ToolBegun, ToolChunk
from tests.agent.parts import agent, assert_whole, remembered
from tests.hooks.around_parts import Watched, watch


def answer(request: ToolRequest, text: str, id: str = "") -> ToolResultBlock:
    return ToolResultBlock(id or request.call.id, request.call.name, (TextBlock(text),))


def run(operator, *turns, **options) -> Watched:
    friday = agent(ScriptedModel(*(turns or (call("weather", "c1", city="Rome"), "Done."))), **options)
    friday.hooks.add(around("tool", operator))
    return watch(friday)


def results(watched: Watched) -> list[str]:
    return [event.result.text for event in watched.of(PostActingEvent)]


def shown(watched: Watched) -> list[str]:
    found: list[str] = []
    for event in watched.events:
        if isinstance(event, ActingChunkEvent) and event.text:
            found.append(event.text)
        elif isinstance(event, RetryEvent):
            found.append("discarded" if event.discarded else "retry")
    return found


# --- the result -----------------------------------------------------------------------------------------------------


def test_a_result_may_be_changed():
    def louder(source, request):
        return source.pipe(ops.map(lambda item: answer(request, item.text.upper())))

    watched = run(louder)
    assert results(watched) == ["SUNNY IN ROME"] and shown(watched) == ["SUNNY IN ROME"]


def test_an_answer_needs_no_tool():
    ran: list[str] = []

    @tool
    def look(city: str) -> str:
        """Looks it up."""
        ran.append(city)
        return "seen"

    friday = agent(ScriptedModel(call("look", city="Rome"), "Done."), tools=[look])
    friday.hooks.add(around("tool", lambda source, request: just(answer(request, "cached"))))
    watched = watch(friday)
    assert results(watched) == ["cached"] and ran == [] and watched.reply == "Done."


def test_progress_may_be_dropped_and_added():
    def quiet(source, request):
        kept = source.pipe(ops.filter(lambda item: not isinstance(item, ToolChunk)))
        return concat(just(ToolChunk(request.call, (TextBlock("counting"),), emitted=True)), kept)

    watched = run(quiet, call("count", upto=3), "Done.")
    assert shown(watched)[0] == "counting" and "0" not in shown(watched)
    assert results(watched) == ["2"]


def test_a_call_of_no_tool_has_its_result_too():
    seen: list[object] = []

    def note(source, request):
        seen.append(request.schema)
        return source.pipe(ops.do_action(lambda item: seen.append(item.kind)))

    run(note, call("nothing"), "Done.")
    assert seen == [None, ToolResultKind.NOT_FOUND]


# --- errors of the operator -----------------------------------------------------------------------------------------


def fails_at_once(source):
    raise ToolError("not today")


@pytest.mark.parametrize(
    ("operator", "kind", "text"),
    [
        (timeout(total=2), ToolResultKind.TIMEOUT, "Tool 'slow' did not finish within 2 s"),
        (ops.timeout(2.0), ToolResultKind.FAILED, "Timeout"),
        (ops.map(lambda item: 1 // 0), ToolResultKind.FAILED, "ZeroDivisionError"),
        (lambda source: throw(ToolError("closed")), ToolResultKind.FAILED, "closed"),
        (fails_at_once, ToolResultKind.FAILED, "not today"),
    ],
)
def test_an_error_of_the_operator_is_the_calls_result(operator, kind, text):
    watched = run(operator, call("slow", seconds=5), "Done.")
    assert watched.error is None and watched.reply == "Done."
    (event,) = watched.of(PostActingEvent)
    assert event.result.kind is kind and text in event.result.text


def test_an_operator_may_suspend_a_call():
    friday = agent(ScriptedModel(call("weather", "c1", city="Rome")))
    friday.hooks.add(around("tool", lambda source: throw(ToolSuspend("ask Ann"))))
    reply = run_virtual(friday.call("hi"))
    assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
    assert_whole(friday, pending=["c1"])


# --- checks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "says"),
    [
        (lambda source: empty(), "lost the result of call 'c1'"),
        (ops.ignore_elements(), "lost the result of call 'c1'"),
        (ops.filter(lambda item: False), "lost the result"),
        (ops.repeat(2), "began call 'c1' again after its result"),
        (lambda source: rx.merge(source, source.pipe(ops.delay(1.0))), "a second result of call 'c1'"),
        (lambda source, request: just(answer(request, "a"), answer(request, "b")), "a second result"),
        (lambda source, request: just(answer(request, "a", "c2")), "with the id 'c2' for call 'c1'"),
        (lambda source, request: just(answer(request, "a"), ToolChunk(request.call, ())), "ToolChunk after the result"),
        (lambda source, request: concat(source, throw(ValueError("late"))), "failed after the result"),
        (ops.map(lambda item: "text"), "must emit ToolEvents, not str"),
        (lambda source: None, "must return an Observable"),
    ],
)
def test_exactly_one_result_comes_out(operator, says):
    watched = run(operator)
    assert isinstance(watched.error, HookError) and watched.error.event == "around_tool"
    assert says in str(watched.error)
    # the call has a result in memory all the same
    (event,) = watched.of(PostActingEvent)
    assert event.result.kind is ToolResultKind.FAILED


def test_a_lost_result_fails_the_run_with_calls_beside_it():
    def lossy(source, request):
        return empty() if request.call.id == "b" else source

    calls = [call("slow", "a", seconds=3), call("weather", "b", city="Rome"), call("weather", "c", city="Oslo")]
    watched = run(lossy, calls, "never")
    assert isinstance(watched.error, HookError) and "call 'b'" in str(watched.error)


# --- further attempts -----------------------------------------------------------------------------------------------


@tool
async def flaky():
    """Counts, and fails twice."""
    flaky_runs.append(1)
    yield f"try {len(flaky_runs)}"
    if len(flaky_runs) < 3:
        raise ConnectionError("lost")
    yield "counted"


flaky_runs: list[int] = []


def raising(source):
    """The result of a failed tool as an error, so that operators may try again."""

    def raised(item):
        if isinstance(item, ToolResultBlock) and item.is_error:
            raise ToolError(item.text)
        return item

    return source.pipe(ops.map(raised))


def test_a_stock_retry_runs_the_tool_again():
    flaky_runs.clear()
    watched = run(lambda source: source.pipe(raising, ops.retry(3)), call("flaky", "c1"), "Done.", tools=[flaky])
    assert results(watched) == ["counted"] and len(flaky_runs) == 3
    assert shown(watched) == ["try 1", "discarded", "try 2", "discarded", "try 3", "counted"]
    assert {event.tool_use_id for event in watched.of(RetryEvent)} == {"c1"}
    assert {event.stage for event in watched.of(RetryEvent)} == {"tool"}


def test_a_retry_outside_sees_the_timeout_inside():
    runs: list[int] = []

    @tool
    async def stuck() -> str:
        """Gets stuck the first time."""
        runs.append(1)
        await asyncio.sleep(100 if len(runs) == 1 else 1)
        return "free"

    friday = agent(ScriptedModel(call("stuck"), "Done."), tools=[stuck])
    friday.hooks.add(
        around("tool", timeout(total=5), priority=200), around("tool", retry(RetryPolicy(stop=lambda s: False)))
    )
    watched = watch(friday)
    assert results(watched) == ["free"] and watched.times[-1] == 6 and len(runs) == 2
    assert shown(watched) == ["retry", "free"]


def test_a_limited_call_begins_once_however_often_it_is_tried():
    runs: list[int] = []

    @tool(max_concurrency=1)
    async def limited() -> str:
        """Fails the first time."""
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError("lost")
        return "ok"

    seen: list[object] = []

    def again(source):
        return source.pipe(ops.do_action(lambda item: seen.append(type(item))), raising, ops.retry(2))

    friday = agent(ScriptedModel(call("limited"), "Done."), tools=[limited], limits=UsageLimits(tool_calls=1))
    friday.hooks.add(around("tool", again))
    watched = watch(friday)
    assert results(watched) == ["ok"] and seen.count(ToolBegun) == 1


def test_the_beginning_of_a_call_cannot_be_hidden():
    """A shutdown, or an interruption, must know which calls have begun."""

    @tool(max_concurrency=1)
    async def limited() -> str:
        """Takes its time."""
        await asyncio.sleep(10)
        return "ok"

    friday = agent(ScriptedModel(call("limited"), "Done."), tools=[limited])
    friday.hooks.add(around("tool", ops.filter(lambda item: isinstance(item, ToolResultBlock))))

    async def main():
        running = friday.call("hi").as_task()
        await asyncio.sleep(5)
        (run,) = friday.runs
        begun = set(run.calls.begun), run.stats().tool_calls
        await running
        return begun

    begun, count = run_virtual(main())
    assert len(begun) == 1 and count == 1


# --- beside other calls, interruption, disposal ----------------------------------------------------------------------


def test_parallel_calls_have_an_operator_each():
    seen: list[str] = []

    def delayed(source, request):
        seen.append(request.call.id)
        return source.pipe(ops.delay(1.0))

    calls = [call("slow", "a", seconds=3), call("slow", "b", seconds=1), call("weather", "c", city="Rome")]
    watched = run(delayed, calls, "Done.")
    assert watched.times[-1] == 4 and seen == ["a", "b", "c"]
    assert [event.tool_use.id for event in watched.of(PostActingEvent)] == ["a", "b", "c"]


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_in_turn_wait_for_the_operators(parallel):
    friday = ReActAgent(
        "Friday",
        ScriptedModel([call("nap", "a"), call("nap", "b")], "Done."),
        toolkit=Toolkit([nap], parallel=parallel),
        hooks=[around("tool", ops.delay(1.0))],
    )
    watched = watch(friday)
    assert watched.times[-1] == (2 if parallel else 4)


@tool
async def nap() -> str:
    """Sleeps."""
    await asyncio.sleep(1)
    return "awake"


def test_an_interruption_ends_a_call_that_an_operator_holds():
    friday = agent(ScriptedModel(call("weather", "c1", city="Rome"), "never"))
    friday.hooks.add(around("tool", lambda source: concat(never())))

    async def main():
        running = friday.call("hi").as_task()
        await asyncio.sleep(2)
        friday.interrupt()
        return await running, asyncio.get_running_loop().time()

    reply, at = run_virtual(main())
    assert at == 2 and reply.generate_reason is GenerateReason.INTERRUPTED
    assert_whole(friday)
    assert remembered(friday)[2].tool_results[0].kind is ToolResultKind.INTERRUPTED


def test_a_tool_cleans_up_when_its_operator_is_interrupted():
    done: list[float] = []

    @tool
    async def careful() -> str:
        """Cleans up."""
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(2)
            done.append(asyncio.get_running_loop().time())
        return "never"

    friday = agent(ScriptedModel(call("careful"), "never"), tools=[careful])
    friday.hooks.add(around("tool", ops.do_action()), around("tool", catch(throw)))

    async def main():
        running = friday.call("hi").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        await running
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3 and done == [3]


def test_events_of_a_sub_agent_pass_an_operator_around_its_call():
    inner = ReActAgent("Inner", ScriptedModel(["De", "ep."]))
    plain = watch(ReActAgent("Outer", ScriptedModel(call("call_inner", message="?"), "Done."), tools=[inner]))
    inner = ReActAgent("Inner", ScriptedModel(["De", "ep."]))
    outer = ReActAgent("Outer", ScriptedModel(call("call_inner", message="?"), "Done."), tools=[inner])
    outer.hooks.add(around("tool", ops.do_action()), around("acting", ops.do_action()), around("call", ops.do_action()))
    watched = watch(outer)
    assert watched.types == plain.types
    assert [event.depth for event in watched.events] == [event.depth for event in plain.events]
    assert [event.agent for event in watched.events] == [event.agent for event in plain.events]


def test_a_race_runs_the_tool_twice_and_has_one_result():
    watched = run(
        lambda source: rx.amb(source, source.pipe(ops.delay(1.0))), call("weather", "c1", city="Rome"), "Done."
    )
    assert results(watched) == ["Sunny in Rome"]


def test_an_operator_may_give_its_source_a_context():
    """A tracer makes its span the current one of the tool."""
    span: ContextVar[str] = ContextVar("span", default="none")
    seen: list[str] = []

    @tool
    async def look() -> str:
        """Looks."""
        await asyncio.sleep(0)
        seen.append(span.get())
        return "seen"

    def within(source, request):
        def connect(sink, scope):
            context = scope.context.copy()
            context.run(span.set, f"tool {request.call.name}")
            attach(source, sink, Scope(scope.loop, context, scope.demand, scope.work))

        return Flow(connect)

    watch(agent(ScriptedModel(call("look"), "Done."), tools=[look], hooks=[around("tool", within)]))
    assert seen == ["tool look"]
