"""The gaps that §22.10 names: behaviours that no test of the Java project pins. One test for each clause."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from reactivex import operators as ops

from agentscope_rx import (
    ExecutionConfig,
    GenerateOptions,
    GenerateReason,
    Hook,
    InMemoryMemory,
    JsonSession,
    Msg,
    PendingToolRecovery,
    ReActAgent,
    RuntimeContext,
    StructuredOutput,
    StructuredOutputError,
    Toolkit,
    ToolResultKind,
    ToolSuspend,
    hook,
    tool,
)
from agentscope_rx.errors import (
    ConfigurationError,
    EmptyResponseError,
    InvalidInputError,
    ModelConnectionError,
    ModelTimeoutError,
    PendingCallsError,
)
from agentscope_rx.events import (
    ErrorEvent,
    Event,
    PostActingEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreReasoningEvent,
    PreSummaryEvent,
)
from agentscope_rx.messages import TextBlock
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.testing import HANG, Delay, ScriptedModel, collect_dropped, run_virtual
from tests.acceptance.parts import agent, assert_good, given, said, trace, use
from tests.agent.parts import events_of, remembered, slow, weather


class Once(Hook):
    """Does this to the first event of its kind."""

    def __init__(self, kind: type[Event], change) -> None:
        self.kinds = (kind,)
        self.change = change
        self.done = False

    def on_event(self, event: Event):
        if self.done:
            return None
        self.done = True
        return self.change(event)


# --- PostActing -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W32")
@pytest.mark.parametrize("at", ["a", "b"])
@pytest.mark.parametrize("parallel", [True, False])
def test_post_acting_a_stop_on_any_of_two_tools(at: str, parallel: bool):
    """Not the last one alone; siblings finish, all results are kept, `call()` goes on."""

    @hook(PostActingEvent)
    def stop(event):
        return event.stop() if event.tool_use.id == at else None

    friday = agent(
        [use("a", "slow", seconds=2.0), use("b")],
        "done",
        toolkit=Toolkit([slow, weather], parallel=parallel),
        hooks=[stop],
    )
    reply = run_virtual(friday.call("hi"))
    assert reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED and reply.tool_results[0].id == at
    assert said(friday) == ["user hi", "Friday [a b]", "a=finally", "b=Sunny in Rome"]
    assert run_virtual(friday.call()).text == "done"
    assert_good(friday)


@pytest.mark.spec("§22.10", "W31", "R12", "S9")
def test_post_acting_a_replaced_result_is_what_all_see():
    """Memory, the model, the stream and later hooks see the one result."""
    seen = []

    @hook(PostActingEvent, priority=1)
    def evict(event):
        return event.with_result(given("a", "cut"))

    @hook(PostActingEvent, priority=2)
    def look(event):
        seen.append(event.result.text)

    friday = agent(use("a"), "done", hooks=[look, evict])
    events = run_virtual(events_of(friday, "hi"))
    shown = [event.result.text for event in events if isinstance(event, PostActingEvent)]
    asked = [result.text for m in friday.model.requests[1].messages for result in m.tool_results]
    assert seen == shown == asked == ["cut"] and said(friday)[2] == "a=cut"


@pytest.mark.spec("§22.10")
def test_post_acting_a_failing_hook():
    """Results before it are kept, all others closed as failed; Java leaves those pending for ever."""

    @hook(PostActingEvent)
    def fail_at_b(event):
        if event.tool_use.id == "b":
            raise ValueError("no")

    friday = agent([use("a"), use("b"), use("c")], "next", hooks=[fail_at_b])
    with pytest.raises(ValueError, match="no"):
        run_virtual(friday.call("hi"))
    assert said(friday) == ["user hi", "Friday [a b c]", "a=Sunny in Rome", "b!failed", "c!failed"]
    friday.hooks = type(friday.hooks)()
    assert run_virtual(friday.call("again")).text == "next"
    assert_good(friday)


# --- suspension, tools ----------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W81")
@pytest.mark.parametrize("parallel", [True, False])
def test_suspension_end_to_end(parallel: bool):
    """One of three is suspended; resumed; results stand in call order where nothing had to wait."""

    @tool
    async def person() -> str:
        """Asks a person."""
        raise ToolSuspend("who?")

    friday = agent(
        [use("a"), use("b", "person"), use("c")], "done", toolkit=Toolkit([weather, person], parallel=parallel)
    )
    reply = run_virtual(friday.call("hi"))
    waiting = ["b"] if parallel else ["b", "c"]
    assert [call.id for call in reply.pending_calls] == waiting
    rest = ["a=Sunny in Rome", "c=Sunny in Rome"] if parallel else ["a=Sunny in Rome"]
    assert said(friday)[2:] == rest
    assert_good(friday, waiting)
    assert run_virtual(friday.call(Msg.tool(given("b", "Ann", "person")))).text == "done"
    assert said(friday)[2:] == [
        *rest, "b=Ann", *([] if parallel else ["c=Sunny in Rome"]), "Friday done",
    ]  # fmt: skip
    answered = [result.id for m in friday.model.requests[1].messages for result in m.tool_results]
    assert sorted(answered) == ["a", "b", "c"] and len(friday.model.requests) == 2
    assert_good(friday, late=["b"] if parallel else [])


@pytest.mark.spec("§22.10", "W08", "W09", "W10")
def test_tools_that_raise_at_once_or_give_nothing():
    """Neither shifts a result or fails the run."""

    @tool
    def at_once() -> str:
        """Raises when it is called."""
        raise ValueError("at once")

    @tool
    async def nothing() -> None:
        """Gives nothing."""

    @tool
    async def no_chunk():
        """Yields nothing."""
        for each in ():
            yield each

    names = ["at_once", "nothing", "no_chunk", "weather"]
    friday = agent([use(name, name) for name in names], "done", tools=[at_once, nothing, no_chunk, weather])
    assert run_virtual(friday.call("hi")).text == "done"
    assert said(friday)[2:6] == ["at_once!failed", "nothing=Done.", "no_chunk=Done.", "weather=Sunny in Rome"]


@pytest.mark.spec("§22.10", "R12")
def test_order_of_parallel_tools_with_different_delays():
    """Results are in call order; each is seen as soon as its turn comes."""

    async def main():
        loop = asyncio.get_running_loop()
        delays = {"a": 1.0, "b": 3.0, "c": 2.0}
        friday = agent([use(id, "slow", seconds=delay) for id, delay in delays.items()], "done")
        times = {
            event.tool_use.id: round(loop.time(), 3)
            async for event in friday.stream("hi")
            if isinstance(event, PostActingEvent)
        }
        assert list(times.items()) == [("a", 1.0), ("b", 3.0), ("c", 3.0)]

    run_virtual(main())


# --- interruption ---------------------------------------------------------------------------------------------------


@tool
async def stubborn() -> str:
    """Sleeps, and cleans up."""
    await asyncio.sleep(60)
    return "never"


TWO = [use("a", "stubborn"), use("b")]
MOMENTS = {
    "before a chunk": ([HANG], 0, []),
    "in the text": (["so far", HANG], 1, ["Friday so far"]),
    "in the arguments": ([ToolUseDelta(0, "a", "weather", '{"ci'), HANG], 1, ["Friday [a]", "a!interrupted"]),
    "behind a call": ([use("a"), HANG], 1, ["Friday [a]", "a!interrupted"]),
    "between reasoning and acting": ([use("a")], "post_reasoning", ["Friday [a]", "a!interrupted"]),
    "before a tool begins": ([use("a")], "pre_acting", ["Friday [a]", "a!interrupted"]),
    "during one of two tools": (TWO, 1, ["Friday [a b]", "a!interrupted", "b=Sunny in Rome"]),
    "during the first of two in turn": (TWO, 1, ["Friday [a b]", "a!interrupted", "b!interrupted"]),
}  # fmt: skip


@pytest.mark.spec("§22.10", "W43", "W47", "W48", "D3", "V3", "J4")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("message", [None, "Forget it."])
def test_interruption(moment: str, message: str | None):
    """Memory, reply and reason after it, in a stream, and the next call works."""
    turn, when, expected = MOMENTS[moment]

    async def main():
        toolkit = Toolkit([weather, stubborn], parallel=moment != "during the first of two in turn")
        friday = agent(turn, "next", toolkit=toolkit)

        def act(event: Event) -> None:
            if event.type == when:
                friday.interrupt(message)

        if isinstance(when, int):
            asyncio.get_running_loop().call_later(when or 1, friday.interrupt, message)
        seen: list[Event] = []
        async for event in friday.stream("hi"):
            seen.append(event)
            act(event)
        reply = seen[-1].message
        assert reply.generate_reason is GenerateReason.INTERRUPTED
        assert said(friday)[1:-1] == expected and remembered(friday)[-1] == reply
        assert reply.text == message if message else "interrupted" in reply.text
        assert asyncio.get_running_loop().time() < 2
        for each in remembered(friday):
            for block in each.tool_calls:
                assert block.input_error is not None if moment == "in the arguments" else block.input_error is None
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


class Answer(BaseModel):
    number: int


@pytest.mark.spec("§22.10", "W66")
@pytest.mark.parametrize("mode", ["tool", "prompted"])
def test_interruption_of_a_structured_output(mode: str):
    """Nothing of the asking is left in memory, and the reply holds no value."""

    async def main():
        cut_off = ToolUseDelta(0, "g", "generate_response", '{"num') if mode == "tool" else '{"num'
        friday = agent([cut_off, HANG], "next")
        task = friday.call("hi", output=StructuredOutput(Answer, mode=mode)).as_task()
        await asyncio.sleep(1)
        friday.interrupt("Forget it.")
        reply = await task
        assert not reply.has_structured and said(friday) == ["user hi", "user Forget it."]
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


# --- empty answers, cancellation, assembled calls -------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W01", "W02")
@pytest.mark.parametrize("turn", [[], [""], ["", ""]])
def test_an_empty_answer_ends_call_and_stream(turn):
    """A typed error, an ErrorEvent, and a free agent; Java's stream never ends."""
    friday = agent(turn, turn, "next")
    friday.model.execution_config = ExecutionConfig(max_attempts=1)
    with pytest.raises(EmptyResponseError):
        run_virtual(friday.call("hi"))
    seen: list[Event] = []
    with pytest.raises(EmptyResponseError):
        run_virtual(friday.stream("hi").pipe(ops.do_action(seen.append)))
    assert trace(seen) == "pre_call pre_reasoning error"
    assert run_virtual(friday.call()).text == "next"
    assert_good(friday)


