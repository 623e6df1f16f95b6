"""Rules that every run keeps: disposal stops all, each call has one result, the stream ends once."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    GenerateReason,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    Reject,
    StructuredOutput,
    Toolkit,
    fold,
    tool,
)
from agentscope_rx.agent import Tracer
from agentscope_rx.errors import ModelConnectionError, RunInsideLoopError
from agentscope_rx.events import Event
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from tests.agent.parts import events_of, remembered, weather
from tests.agent.shorthand import agent, assert_good, given, said, trace, use

# --- disposal -------------------------------------------------------------------------------------------------------

began: list[str] = []
ended: list[str] = []


@tool
async def work(name: str, seconds: float = 10.0) -> str:
    """Works, and cleans up."""
    began.append(name)
    try:
        await asyncio.sleep(seconds)
    finally:
        ended.append(name)
    return name


@tool(requires_approval=True)
async def risky(level: int = 0) -> str:
    """Needs approval."""
    return f"done {level}"


def works(*names: str) -> list[ToolUseBlock]:
    return [
        use(name, "work", name=name, seconds=seconds) for name, seconds in zip(names, (0.5, 10.0, 10.0), strict=False)
    ]


ONE_OF_THREE = ["Friday [a b c]", "a=a", "b!interrupted", "c!interrupted"]
TURNS = {
    # the script, what has begun by the time, what is remembered of it
    "before the first chunk": ([HANG], [], []),
    "in the text": (["so far", HANG], [], []),
    "in the arguments": ([ToolUseDelta(0, "a", "work", '{"na'), HANG], [], []),
    "in a tool, 1 of 3 in turn": (works("a", "b", "c"), ["a", "b"], ONE_OF_THREE),
    "in tools, 2 of 3 at once": (works("a", "b", "c"), ["a", "b", "c"], ONE_OF_THREE),
    "in the summary": ([use("w"), ["in sho", HANG]], [], ["Friday [w]", "w=Sunny in Rome"]),
}  # fmt: skip


@pytest.mark.spec("R1", "R2", "R6", "D3", "D7", "V1", "V2", "V3", "J2", "M33")
@pytest.mark.parametrize("way", ["dispose", "leave", "cancel"])
@pytest.mark.parametrize("when", TURNS)
def test_disposal_stops_all_and_leaves_memory_whole(when: str, way: str):
    """No task is left, no tool goes on, every call has one result."""
    turn, begins, expected = TURNS[when]
    turns = turn if when == "in the summary" else [turn]

    async def main():
        began.clear()
        ended.clear()
        toolkit = Toolkit([work, weather], parallel="in turn" not in when)
        friday = agent(*turns, "next", toolkit=toolkit, max_iters=1)
        before = asyncio.all_tasks()
        if way == "dispose":
            running = friday.stream("hi").subscribe(lambda event: None)
            await asyncio.sleep(1)
            running.dispose()
        elif way == "cancel":
            task = friday.call("hi").as_task()
            await asyncio.sleep(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:

            async def read():
                async with friday.stream("hi") as events:
                    async for _ in events:
                        pass

            reader = asyncio.create_task(read())
            await asyncio.sleep(1)
            reader.cancel()
            await asyncio.wait([reader])
        await friday.idle()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert asyncio.get_running_loop().time() < 2
        assert began == begins and sorted(ended) == sorted(begins)
        assert said(friday) == ["user hi", *expected]
        assert_good(friday)
        await asyncio.sleep(60)
        assert said(friday) == ["user hi", *expected], "nothing is written later"
        friday.max_iters = 5
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


@pytest.mark.spec("R1", "R5")
def test_disposal_before_acting_and_while_suspended():
    """The first closes the call; a suspended run is over, there is nothing to dispose of."""

    async def main():
        friday = agent(use("a"), "next")
        async with friday.stream("hi") as events:
            async for event in events:
                if event.type == "post_reasoning":
                    break
        await friday.idle()
        assert said(friday) == ["user hi", "Friday [a]", "a!interrupted"]
        assert_good(friday)
        friday = agent(use("a", "risky"), "done", tools=[risky])
        task = friday.call("hi").as_task()
        await asyncio.wait([task])
        assert not task.cancel() and friday.conversation().pending == {"a"}
        assert (await friday.call(Approve("a"))).text == "done"

    run_virtual(main())


# --- interruption ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("R22", "D8", "§1.9 e")
def test_a_run_whose_reader_stalls_can_be_interrupted():
    """A bounded channel without a reader is full, and the interruption still ends the run."""

    async def main():
        friday = agent([*"abcdefghij" * 100, HANG])
        async with friday.stream("hi") as events:
            async for _ in events:
                break_soon = asyncio.get_running_loop().time() + 1
                await asyncio.sleep(1)
                friday.interrupt()
                await asyncio.sleep(1)
                assert asyncio.get_running_loop().time() == break_soon + 1
                break
            rest = [event async for event in events]
        assert rest == [] or rest[-1].type == "post_call"
        await friday.idle()
        assert_good(friday)

    run_virtual(main())


# --- state ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("D4", "R13")
def test_whatever_a_tool_returns_or_raises_half_way():
    """Any value is a result; one that fails while it streams is an error result; its siblings finish."""

    @tool
    async def odd():
        """Returns an odd thing."""
        return {1, 2}.__class__()

    @tool
    async def half():
        """Fails half way."""
        yield "one"
        raise ValueError("half way")

    friday = agent(
        [use("a", "half"), use("b", "work", name="b", seconds=2.0), use("c", "odd")], "done", tools=[odd, half, work]
    )
    assert run_virtual(friday.call("hi")).text == "done"
    assert said(friday)[2:5] == ["a!failed", "b=b", "c=[]"]
    assert_good(friday)


@pytest.mark.spec("D14", "M26")
def test_nothing_of_a_message_is_lost_when_it_is_written():
    """Every field, in a message and through a session."""
    message = Msg(
        "Friday",
        [ThinkingBlock("t", "sig", {"a": 1}), TextBlock("x"), ToolUseBlock("a", "w", {"n": 1}, metadata={"s": "y"})],
        "assistant",
        metadata={"k": [1, {"v": None}]},
        generate_reason=GenerateReason.TOOL_CALLS,
        usage=ChatUsage(1, 2, 3, 4, 5.0),
    )
    assert Msg.from_json(message.to_json()) == message
    session, friday = InMemorySession(), agent(memory=InMemoryMemory([message, Msg.tool(given("a"))]))
    run_virtual(friday.save(session, "s"))
    again = agent()
    run_virtual(again.load(session, "s"))
    assert list(remembered(again)) == list(remembered(friday))


# --- order, content, usage ------------------------------------------------------------------------------------------


@pytest.mark.spec("R16", "S13", "M39")
def test_usage_is_that_of_the_whole_run():
    """All rounds and vain attempts; on the reply, and for the caller's budget in `run.stats()`."""
    spent = ChatResponse(usage=ChatUsage(10, 1))
    turns = [
        ["words", spent],
        [use("g", "generate_response", response="x"), spent],
        [use("h", "generate_response", response=1), spent],
    ]
    reply = run_virtual(agent(*turns).call("hi", output=StructuredOutput(int, mode="tool")))
    assert reply.structured() == 1 and reply.usage == ChatUsage(30, 3)


