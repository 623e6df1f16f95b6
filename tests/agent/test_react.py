"""What a run says and remembers: the canonical traces, and the decisions between them."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    ExecutionConfig,
    GenerateOptions,
    GenerateReason,
    Msg,
    MsgRole,
    ReActAgent,
    fold,
    hook,
    tool,
)
from agentscope_rx.errors import AgentBusyError, EmptyResponseError, ModelConnectionError, ProtocolError
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    StreamOptions,
    coalesce_chunks,
    event_from_json,
)
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.models.response import ChatResponse, FinishReason, ToolUseDelta
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import HANG, Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, events_of, remembered, types


@pytest.mark.spec("T1", "case 1")
def test_a_plain_answer():
    friday = agent(ScriptedModel(["Hel", "lo"]))
    events = run_virtual(events_of(friday, "hi"))
    assert types(events) == [
        "pre_call", "pre_reasoning", "reasoning_chunk", "reasoning_chunk", "post_reasoning", "post_call",
    ]  # fmt: skip
    assert [event.seq for event in events] == list(range(6))
    assert len({event.run_id for event in events}) == 1
    assert [m.role for m in remembered(friday)] == [MsgRole.USER, MsgRole.ASSISTANT]
    assert events[-1].message.text == "Hello"
    assert events[-1].message == remembered(friday)[-1] == fold(events).message
    assert events[-1].message.generate_reason is GenerateReason.MODEL_STOP


@pytest.mark.spec("T2")
def test_two_tools_in_one_round():
    model = ScriptedModel([call("slow", seconds=5.0), call("weather", city="Rome")], "done")
    friday = agent(model)
    events = run_virtual(events_of(friday, "hi"))
    assert types(events) == [
        "pre_call", "pre_reasoning", "reasoning_chunk", "reasoning_chunk", "post_reasoning",
        "pre_acting", "pre_acting", "acting_chunk", "acting_chunk", "post_acting", "post_acting",
        "pre_reasoning", "reasoning_chunk", "post_reasoning", "post_call",
    ]  # fmt: skip
    # the quick one is seen at once, and remembered in its turn
    assert [e.tool_use.name for e in events if isinstance(e, ActingChunkEvent)] == ["weather", "slow"]
    assert [e.tool_use.name for e in events if isinstance(e, PostActingEvent)] == ["slow", "weather"]
    assert [m.role.value for m in remembered(friday)] == ["user", "assistant", "tool", "tool", "assistant"]
    assert fold(events).history == tuple(remembered(friday))
    assert_whole(friday)
    assert len(model.requests) == 2
    assert [m.role.value for m in model.requests[1].messages] == ["system", "user", "assistant", "tool", "tool"]
    assert [t.name for t in model.requests[0].tools] == ["weather", "slow", "broken", "count"]


def test_progress_comes_while_the_tool_runs():
    friday = agent(ScriptedModel(call("count", upto=3), "done"))

    async def main():
        loop = asyncio.get_running_loop()
        start = loop.time()
        return [
            (round(loop.time() - start, 3), event.text, event.is_last)
            async for event in friday.stream("count")
            if isinstance(event, ActingChunkEvent)
        ]

    assert run_virtual(main()) == [(0.1, "0", False), (0.2, "1", False), (0.3, "2", False), (0.3, "", True)]


@pytest.mark.spec("case 5", "case 6", "case 22", "W51", "W65", "R6")
def test_the_model_sees_failed_unknown_and_invalid_calls():
    model = ScriptedModel(
        [
            call("broken", reason="no luck"),
            call("nothing"),
            call("weather", town="Rome"),
            ToolUseDelta(7, "x7", "weather", '{"city": "Ro'),
        ],
        "done",
    )
    friday = agent(model)
    events = run_virtual(events_of(friday, "hi"))
    results = [e.result for e in events if isinstance(e, PostActingEvent)]
    assert [r.kind for r in results] == [
        ToolResultKind.FAILED,
        ToolResultKind.NOT_FOUND,
        ToolResultKind.INVALID_ARGUMENTS,
        ToolResultKind.INVALID_ARGUMENTS,
    ]
    assert "no luck" in results[0].text
    assert "weather" in results[1].text, "an unknown tool is answered with the names of those that exist"
    assert "city" in results[2].text
    assert "JSON" in results[3].text
    broken = remembered(friday)[1].tool_calls[3]
    assert broken.input == {} and broken.raw == '{"city": "Ro' and broken.input_error
    assert events[-1].message.text == "done"
    assert_whole(friday)


@pytest.mark.spec("case 8", "case 10")
def test_history_grows_and_call_without_input_continues():
    model = ScriptedModel("one", "two", "three")
    friday = agent(model)
    friday.call("a").run()
    friday.call([Msg.user("b"), Msg.user("c", name="Ann")]).run()
    friday.call().run()
    assert [m.text for m in remembered(friday)] == ["a", "one", "b", "c", "two", "three"]


@pytest.mark.spec("case 7", "case 18", "T7")
def test_the_limit_ends_with_a_summary():
    model = ScriptedModel(*[call("weather", city="Rome") for _ in range(3)], ["all ", "sunny"])
    friday = agent(model, max_iters=3)
    events = run_virtual(events_of(friday, "hi"))
    assert types(events)[-4:] == ["summary_chunk", "summary_chunk", "post_summary", "post_call"]
    assert events[-1].message.generate_reason is GenerateReason.MAX_ITERATIONS
    assert model.requests[-1].tools == () and "3 rounds" in model.requests[-1].messages[-1].text
    assert [m.role.value for m in remembered(friday)][-1] == "assistant"
    assert "rounds" not in "".join(m.text for m in remembered(friday)), "the request for a summary is not remembered"
    assert fold(events).history == tuple(remembered(friday))
    assert_whole(friday)


def test_calls_in_a_summary_are_left_out():
    friday = agent(ScriptedModel(call("weather", city="Rome"), [call("weather", city="Rome"), "sunny"]), max_iters=1)
    assert friday.call("hi").run().tool_calls == ()
    assert_whole(friday)


EMPTY = [(), ("",), (ChatResponse(finish_reason=FinishReason.STOP),), (ChatResponse(usage=ChatUsage(3, 0)),)]


@pytest.mark.spec("W01")
@pytest.mark.parametrize("turn", EMPTY)
def test_an_empty_answer_is_an_error(turn):
    friday = agent(ScriptedModel(list(turn), "next"))
    with pytest.raises(EmptyResponseError, match="in reasoning") as caught:
        friday.call("hi").run()
    assert caught.value.stage == "reasoning"
    assert [m.text for m in remembered(friday)] == ["hi"]
    assert friday.call().run().text == "next"


@pytest.mark.parametrize("turn", EMPTY)
def test_an_empty_answer_is_a_failed_attempt(turn):
    """It has shown nothing, so the execution config may ask again; what it cost counts."""
    model = ScriptedModel(list(turn), "next")
    friday = agent(model, model_execution_config=ExecutionConfig(max_attempts=2))
    events = run_virtual(events_of(friday, "hi"))
    assert [e.error_type for e in events if e.type == "retry"] == ["EmptyResponseError"]
    assert events[-1].message.text == "next"
    assert events[-1].usage.input_tokens == (3 if turn == EMPTY[-1] else 0)


@pytest.mark.parametrize("turn", EMPTY)
def test_attempts_that_stay_empty_fail(turn):
    friday = agent(ScriptedModel(list(turn), list(turn)), model_execution_config=ExecutionConfig(max_attempts=2))
    with pytest.raises(EmptyResponseError):
        run_virtual(friday.call("hi"))
    assert [m.text for m in remembered(friday)] == ["hi"]


@pytest.mark.spec("W01")
@pytest.mark.parametrize("times", [1, 2, 3])
def test_the_model_goes_on_after_thinking_alone(times):
    model = ScriptedModel(*[[ThinkingBlock("hm")]] * times, call("weather", city="Rome"), "sunny")
    friday = agent(model)
    events = run_virtual(events_of(friday, "hi"))
    assert events[-1].message.text == "sunny"
    assert [m.content[0] for m in remembered(friday)[1 : times + 1]] == [ThinkingBlock("hm")] * times
    hints = ["Go on" in request.messages[-1].text for request in model.requests]
    assert hints == [False, *[True] * times, False], "told so in the rounds after, and in those only"
    assert fold(events).history == tuple(remembered(friday))
    assert_whole(friday)


def test_a_model_that_only_thinks_is_an_error():
    friday = agent(ScriptedModel([ThinkingBlock("hm")], repeat=True))
    with pytest.raises(EmptyResponseError, match="with thinking only, 4 times in a row, in reasoning") as caught:
        friday.call("hi").run()
    assert caught.value.thinking == 4
    assert len(friday.model.requests) == 4
    friday.model = ScriptedModel([ThinkingBlock("hm")], call("weather", city="Rome"), [ThinkingBlock("hm")], "fine")
    assert friday.call().run().text == "fine"


def test_thinking_alone_uses_up_the_rounds():
    friday = agent(ScriptedModel([ThinkingBlock("hm")], [ThinkingBlock("hm")], "in short"), max_iters=2)
    reply = friday.call("hi").run()
    assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.MAX_ITERATIONS)


@pytest.mark.spec("T9", "case 9")
def test_a_failing_model_fails_the_run_and_leaves_memory_whole():
    model = ScriptedModel(["par", ModelConnectionError("broken pipe")], "next")
    friday = agent(model)
    seen = []
    with pytest.raises(ModelConnectionError):
        friday.stream("hi").pipe(ops.do_action(seen.append)).run()
    assert types(seen) == ["pre_call", "pre_reasoning", "reasoning_chunk", "error"]
    assert seen[-1].error_type == "ModelConnectionError" and seen[-1].error_text == "broken pipe"
    assert [m.text for m in remembered(friday)] == ["hi"]
    assert not friday.running
    assert friday.call("again").run().text == "next"


def test_failures_before_the_first_chunk_are_retried():
    model = ScriptedModel(ModelConnectionError("one"), ModelConnectionError("two"), "fine")
    friday = agent(model, model_execution_config=ExecutionConfig(max_attempts=3))
    events = run_virtual(events_of(friday, "hi"))
    retries = [e for e in events if e.type == "retry"]
    assert [(e.stage, e.attempt, e.error_text) for e in retries] == [("model", 1, "one"), ("model", 2, "two")]
    assert events[-1].message.text == "fine"


def test_garbage_is_a_typed_error():
    friday = agent(ScriptedModel(ProtocolError("nonsense", body="{")))
    with pytest.raises(ProtocolError):
        friday.call("hi").run()


@pytest.mark.spec("case 2", "case 13", "W55")
def test_thinking_usage_and_order_of_blocks():
    model = ScriptedModel(
        [
            ThinkingBlock("let me "),
            ThinkingBlock("see", "sig"),
            "I ask.",
            ToolUseDelta(0, "c1", "weather", '{"ci'),
            ToolUseDelta(0, arguments='ty":"Rome"}'),
            ChatResponse(usage=ChatUsage(10, 5)),
        ],
        ["done", ChatResponse(usage=ChatUsage(20, 1, cached_tokens=10))],
    )
    friday = agent(model)
    events = run_virtual(events_of(friday, "hi"))
    first = remembered(friday)[1]
    assert [type(b).__name__ for b in first.content] == ["ThinkingBlock", "TextBlock", "ToolUseBlock"]
    assert first.content[0] == ThinkingBlock("let me see", "sig")
    assert first.tool_calls[0] == ToolUseBlock("c1", "weather", {"city": "Rome"})
    assert first.usage == ChatUsage(10, 5) and first.generate_reason is GenerateReason.TOOL_CALLS
    assert events[-1].message.usage == events[-1].usage == ChatUsage(30, 6, cached_tokens=10)
    chunks = [e for e in events if isinstance(e, ReasoningChunkEvent)]
    assert [c.accumulated for c in chunks][1] == ThinkingBlock("let me see", "sig")
    assert chunks[4].accumulated.raw == '{"city":"Rome"}'
    assert len({c.message_id for c in chunks[:5]}) == 1 and chunks[0].message_id == first.id


@pytest.mark.spec("case 20", "case 21")
def test_options_reach_the_model():
    model = ScriptedModel("ok")
    options = GenerateOptions(temperature=0.3, seed=7)
    agent(model, generate_options=options, model_execution_config=ExecutionConfig(timeout=9)).call("hi").run()
    asked = model.requests[0].options
    assert (asked.temperature, asked.seed, asked.execution_config.timeout) == (0.3, 7, 9)


@pytest.mark.spec("case 19")
def test_tool_timeout_is_a_result():
    friday = agent(ScriptedModel(call("slow", seconds=50), "done"), tool_execution_config=ExecutionConfig(timeout=2))
    events = run_virtual(events_of(friday, "hi"))
    result = next(e.result for e in events if isinstance(e, PostActingEvent))
    assert result.kind is ToolResultKind.TIMEOUT and "2 s" in result.text


def test_stream_options_choose_kinds_and_accumulation():
    def friday():
        return agent(ScriptedModel(["a", "b"]))

    only = run_virtual(events_of(friday(), "hi", StreamOptions(kinds=(ReasoningChunkEvent,))))
    assert types(only) == ["reasoning_chunk", "reasoning_chunk"]
    assert [e.seq for e in only] == [0, 1]
    total = run_virtual(events_of(friday(), "hi", StreamOptions(kinds=(ReasoningChunkEvent,), incremental=False)))
    assert [e.accumulated.text for e in total] == ["a", "ab"]
    assert [e.delta for e in total] == [None, None]


def test_tools_start_after_all_are_announced_with_hooks_edits():
    @hook(PreActingEvent)
    async def rewrite(event):
        await asyncio.sleep(1)
        return event.replace(tool_use=event.tool_use.with_input({"city": "Bonn"}))

    friday = agent(ScriptedModel([call("weather", city="Rome"), call("weather", city="Paris")], "ok"), hooks=[rewrite])
    events = run_virtual(events_of(friday, "hi"))
    assert [e.result.text for e in events if isinstance(e, PostActingEvent)] == ["Sunny in Bonn"] * 2
    kinds = types(events)
    assert kinds.index("acting_chunk") > max(i for i, k in enumerate(kinds) if k == "pre_acting")


def test_system_message_and_hints_are_separate_and_transient():
    @hook(PreCallEvent)
    def greet(event):
        return event.replace(input=(*event.input, Msg.user("P.S. be kind")))

    @hook(PreReasoningEvent)
    def hint(event):
        return event.with_hint("hurry").append_system_content(f"round {event.iteration}")

    model = ScriptedModel(call("weather", city="Rome"), "ok")
    friday = agent(model, hooks=[greet, hint])
    friday.call("hi").run()
    for number, request in enumerate(model.requests):
        assert request.messages[0].text == f"You are Friday.\nround {number}"
        assert request.messages[-1].text == "hurry"
    assert [m.text for m in remembered(friday)][:2] == ["hi", "P.S. be kind"]
    assert "hurry" not in [m.text for m in remembered(friday)]


@pytest.mark.spec("W31", "R12")
def test_what_a_hook_puts_into_post_acting_is_what_all_see():
    @hook(PostActingEvent)
    def redact(event):
        return event.with_result(type(event.result).of(event.tool_use, "[redacted]"))

    model = ScriptedModel(call("weather", city="Rome"), "ok")
    friday = agent(model, hooks=[redact])
    events = run_virtual(events_of(friday, "hi"))
    assert remembered(friday)[2].tool_results[0].text == "[redacted]"
    assert model.requests[1].messages[-1].tool_results[0].text == "[redacted]"
    assert next(e for e in events if isinstance(e, PostActingEvent)).result.text == "[redacted]"


def test_a_reply_changed_in_post_call_is_changed_in_memory():
    @hook(PostCallEvent)
    def shout(event):
        return event.replace(message=event.message.replace(content=event.message.text.upper()))

    friday = agent(ScriptedModel("ok"), hooks=[shout])
    events = run_virtual(events_of(friday, "hi"))
    assert remembered(friday)[-1].text == events[-1].message.text == "OK"
    assert fold(events).history == tuple(remembered(friday))


def test_calls_pending_after_stop_after_reasoning_are_resumed():
    @hook(PostReasoningEvent)
    def approve(event):
        return event.stop() if event.message.tool_calls and not event.history[-1].tool_results else None

    model = ScriptedModel([call("weather", city="Rome")], "done")
    friday = agent(model, hooks=[approve])
    reply = friday.call("hi").run()
    assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED and len(reply.tool_calls) == 1
    assert reply == remembered(friday)[-1]
    assert_whole(friday, pending=[reply.tool_calls[0].id])
    events = run_virtual(events_of(friday))
    assert types(events)[:3] == ["pre_call", "pre_acting", "acting_chunk"]
    assert events[-1].message.text == "done"
    assert_whole(friday)


def test_skipped_pending_calls_get_results_before_the_input():
    @hook(PostReasoningEvent)
    def stop_first(event):
        return event.stop() if event.message.tool_calls else None

    friday = agent(ScriptedModel(call("weather", city="Rome"), "instead"), hooks=[stop_first])
    friday.call("hi").run()
    before = len(remembered(friday))
    events = run_virtual(events_of(friday, "never mind"))
    assert events[-1].message.text == "instead"
    assert [m.role.value for m in remembered(friday)][before:] == ["tool", "user", "assistant"]
    assert fold(events).history == tuple(remembered(friday)[before:])
    assert_whole(friday)


def test_any_stop_in_a_batch_wins_and_siblings_finish():
    @hook(PostActingEvent)
    def stop_first(event):
        return event.stop() if event.tool_use.input.get("city") == "Rome" else None

    model = ScriptedModel([call("weather", city="Rome"), call("weather", city="Paris")], "done")
    friday = agent(model, hooks=[stop_first])
    events = run_virtual(events_of(friday, "hi"))
    reply = events[-1].message
    assert reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED
    assert reply.tool_results[0].text == "Sunny in Rome"
    assert fold(events).history == tuple(remembered(friday))
    assert_whole(friday)
    assert friday.call().run().text == "done"


def test_goto_reasoning_adds_messages_and_is_bounded():
    @hook(PostReasoningEvent)
    def again(event):
        return event.goto_reasoning("once more")

    model = ScriptedModel("no", repeat=True)
    friday = agent(model, hooks=[again], max_iters=2)
    reply = run_virtual(friday.call("hi"))
    assert reply.generate_reason is GenerateReason.MAX_ITERATIONS
    assert len(model.requests) <= 2 * 2 + 2
    assert [m.text for m in remembered(friday)][:4] == ["hi", "no", "once more", "no"]


@pytest.mark.spec("case 25")
def test_a_second_call_is_refused_and_the_first_goes_on():
    async def main():
        friday = agent(ScriptedModel([Delay(5), "first"], "second"))
        first = friday.call("a").as_task()
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError, match="still running"):
            await friday.call("b")
        assert (await first).text == "first"
        assert [m.text for m in remembered(friday)] == ["a", "first"]
        assert (await friday.call("b")).text == "second"

    run_virtual(main())


def test_overlapping_calls_when_asked_for():
    async def main():
        friday = agent(ScriptedModel([Delay(2), "slow"], [Delay(1), "quick"]), check_running=False)
        replies = await asyncio.gather(friday.call("a").as_task(), friday.call("b").as_task())
        assert [r.text for r in replies] == ["slow", "quick"]
        assert [m.text for m in remembered(friday)] == ["a", "b", "quick", "slow"]

    run_virtual(main())


def test_overlapping_runs_are_all_interrupted_and_waited_for():
    async def main():
        friday = agent(ScriptedModel(HANG, repeat=True), check_running=False)
        replies = [friday.call(word).as_task() for word in "ab"]
        await asyncio.sleep(1)
        assert friday.running and friday.interrupt()
        await friday.idle()
        assert not friday.running and not friday.interrupt()
        assert [(await reply).generate_reason for reply in replies] == [GenerateReason.INTERRUPTED] * 2

    run_virtual(main())


@pytest.mark.spec("case 27")
def test_the_agent_is_free_when_the_reply_is_seen():
    friday = agent(ScriptedModel("one", "two"))
    replies = friday.call("a").pipe(ops.flat_map(lambda first: friday.call(first.text))).run()
    assert replies.text == "two"

    done = []
    friday = agent(ScriptedModel("one", "two"))

    async def main():
        finished = asyncio.get_running_loop().create_future()
        friday.stream("a").subscribe(
            on_completed=lambda: friday.call("b").subscribe(done.append, on_completed=lambda: finished.set_result(None))
        )
        await finished

    run_virtual(main())
    assert done[0].text == "two"


@pytest.mark.spec("W06")
def test_ten_thousand_turns_cost_no_stack():
    turns = 10_000

    @tool
    async def step() -> str:
        """One step."""
        return "ok"

    model = ScriptedModel(*[call("step")] * turns, "done")
    friday = agent(model, tools=[step], max_iters=turns + 1)
    assert friday.call("go").run().text == "done"
    assert len(remembered(friday)) == 2 * turns + 2


def test_disposal_at_a_stopped_runs_last_event_keeps_calls():
    @hook(PostReasoningEvent)
    def stop_first(event):
        return event.stop() if event.message.tool_calls else None

    async def main():
        friday = agent(ScriptedModel(call("weather", city="Rome"), "done"), hooks=[stop_first])
        async with friday.stream("hi") as events:
            async for event in events:
                if isinstance(event, PostCallEvent):
                    break
        assert_whole(friday, pending=[event.message.tool_calls[0].id])
        assert (await friday.call()).text == "done"
        assert_whole(friday)

    run_virtual(main())


def test_call_is_the_last_of_the_stream_that_a_subclass_makes():
    class Loud(ReActAgent):
        def stream(self, *args, **options):
            def louder(event: Event) -> Event:
                if isinstance(event, PostCallEvent):
                    return event.replace(message=event.message.replace(content=event.message.text.upper()))
                return event

            return super().stream(*args, **options).pipe(ops.map(louder))

    async def main() -> None:
        assert (await Loud("Friday", ScriptedModel("hello")).call("hi")).text == "HELLO"

    run_virtual(main())


def test_chunks_carry_the_usage_that_came_with_them():
    """A subscriber shows tokens as they grow; usage that comes alone is a chunk without a piece."""
    turn = [
        ChatResponse((TextBlock("It "),), usage=ChatUsage(5, 1)),
        "is ",
        ChatResponse((TextBlock("so."),), usage=ChatUsage(5, 3)),
        ChatResponse(usage=ChatUsage(5, 4), finish_reason=FinishReason.STOP),
    ]
    events = run_virtual(events_of(agent(ScriptedModel(turn)), "hi"))
    chunks = [e for e in events if isinstance(e, ReasoningChunkEvent)]
    used = [None if e.usage is None else e.usage.output_tokens for e in chunks]
    assert list(zip([e.text for e in chunks], used, strict=True)) == [("It ", 1), ("is ", None), ("so.", 3), ("", 4)]
    assert chunks[-1].delta is None and event_from_json(chunks[-1].to_json()).usage == ChatUsage(5, 4)
    merged = coalesce_chunks(chunks[0], chunks[1])
    assert merged.text == "It is " and merged.usage == ChatUsage(5, 1)


def test_a_text_that_thinking_falls_into_is_one_text():
    friday = agent(ScriptedModel(["The ans", ThinkingBlock("hm"), "wer is 4."]))
    events = run_virtual(events_of(friday, "hi"))
    assert events[-1].message.text == "The answer is 4."
    assert [e.accumulated for e in events if e.type == "reasoning_chunk"][-1] == TextBlock("The answer is 4.")