@pytest.mark.spec("§22.10", "W03", "D7", "D9", "R1", "R3", "J2")
@pytest.mark.parametrize("way", ["dispose call", "dispose stream", "leave stream", "cancel task"])
@pytest.mark.parametrize("turn", [["so", HANG], [use("a", "stubborn")]])
def test_cancelling_releases_the_agent_and_stops_the_work(way: str, turn):
    """No message, the work stopped, CancelledError not swallowed."""

    async def main():
        friday = agent(turn, "next", tools=[stubborn])
        if way == "dispose call":
            running = friday.call("hi").subscribe(lambda reply: pytest.fail("a reply"))
            await asyncio.sleep(1)
            running.dispose()
        elif way == "dispose stream":
            running = friday.stream("hi").subscribe(lambda event: None)
            await asyncio.sleep(1)
            running.dispose()
        elif way == "leave stream":
            async with friday.stream("hi") as events:
                async for event in events:
                    if event.type in ("reasoning_chunk", "pre_acting"):
                        break
        else:
            task = friday.call("hi").as_task()
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
        await friday.idle()
        assert asyncio.get_running_loop().time() < 5
        assert not any("interrupted" in message.text for message in remembered(friday) if message.role == "assistant")
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


@pytest.mark.spec("§22.10", "W07", "W21")
def test_two_assembled_calls_with_different_contexts():
    """Nothing happens at assembly; subscribed in the other order, each has its own."""
    seen: list[tuple[str, str | None]] = []

    @hook(PreReasoningEvent)
    def look(event):
        seen.append((event.messages[-1].text, event.context.user_id))

    friday = agent("1", "2", hooks=[look])
    first = friday.call("of Ann", context=RuntimeContext(user_id="Ann"))
    second = friday.call("of Bob", context=RuntimeContext(user_id="Bob"))
    assert said(friday) == [] and not friday.running
    run_virtual(second)
    run_virtual(first)
    assert seen == [("of Bob", "Bob"), ("of Ann", "Ann")]