@pytest.mark.spec("R17", "W45", "§1.12")
def test_a_hint_lives_for_one_question():
    """Also if the run is cut off while the model has it."""

    class Hinting(ReActAgent):
        def pre_reasoning(self, event):
            return event.with_hint(f"hint {event.iteration}")

    async def main():
        friday = Hinting("Friday", ScriptedModel(use("a"), "done", HANG), tools=[weather])
        await friday.call("hi")
        task = friday.call("more").as_task()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await friday.idle()
        hints = [[m.text for m in request.messages if "hint" in m.text] for request in friday.model.requests]
        assert hints == [["hint 0"], ["hint 1"], ["hint 0"]]
        assert not any("hint" in line for line in said(friday))

    run_virtual(main())


# --- streams --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R20", "S1", "S2", "M24", "M29", "M38")
@pytest.mark.parametrize("end", ["done", "error", "interrupted", "suspended"])
def test_a_stream_has_one_last_event_and_folds_to_the_reply(end: str):
    """What was said comes first, then `post_call`, or `error` and the error."""
    turn = {"done": "x", "error": ["x", ModelConnectionError("gone")], "interrupted": ["x", HANG],
            "suspended": use("a", "risky")}[end]  # fmt: skip

    async def main():
        friday = agent(turn, tools=[risky])
        seen: list[Event] = []

        def act(event: Event) -> None:
            seen.append(event)
            if end == "interrupted" and event.type == "reasoning_chunk":
                friday.interrupt()

        run = friday.stream("hi").pipe(ops.do_action(act))
        if end == "error":
            with pytest.raises(ModelConnectionError) as caught:
                await run
            assert seen[-1].error is caught.value
        else:
            await run
        assert [event.type for event in seen if event.type in ("post_call", "error")] == [seen[-1].type]
        assert trace(seen).startswith("pre_call pre_reasoning reasoning_chunk")
        assert fold(seen).history == tuple(remembered(friday))
        assert fold(seen).message == (None if end == "error" else seen[-1].message)

    run_virtual(main())


@pytest.mark.spec("R24", "J1")
def test_blocking_inside_a_loop_is_refused_with_a_word():
    async def main():
        with pytest.raises(RunInsideLoopError, match="await"):
            agent("x").call("hi").run()

    asyncio.run(main())


# --- structured output ----------------------------------------------------------------------------------------------


