"""The acceptance cases 1-31 of §22: engine basics, lifecycle, interruption flag, context. One test each, by number.

Cases 1, 2, 3, 7, 9, 18 are asserted with their whole traces in `test_traces`.
"""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    ExecutionConfig,
    GenerateOptions,
    GenerateReason,
    InMemoryMemory,
    Msg,
    RuntimeContext,
    ToolContext,
    ToolResultKind,
    hook,
    tool,
)
from agentscope_rx.errors import AgentBusyError, ModelConnectionError
from agentscope_rx.events import PreActingEvent, PreCallEvent, ReasoningChunkEvent, StreamOptions
from agentscope_rx.messages import ChatUsage, TextBlock, ThinkingBlock
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.testing import HANG, Delay, run_virtual
from tests.acceptance.parts import agent, assert_good, said, use
from tests.agent.parts import events_of, remembered
from tests.support.assertions import results_in

CHUNKS = StreamOptions(kinds=ReasoningChunkEvent)


def chunks(friday, *, incremental: bool = True) -> list[ReasoningChunkEvent]:
    options = StreamOptions(kinds=ReasoningChunkEvent, incremental=incremental)
    return [e for e in run_virtual(events_of(friday, "hi", options)) if isinstance(e, ReasoningChunkEvent)]


@pytest.mark.spec("case 1")
def test_case_1_simple_reply():
    friday = agent("Hello")
    reply = friday.call("hi").run()
    assert (reply.name, reply.role, reply.text, reply.tool_calls) == ("Friday", "assistant", "Hello", ())


@pytest.mark.spec("case 2", "W01")
def test_case_2_thinking_and_text_are_one_message():
    """(Thinking alone is no answer: see W01.)"""
    friday = agent([ThinkingBlock("let me "), ThinkingBlock("see"), "Yes", "."])
    reply = friday.call("hi").run()
    assert reply.content == (ThinkingBlock("let me see"), TextBlock("Yes."))
    assert len(friday.model.requests) == 1 and remembered(friday)[1:] == [reply]


@pytest.mark.spec("case 3", "case 4")
def test_cases_3_4_tools_run_once_each_in_the_models_order():
    ran: list[str] = []

    @tool
    async def note(what: str) -> str:
        """Notes."""
        ran.append(what)
        return f"noted {what}"

    friday = agent(use("a", "note", what="1"), use("b", "note", what="2"), "done", tools=[note])
    assert friday.call("hi").run().text == "done"
    assert ran == ["1", "2"]
    assert said(friday) == ["user hi", "Friday [a]", "a=noted 1", "Friday [b]", "b=noted 2", "Friday done"]


@pytest.mark.spec("case 5", "case 6", "W65")
def test_cases_5_6_a_failing_tool_is_a_result_with_its_calls_id():
    """One spelling, `Error: ...`, and a machine-readable kind."""
    friday = agent(use("a", "broken", reason="no luck"), "done")
    assert friday.call("hi").run().text == "done"
    result = remembered(friday)[2].tool_results[0]
    assert (result.id, result.name, result.kind, result.is_error) == ("a", "broken", ToolResultKind.FAILED, True)
    assert result.text.startswith("Error: ") and "no luck" in result.text


@pytest.mark.spec("case 8")
def test_case_8_history_grows_over_calls():
    friday = agent("one", "two", "three")
    sizes = []
    for word in "abc":
        friday.call(word).run()
        sizes.append(len(remembered(friday)))
    assert sizes == [2, 4, 6]
    assert [message.text for message in friday.model.requests[2].messages] == [
        "You are Friday.", "a", "one", "b", "two", "c",
    ]  # fmt: skip


@pytest.mark.spec("case 10")
def test_case_10_call_without_input_goes_on_and_adds_no_user_message():
    friday = agent("one", "two")
    friday.call("hi").run()
    assert friday.call().run().text == "two"
    assert said(friday) == ["user hi", "Friday one", "Friday two"]


@pytest.mark.spec("case 11", "case 12", "case 54")
def test_cases_11_12_pieces_of_parallel_calls_accumulate_apart():
    """Interleaved fragments, as increments and as the call so far."""
    deltas = [
        ToolUseDelta(0, "a", "weather", '{"ci'),
        ToolUseDelta(1, "b", "weather", '{"city":'),
        ToolUseDelta(0, arguments='ty":"Rome"}'),
        ToolUseDelta(1, arguments='"Oslo"}'),
    ]
    shown = chunks(agent(deltas, "done"))[:4]
    assert [(c.delta.id, c.delta.raw) for c in shown] == [
        ("a", '{"ci'), ("b", '{"city":'), ("a", 'ty":"Rome"}'), ("b", '"Oslo"}'),
    ]  # fmt: skip
    assert [(c.accumulated.id, c.accumulated.raw) for c in shown[2:]] == [
        ("a", '{"city":"Rome"}'), ("b", '{"city":"Oslo"}'),
    ]  # fmt: skip
    friday = agent(deltas, "done")
    friday.call("hi").run()
    assert said(friday)[2:4] == ["a=Sunny in Rome", "b=Sunny in Oslo"]