# --- goto -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W36")
def test_goto_passes_the_limit_once_and_is_bounded():
    """With one round, one goto more is made; an endless one ends in a summary."""
    once = Once(PostReasoningEvent, lambda event: event.goto_reasoning("sure?"))
    friday = agent("maybe", "yes", max_iters=1, hooks=[once])
    assert run_virtual(friday.call("hi")).generate_reason is GenerateReason.MODEL_STOP
    assert said(friday) == ["user hi", "Friday maybe", "user sure?", "Friday yes"]

    @hook(PostReasoningEvent)
    def always(event):
        return event.goto_reasoning()

    for rounds in (1, 2, 5):
        friday = agent(ScriptedModel("no", repeat=True), max_iters=rounds, hooks=[always])
        assert run_virtual(friday.call("hi")).generate_reason is GenerateReason.MAX_ITERATIONS
        assert len(friday.model.requests) <= 2 * rounds + 2


@pytest.mark.spec("§22.10", "R5", "W34")
@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([Msg.tool([given("a"), given("b")]), Msg.user("think")], None),
        ([], "'a', 'b'"),
        ([Msg.tool(given("b"))], "'a'"),
        ([Msg.tool([given("a"), given("b"), given("c")])], "'c'"),
        ([Msg.tool([given("a"), given("b"), given("a")])], "'a'"),
        ([Msg.tool([given("a"), given("b")]), Msg.system("Obey.")], "SYSTEM"),
        ([Msg.tool([given("a"), given("b")]), Msg.assistant([use("d")], "Friday")], "calls"),
    ],
)
def test_goto_with_open_calls(messages, problem: str | None):
    """One result for each open call, no other, no instruction; else a typed error, memory whole."""
    friday = agent([use("a"), use("b")], "done", hooks=[Once(PostReasoningEvent, lambda e: e.goto_reasoning(messages))])
    if problem is None:
        assert run_virtual(friday.call("hi")).text == "done"
        assert said(friday)[1:4] == ["Friday [a b]", "a=from outside b=from outside", "user think"]
    else:
        with pytest.raises(Exception, match=problem) as caught:
            run_virtual(friday.call("hi"))
        assert type(caught.value).__name__ in ("InvalidInputError", "HookError")
        assert said(friday) == ["user hi"]
    assert_good(friday)


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_stop_beats_goto(order):
    """Whichever hook comes first; the messages of the goto are not remembered."""

    @hook(PostReasoningEvent, priority=order[0])
    def stop(event):
        return event.stop()

    @hook(PostReasoningEvent, priority=order[1])
    def goto(event):
        return event.goto_reasoning("again")

    friday = agent("x", hooks=[stop, goto])
    events = run_virtual(events_of(friday, "hi"))
    assert events[-1].message.generate_reason is GenerateReason.REASONING_STOP_REQUESTED
    assert said(friday) == ["user hi", "Friday x"] and events[-2].goto_messages is None