@pytest.mark.spec("M1", "§1.7")
def test_acting_hooks_are_not_called_for_plain_text():
    """Nor for an output that a model gives in words."""
    events = run_virtual(events_of(agent("hi"), "hi")) + run_virtual(
        events_of(agent('{"response": [1]}'), "hi", output=StructuredOutput(list[int], mode="prompted"))
    )
    assert not [event for event in events if "acting" in event.type]


# --- hooks ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("M2", "M5", "M6", "M7", "R25", "J12")
def test_hooks_of_a_subclass_run_once_in_order():
    """Three levels of `super()`, an overridden stage, an error in between."""
    ran: list[str] = []

    class One(ReActAgent):
        def pre_reply(self, event):
            ran.append("one")

        def acting(self, run, calls):
            ran.append("acting")
            return super().acting(run, calls)

    class Two(One):
        def pre_reply(self, event):
            super().pre_reply(event)
            ran.append("two")

    class Three(Two):
        async def pre_reply(self, event):
            super().pre_reply(event)
            ran.append("three")

        def post_acting(self, event):
            ran.append("post_acting")
            if event.tool_use.id == "bad":
                raise ValueError("once")

    friday = Three("Friday", ScriptedModel(use("bad"), use("a"), "done"), tools=[weather])
    with pytest.raises(ValueError, match="once"):
        run_virtual(friday.call("hi"))
    assert run_virtual(friday.call()).text == "done"
    assert ran == ["one", "two", "three", "acting", "post_acting"] * 2
    assert_good(friday)


@pytest.mark.spec("M28", "J3")
def test_a_cancelled_run_is_seen_to_its_end_by_a_tracer():
    """`finally` of each part, in order, from the inside."""
    closed: list[str] = []

    class Spans(Tracer):
        def _span(self, flow, name):
            return flow.pipe(ops.finally_action(lambda: closed.append(name)))

        def around_call(self, source):
            return self._span(source, "call")

        def around_tool(self, source, request):
            return self._span(source, request.call.id)

    async def main():
        friday = agent([use("a", "work", name="a"), use("b", "work", name="b")], tools=[work], tracer=Spans())
        task = friday.call("hi").as_task()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await friday.idle()
        assert sorted(closed) == ["a", "b", "call"]

    run_virtual(main())


# --- rounds ---------------------------------------------------------------------------------------------------------


# --- people ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("R27", "S3", "M36")
def test_approval_one_by_one_across_processes_and_remembered():
    """Allow, refuse with a word, edit, remember; in any order; in another process; asked once for what is
    covered; the model is not asked before all are settled."""

    async def main():
        session = InMemorySession()

        def new(*turns):
            return agent(*turns, tools=[risky])

        first = new([use(id, "risky", level=n) for n, id in enumerate("abcd")])
        reply = await first.call("hi")
        assert [call.id for call in reply.pending_calls] == list("abcd")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        await first.save(session, "s")

        second = new("never asked")
        await second.load(session, "s")
        reply = await second.call([Reject("c", "too risky"), Approve("a", {"level": 9})])
        assert {call.id for call in reply.pending_calls} == {"b", "d"} and second.model.requests == []
        await second.save(session, "s")

        third = new([use("e", "risky", level=5)], "done")
        await third.load(session, "s")
        assert (await third.call([Approve("b", remember="tool"), Approve("d")])).text == "done"
        results = {r.id: (r.kind, r.text) for m in remembered(third) for r in m.tool_results}
        assert (
            results["a"] == (None, "done 9") and results["b"] == (None, "done 1") and results["d"] == (None, "done 3")
        )
        assert results["c"][0] is ToolResultKind.REJECTED and "too risky" in results["c"][1]
        assert results["e"] == (None, "done 5"), "covered by what was remembered"
        assert remembered(third)[1].tool_calls[0].input == {"level": 9}
        assert len(third.model.requests) == 2
        assert_good(third, late=list("abcd"))

    run_virtual(main())


@pytest.mark.spec("M33", "R5")
def test_every_call_of_an_interrupted_batch_has_one_result():
    """Finished, running, waiting for approval, external: in call order, also at an interruption."""

    async def main():
        toolkit = Toolkit([work, risky])
        toolkit.register_schema(ToolSchema("external", "", {"type": "object", "properties": {}}))
        calls = [use("e", "external"), *works("a", "b"), use("r", "risky")]
        friday = agent(calls, "next", toolkit=toolkit)
        task = friday.call("hi").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        assert (await task).generate_reason is GenerateReason.INTERRUPTED
        results = {r.id: r.kind for m in remembered(friday) for r in m.tool_results}
        interrupted = ToolResultKind.INTERRUPTED
        assert results == {"a": None, "b": interrupted, "e": interrupted, "r": interrupted}
        assert_good(friday, late=["e"])
        assert friday.conversation().pending == set()

    run_virtual(main())
