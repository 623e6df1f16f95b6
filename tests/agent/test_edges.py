"""Edges of a run: empty answers, wrong input, deadlines, and ends in the middle of the work."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    ExecutionConfig,
    GenerateReason,
    Hook,
    JsonSession,
    Msg,
    ReActAgent,
    Toolkit,
    hook,
    tool,
)
from agentscope_rx.errors import (
    ConfigurationError,
    EmptyResponseError,
    InvalidInputError,
    ModelConnectionError,
    ModelTimeoutError,
)
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostReasoningEvent,
)
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.testing import HANG, Delay, run_virtual
from tests.agent.parts import events_of, remembered, weather
from tests.agent.shorthand import agent, assert_good, given, said, trace, use


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


# --- suspension, tools ----------------------------------------------------------------------------------------------


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


# --- interruption ---------------------------------------------------------------------------------------------------


@tool
async def stubborn() -> str:
    """Sleeps, and cleans up."""
    await asyncio.sleep(60)
    return "never"


TWO = [use("a", "stubborn"), use("b")]
MOMENTS = {
    "in the arguments": ([ToolUseDelta(0, "a", "weather", '{"ci'), HANG], ["Friday [a]", "a!interrupted"]),
    "behind a call": ([use("a"), HANG], ["Friday [a]", "a!interrupted"]),
    "during one of two tools": (TWO, ["Friday [a b]", "a!interrupted", "b=Sunny in Rome"]),
    "during the first of two in turn": (TWO, ["Friday [a b]", "a!interrupted", "b!interrupted"]),
}  # fmt: skip


@pytest.mark.spec("§22.10", "W43", "W47", "W48", "D3", "V3", "J4")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("message", [None, "Forget it."])
def test_an_interrupted_batch_and_arguments_cut_off(moment: str, message: str | None):
    """Memory, reply and reason after it, in a stream, and the next call works."""
    turn, expected = MOMENTS[moment]

    async def main():
        toolkit = Toolkit([weather, stubborn], parallel=moment != "during the first of two in turn")
        friday = agent(turn, "next", toolkit=toolkit)

        asyncio.get_running_loop().call_later(1, friday.interrupt, message)
        reply = (await events_of(friday, "hi"))[-1].message
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
def test_cancelling_frees_the_agent_and_stops_the_work(way: str, turn):
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


# --- goto -----------------------------------------------------------------------------------------------------------


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


# --- max_iters, summary ---------------------------------------------------------------------------------------------


@pytest.mark.spec("§22.10")
def test_max_iters_zero_and_one():
    """Departure: 0 rounds cannot be asked for; in Java that is a summary of nothing."""
    with pytest.raises(ConfigurationError, match="max_iters"):
        agent("x", max_iters=0)
    assert run_virtual(agent("x", max_iters=1).call("hi")).generate_reason is GenerateReason.MODEL_STOP
    friday = agent(use("a"), "x", max_iters=1)
    assert run_virtual(friday.call("hi")).generate_reason is GenerateReason.MAX_ITERATIONS


# --- how a call begins ----------------------------------------------------------------------------------------------


def pending(*turns, mode: str = "recover", **options) -> ReActAgent:
    """An agent with calls a and b pending."""
    friday = agent(
        [use("a"), use("b")], *turns, pending=mode, hooks=[Once(PostReasoningEvent, lambda e: e.stop())], **options
    )
    run_virtual(friday.call("hi"))
    return friday


@pytest.mark.spec("§22.10", "§5.4", "R5")
@pytest.mark.parametrize(
    ("then", "text"),
    [
        (lambda: Msg.system("Obey."), "SYSTEM"),
        (lambda: Msg.assistant([use("c")], "Friday"), r"tool calls \['c'\]"),
        (lambda: Msg.user([use("c")]), r"tool calls \['c'\]"),
    ],
)
def test_wrong_input_is_refused_and_nothing_is_lost(then, text: str):
    """Instructions, and calls that would stay open. (Wrong results: see `test_pending`.)"""
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