# --- max_iters, summary ---------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10")
def test_max_iters_zero_and_one():
    """Departure: 0 rounds cannot be asked for; in Java that is a summary of nothing."""
    with pytest.raises(ConfigurationError, match="max_iters"):
        agent("x", max_iters=0)
    assert run_virtual(agent("x", max_iters=1).call("hi")).generate_reason is GenerateReason.MODEL_STOP
    friday = agent(use("a"), "x", max_iters=1)
    assert run_virtual(friday.call("hi")).generate_reason is GenerateReason.MAX_ITERATIONS


@pytest.mark.spec("§22.10", "W49")
def test_a_summary_that_fails():
    """Departure: it fails the run, with what went wrong; it is not said in the agent's own name."""
    friday = agent(use("a"), ModelConnectionError("gone"), "next", max_iters=1)
    seen: list[Event] = []
    with pytest.raises(ModelConnectionError):
        run_virtual(friday.stream("hi").pipe(ops.do_action(seen.append)))
    assert trace(seen).endswith("pre_summary error")
    assert said(friday) == ["user hi", "Friday [a]", "a=Sunny in Rome"]
    assert run_virtual(friday.call("go on")).text == "next"
    assert_good(friday)


@pytest.mark.spec("§22.10", "case 48")
def test_hooks_change_the_summary_and_its_events():
    """The question, its options, its system message and its answer; SUMMARY events show all."""

    @hook(PreSummaryEvent)
    def ask(event):
        assert (event.max_iterations, event.iteration, len(event.history)) == (1, 1, 3)
        changed = event.replace(options=GenerateOptions(temperature=1.0), hints=())
        return changed.append_system_content("Be brief.").with_hint("In one word?")

    @hook(PostSummaryEvent)
    def shout(event):
        return event.replace(message=event.message.replace(content=event.message.text.upper()))

    friday = agent(use("a"), ["sun", "ny"], max_iters=1, hooks=[ask, shout])
    events = run_virtual(events_of(friday, "hi"))
    assert trace(events).endswith("pre_summary summary_chunk*2 post_summary post_call")
    asked = friday.model.requests[-1]
    assert asked.messages[0].text == "You are Friday.\nBe brief." and asked.messages[-1].text == "In one word?"
    assert asked.options.temperature == 1.0 and asked.tools == ()
    assert events[-1].message.text == "SUNNY" and said(friday)[-1] == "Friday SUNNY"