@pytest.mark.spec("case 13", "W35", "R16")
def test_case_13_usage():
    """Departure: on the Post event and, summed over the run, on the reply; not on chunks."""
    friday = agent([use("a"), ChatResponse(usage=ChatUsage(10, 2))], ["done", ChatResponse(usage=ChatUsage(20, 1))])
    events = run_virtual(events_of(friday, "hi"))
    assert [e.usage for e in events if e.type == "post_reasoning"] == [ChatUsage(10, 2), ChatUsage(20, 1)]
    assert events[-1].message.usage == ChatUsage(30, 3)


@pytest.mark.spec("case 14", "W43", "R5")
def test_case_14_results_are_made_up_for_calls_that_were_cut_off():
    """Departure: Java leaves the call unanswered, and hides it behind its recovery message."""

    async def main():
        friday = agent([use("a"), HANG], "next")
        task = friday.call("hi").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        await task
        assert results_in(remembered(friday))["a"][0] is ToolResultKind.INTERRUPTED
        assert (await friday.call("go on")).text == "next"
        assert_good(friday)

    run_virtual(main())


@pytest.mark.spec("case 15", "case 16", "R21")
@pytest.mark.parametrize("incremental", [True, False])
def test_cases_15_16_thinking_as_increments_or_accumulated(incremental: bool):
    """One or the other, not both."""
    shown = chunks(agent([ThinkingBlock("a"), ThinkingBlock("b"), ThinkingBlock("c"), "x"]), incremental=incremental)
    blocks = [c.delta if incremental else c.snapshot for c in shown]
    texts = [block.thinking if isinstance(block, ThinkingBlock) else block.text for block in blocks]
    assert texts == (["a", "b", "c", "x"] if incremental else ["a", "ab", "abc", "x"])
    assert all((c.snapshot is None) is incremental for c in shown)


@pytest.mark.spec("case 17", "case 18")
def test_cases_17_18_a_seeded_memory_is_part_of_the_summary():
    memory = InMemoryMemory([Msg.user("My name is Ann.")])
    friday = agent(use("a"), "in short", memory=memory, max_iters=1)
    reply = friday.call("hi").run()
    assert friday.model.requests[-1].messages[1].text == "My name is Ann."
    assert remembered(friday)[-1] == reply and reply.text == "in short"


@pytest.mark.spec("case 19")
def test_case_19_a_slow_tool():
    """Its timeout is a result, and the answer an ordinary one."""
    friday = agent(use("a", "slow", seconds=60.0), "done", tool_execution_config=ExecutionConfig(timeout=0.1))
    assert run_virtual(friday.call("hi")).text == "done"
    assert said(friday)[2] == "a!timeout"


@pytest.mark.spec("case 20", "case 21", "§5.2")
def test_cases_20_21_options_reach_the_model():
    """The agent's execution config is united with that of its options."""
    friday = agent(
        "ok",
        generate_options=GenerateOptions(
            temperature=0.1, top_p=0.2, max_tokens=3, seed=4, execution_config=ExecutionConfig(max_attempts=7)
        ),
        model_execution_config=ExecutionConfig(timeout=5),
    )
    friday.call("hi").run()
    asked = friday.model.requests[0].options
    assert (asked.temperature, asked.top_p, asked.max_tokens, asked.seed) == (0.1, 0.2, 3, 4)
    assert (asked.execution_config.timeout, asked.execution_config.max_attempts) == (5, 7)


@pytest.mark.spec("case 22")
def test_case_22_an_unknown_tool():
    """The model is told, with the names of those that there are; the run goes on."""
    friday = agent(use("a", "wether"), "done")
    assert friday.call("hi").run().text == "done"
    (kind, text) = results_in(remembered(friday))["a"]
    assert kind is ToolResultKind.NOT_FOUND and "weather" in text


@pytest.mark.spec("case 23", "§4.2")
@pytest.mark.parametrize(
    ("given_input", "remembered_input"),
    [(None, []), ([], []), ("   ", ["user    "]), ("", ["user"]), ([Msg.user(())], ["user"])],
)
def test_case_23_degenerate_inputs(given_input, remembered_input):
    """What fails in Java with a null pointer goes on from memory here."""
    friday = agent("ok")
    assert friday.call(given_input).run().text == "ok"
    assert said(friday) == [*remembered_input, "Friday ok"]