# --- how a call begins ----------------------------------------------------------------------------------------------


def pending(*turns, mode: str = "recover", **options) -> ReActAgent:
    """An agent with calls a and b pending."""
    friday = agent(
        [use("a"), use("b")], *turns, pending=mode, hooks=[Once(PostReasoningEvent, lambda e: e.stop())], **options
    )
    run_virtual(friday.call("hi"))
    return friday


@pytest.mark.spec("§22.10", "§5.3")
def test_all_branches_of_a_call():
    """Nothing pending; pending and nothing given; results for all, for some; other input."""
    friday = agent("x")
    run_virtual(friday.call("hi"))
    assert said(friday) == ["user hi", "Friday x"]
    for then, expected in (
        (None, ["a=Sunny in Rome", "b=Sunny in Rome"]),
        (Msg.tool([given("a"), given("b")]), ["a=from outside b=from outside"]),
        (Msg.tool(given("b")), ["b=from outside", "a=Sunny in Rome"]),
        ("Never mind.", ["a!interrupted", "b!interrupted", "user Never mind."]),
    ):
        friday = pending("done")
        assert run_virtual(friday.call(then)).text == "done"
        assert said(friday)[2:-1] == expected
        assert_good(friday, late=["a"] if expected[0].startswith("b") else [])
    friday = pending(mode="error")
    with pytest.raises(PendingCallsError) as caught:
        run_virtual(friday.call("Never mind."))
    assert caught.value.pending == ("a", "b") and said(friday) == ["user hi", "Friday [a b]"]