@pytest.mark.spec("case 24")
def test_case_24_agents_run_concurrently():
    async def main():
        loop = asyncio.get_running_loop()
        agents = [agent([Delay(5), f"{number}"]) for number in range(20)]
        replies = await asyncio.gather(*(friday.call("hi").as_task() for friday in agents))
        assert [reply.text for reply in replies] == [f"{number}" for number in range(20)]
        assert loop.time() < 6

    run_virtual(main())


@pytest.mark.spec("case 25", "case 27")
def test_cases_25_27_a_second_call_is_refused_until_the_reply_is_seen():
    """Refused before any hook; free before the subscriber sees the end, also of a failure."""

    async def main():
        begun = []

        @hook(PreCallEvent)
        def look(event):
            begun.append(event)

        friday = agent([Delay(1), "one"], "two", ModelConnectionError("x"), "three", hooks=[look])
        friday.model.execution_config = ExecutionConfig(max_attempts=1)
        first = friday.call("a").as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(AgentBusyError, match="still running"):
            await friday.call("b")
        assert len(begun) == 1
        assert (await first).text == "one"
        again = friday.call("b").pipe(ops.flat_map(lambda _: friday.call("c").pipe(ops.catch(friday.call("d")))))
        assert (await again).text == "three"
        assert [each for each in said(friday) if each.startswith("user")] == ["user a", "user b", "user c", "user d"]

    run_virtual(main())


@pytest.mark.spec("case 26", "W24")
def test_case_26_overlapping_calls_if_asked_for():
    """Nothing of one run is seen by the other, although they share an agent and its memory."""

    async def main():
        seen: dict[str, str] = {}

        @tool
        async def whose(context: RuntimeContext, call: ToolContext) -> str:
            """Says whose call it is."""
            await asyncio.sleep(1)
            seen[call.call.id] = context.require(str, "user")
            return seen[call.call.id]

        friday = agent(use("a", "whose"), use("b", "whose"), "one", "two", tools=[whose], check_running=False)
        contexts = [RuntimeContext(user=name) for name in ("Ann", "Bob")]
        replies = await asyncio.gather(*(friday.call("hi", context=context).as_task() for context in contexts))
        assert seen == {"a": "Ann", "b": "Bob"} and {reply.text for reply in replies} == {"one", "two"}

    run_virtual(main())


@pytest.mark.spec("case 28")
@pytest.mark.parametrize("message", [None, "stop"])
def test_case_28_an_interruption_without_a_run_says_so(message):
    """It does not affect the next call. Departure: `interrupt` says that there was nothing to do."""
    friday = agent("one")
    assert friday.interrupt(message) is False
    assert friday.call("hi").run().generate_reason is GenerateReason.MODEL_STOP
    assert friday.interrupt(message) is False


@pytest.mark.spec("case 29")
def test_case_29_observing():
    """It is remembered, and nobody answers."""
    friday = agent("never asked")
    assert friday.observe([Msg.user("a"), Msg.user("b")]).run() is None
    assert said(friday) == ["user a", "user b"] and friday.model.requests == []


@pytest.mark.spec("case 30", "W21", "W25")
def test_case_30_hook_and_tool_share_the_calls_context_and_nothing_is_left_of_it():
    found: list[object] = []

    @hook(PreActingEvent)
    def mark(event):
        event.context.put("by the hook", key="note")

    @tool
    async def read(context: RuntimeContext) -> str:
        """Reads."""
        found.append(context.get(str, "note"))
        return "ok"

    friday = agent(use("a", "read"), "done", use("b", "read"), "done", tools=[read], hooks=[mark])
    given_context = RuntimeContext()
    friday.call("hi", context=given_context).run()
    assert found == ["by the hook"] and given_context.get(str, "note") == "by the hook"
    friday.call("hi", context=(other := RuntimeContext())).run()
    assert other is not given_context and other.get(str, "note") == "by the hook"
    assert not any(isinstance(value, RuntimeContext) for value in vars(friday).values())


@pytest.mark.spec("case 41")
@pytest.mark.parametrize("prompt", [None, "", "  \n"])
def test_case_41_a_blank_prompt_is_none(prompt):
    """§22 case 41 (the rest of 32-53 is in `tests/hooks` and `tests/agent/test_pending`)."""
    friday = agent("x", sys_prompt=prompt)
    events = run_virtual(events_of(friday, "hi"))
    assert [event.system_message for event in events if event.type in ("pre_call", "pre_reasoning")] == [None, None]
    assert [message.role.value for message in friday.model.requests[0].messages] == ["user"]