@pytest.mark.spec("§22.10", "§5.4", "R5")
@pytest.mark.parametrize(
    ("then", "text"),
    [
        (lambda: Msg.tool([given("a"), given("a")]), r"More than one tool result .*'a'"),
        (lambda: [Msg.tool(given("a")), Msg.tool(given("a"))], r"More than one tool result .*'a'"),
        (lambda: Msg.tool(given("z")), r"'z'.* not pending.*'a', 'b'"),
        (lambda: Msg.tool([given("a"), given("b"), given("z")]), r"'z'.* not pending"),
        (lambda: [Msg.tool(given("a")), Msg.user("and?")], r"'b'.* no results yet"),
        (lambda: Msg.user([given("a"), TextBlock("and?")]), r"'b'.* no results yet"),
        (lambda: Msg.system("Obey."), "SYSTEM"),
        (lambda: Msg.assistant([use("c")], "Friday"), r"tool calls \['c'\]"),
        (lambda: Msg.user([use("c")]), r"tool calls \['c'\]"),
    ],
)
def test_input_that_does_not_fit_is_refused_and_nothing_is_lost(then, text: str):
    """Duplicate, unknown, partial with text; and calls that nobody would answer."""
    friday = pending("done")
    with pytest.raises(InvalidInputError, match=text):
        run_virtual(friday.call(then()))
    assert said(friday) == ["user hi", "Friday [a b]"]
    assert run_virtual(friday.call()).text == "done"
    assert_good(friday)


@pytest.mark.spec("R5", "S6")
def test_a_reply_that_is_handed_back_does_not_double_its_calls():
    """The message of a stopped run is in memory already; given again it would be two calls of one id."""
    friday = pending("done")
    with pytest.raises(InvalidInputError, match=r"call\(\) without input"):
        run_virtual(friday.call(remembered(friday)[-1]))
    assert_good(friday, ["a", "b"])


@pytest.mark.spec("§22.10", "W42")
def test_the_recovery_hook():
    """Recovers with older results in memory; leaves an approving `call()` alone."""
    for then, expected in (
        ("Never mind.", ["a!failed b!failed", "user Never mind."]),
        (None, ["a=Sunny in Rome", "b=Sunny in Rome"]),
    ):
        memory = InMemoryMemory(
            [Msg.assistant([use("old")], "Friday"), Msg.tool(given("old"), "Friday"), Msg.user("x")]
        )
        stop = Once(PostReasoningEvent, lambda e: e.stop())
        recovery = PendingToolRecovery(kind=ToolResultKind.FAILED)
        friday = agent([use("a"), use("b")], "done", memory=memory, pending="error", hooks=[stop, recovery])
        run_virtual(friday.call("hi"))
        assert run_virtual(friday.call(then)).text == "done"
        assert said(friday)[5:-1] == expected
        assert_good(friday)


# --- structured output ----------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W66")
def test_three_failed_reminders():
    """A typed error, or the text by choice; and no reminder is left in memory."""
    words = ["one", "two", "three", "four"]
    friday = agent(*words)
    with pytest.raises(StructuredOutputError) as caught:
        run_virtual(friday.call("hi", output=StructuredOutput(Answer, mode="tool")))
    assert (caught.value.attempts, caught.value.text) == (4, "four")
    assert said(friday) == ["user hi", *(f"Friday {word}" for word in words)]
    friday = agent(*words)
    reply = run_virtual(friday.call("hi", output=StructuredOutput(Answer, mode="tool", on_failure="text")))
    assert (reply.text, reply.has_structured) == ("four", False)


@pytest.mark.spec("§22.10", "W66")
def test_a_response_together_with_another_tool():
    """The other call and its result stay, in pairs; Java drops the message and orphans the result."""
    friday = agent([use("a"), use("g", "generate_response", number=1)])
    reply = run_virtual(friday.call("hi", output=Answer))
    assert reply.structured(Answer) == Answer(number=1)
    assert said(friday) == ["user hi", "Friday [a]", "a=Sunny in Rome", 'Friday {"number":1}']
    assert_good(friday)


@pytest.mark.spec("§22.10")
def test_invalid_arguments_then_valid_ones():
    """The model reads what was wrong; both attempts are gone afterwards."""
    friday = agent(use("g", "generate_response", number="x"), use("h", "generate_response", number=2))
    assert run_virtual(friday.call("hi", output=Answer)).structured(Answer) == Answer(number=2)
    told = friday.model.requests[1].messages[-1].tool_results[0]
    assert told.kind is ToolResultKind.INVALID_ARGUMENTS and "number" in told.text
    assert said(friday) == ["user hi", 'Friday {"number":2}']


@pytest.mark.spec("§22.10", "W66", "W23")
def test_a_failure_on_the_way_leaves_no_trace_of_the_asking():
    """Neither in memory nor in the toolkit."""
    friday = agent(use("g", "generate_response", number="x"), ModelConnectionError("gone"), "next")
    friday.model.execution_config = ExecutionConfig(max_attempts=1)
    with pytest.raises(ModelConnectionError):
        run_virtual(friday.call("hi", output=Answer))
    assert said(friday) == ["user hi"] and "generate_response" not in friday.toolkit
    assert run_virtual(friday.call("go on")).text == "next"
    assert [schema.name for schema in friday.model.requests[-1].tools] == ["weather", "slow", "broken"]


# --- hooks ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W04", "W05", "J12")
def test_order_of_hooks_with_equal_priorities_sync_and_async():
    """By priority, then registration, whatever the form; each is awaited before the next."""
    order: list[str] = []

    def make(name: str, priority: int, seconds: float):
        async def later(event):
            await asyncio.sleep(seconds)
            order.append(name)

        def now(event):
            order.append(name)

        return hook(PreActingEvent, priority=priority)(later if seconds else now)

    hooks = [
        make("c", 100, 2),
        make("d", 100, 0),
        make("e", 100, 1),
        make("b", 5, 3),
        make("a", -1, 0),
        make("f", 500, 0),
    ]
    run_virtual(agent(use("x"), "done", hooks=hooks).call("hi"))
    assert "".join(order) == "abcdef"


PHASES = ["pre_call", "pre_reasoning", "reasoning_chunk", "post_reasoning", "pre_acting", "acting_chunk",
          "post_acting", "pre_summary", "summary_chunk", "post_summary", "post_call"]  # fmt: skip


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("phase", PHASES)
def test_a_hook_that_raises_in_each_phase(phase: str, later: bool):
    """Fails the run with its own error, which is in the ErrorEvent; memory is whole, the next call works."""
    errors: list[ErrorEvent] = []

    class Bad(Hook):
        armed = True

        def on_event(self, event: Event):
            if isinstance(event, ErrorEvent):
                errors.append(event)
                return None
            if not self.armed or event.type != phase:
                return None
            self.armed = False
            return self.fail() if later else self.fail_now()

        def fail_now(self):
            raise LookupError(f"in {phase}")

        async def fail(self):
            await asyncio.sleep(1)
            self.fail_now()

    friday = agent(use("a"), "summary", "next", "next", "next", max_iters=1, hooks=[Bad()])
    seen: list[Event] = []
    with pytest.raises(LookupError, match=phase) as caught:
        run_virtual(friday.stream("hi").pipe(ops.do_action(seen.append)))
    assert seen[-1].type == "error" and len(errors) == 1
    assert (errors[0].error_type, errors[0].error_text) == ("LookupError", f"in {phase}")
    assert errors[0].error is caught.value and errors[0].agent == "Friday"
    assert_good(friday)
    friday.model.turns = (*friday.model.turns, ("next",))
    run_virtual(friday.call("go on"))
    assert_good(friday)


@pytest.mark.spec("§22.10", "W05", "W18")
def test_a_failing_error_hook_does_not_replace_the_error():
    """It is reported, and later observers are told all the same."""
    told = []

    @hook(ErrorEvent, priority=1)
    def bad(event):
        raise RuntimeError("the observer's own")

    @hook(ErrorEvent, priority=2)
    def good(event):
        told.append(event.error_text)

    with collect_dropped() as dropped:
        friday = agent(ModelConnectionError("gone"), hooks=[bad, good])
        friday.model.execution_config = ExecutionConfig(max_attempts=1)
        with pytest.raises(ModelConnectionError, match="gone"):
            run_virtual(friday.call("hi"))
    assert told == ["gone"] and [str(error) for error in dropped] == ["the observer's own"]


# --- retries, deadlines, sessions -----------------------------------------------------------------------------------


@pytest.mark.spec("§22.10", "W12")
def test_no_retry_after_partial_output():
    """Nothing that was shown is said twice; before the first chunk it is tried again."""
    friday = agent(ModelConnectionError("one"), ["so ", "far", ModelConnectionError("two")], "never")
    friday.model.execution_config = ExecutionConfig(max_attempts=3)
    seen: list[Event] = []
    with pytest.raises(ModelConnectionError, match="two"):
        run_virtual(friday.stream("hi").pipe(ops.do_action(seen.append)))
    assert trace(seen) == "pre_call pre_reasoning retry reasoning_chunk*2 error"
    assert len(friday.model.requests) == 2


@pytest.mark.spec("§22.10", "W11", "W15")
@pytest.mark.parametrize(
    ("config", "turn", "which", "at"),
    [
        (ExecutionConfig(first_chunk_timeout=2), [Delay(3), "x"], "first", 2.0),
        (ExecutionConfig(idle_timeout=2), [Delay(1), "x", Delay(1), "y", Delay(3)], "idle", 4.0),
        (ExecutionConfig(timeout=2), ["x", *[Delay(0.5), "y"] * 9], "total", 2.0),
        (ExecutionConfig(idle_timeout=2, timeout=None), ["x", *[Delay(1.5), "y"] * 9], None, 13.5),
    ],
)
def test_idle_and_total_deadlines(config, turn, which: str | None, at: float):
    """Three deadlines by their names, for any model; Java's "request timeout" is an idle one."""

    async def main():
        friday = agent(turn, model_execution_config=ExecutionConfig(max_attempts=1).over(config))
        if which is None:
            await friday.call("hi")
        else:
            with pytest.raises(ModelTimeoutError) as caught:
                await friday.call("hi")
            assert caught.value.which == which
        assert asyncio.get_running_loop().time() == pytest.approx(at)

    run_virtual(main())


@pytest.mark.spec("§22.10", "W80")
def test_one_timeout_in_a_parallel_batch():
    """The others are untouched, and the late one's result has its call's id and name."""
    friday = agent(
        [use("a"), use("b", "slow", seconds=60.0), use("c")], "done", tool_execution_config=ExecutionConfig(timeout=1)
    )
    run_virtual(friday.call("hi"))
    assert said(friday)[2:5] == ["a=Sunny in Rome", "b!timeout", "c=Sunny in Rome"]
    assert [result.name for message in remembered(friday) for result in message.tool_results][1] == "slow"


@pytest.mark.spec("§22.10", "W68")
def test_a_session_key_does_not_leave_the_root(tmp_path):
    """`..` is a name like any other."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "precious").write_text("x")
    session = JsonSession(root)
    for key in ("..", ".", "../precious", "/etc", "a/../../b"):
        friday = agent("x")
        run_virtual(friday.call(key))
        run_virtual(friday.save(session, key))
        again = agent()
        assert run_virtual(again.load(session, key)) and said(again) == [f"user {key}", "Friday x"]
        run_virtual(session.delete(key))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["precious", "root"]
    assert (tmp_path / "precious").read_text() == "x"
