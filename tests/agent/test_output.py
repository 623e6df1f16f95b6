"""Structured output end to end: every mode, its failures, what the model sees, and what memory keeps."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from reactivex import operators as ops

from agentscope_rx import (
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    MsgRole,
    StreamOptions,
    StructuredOutput,
    ThinkingBlock,
    ToolUseBlock,
    UsageLimits,
    fold,
    hook,
    tool,
)
from agentscope_rx.agent import InterruptSource
from agentscope_rx.agent.interruption import Cut
from agentscope_rx.console.transcript import Transcript
from agentscope_rx.errors import (
    AgentShuttingDownError,
    BadRequestError,
    ConfigurationError,
    ModelConnectionError,
    RunDeadlineError,
    StructuredOutputError,
)
from agentscope_rx.events import (
    Event,
    MemoryEvent,
    OutputChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    event_from_json,
)
from agentscope_rx.messages import ChatUsage, ToolResultKind
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolChoice
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel, call
from tests.agent.parts import agent, assert_whole, events_of, remembered, types


def virtual(test: Any) -> Any:
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def main(*args: object, **kwargs: object) -> None:
        run_virtual(test(*args, **kwargs))

    return main


class Weather(BaseModel):
    city: str
    degrees: int


ROME = {"city": "Rome", "degrees": 21}
TEXT = '{"city":"Rome","degrees":21}'
MODES = ["native", "tool", "prompted"]
ONCE = ExecutionConfig(max_attempts=1)


def model(*turns: Any) -> ScriptedModel:
    return ScriptedModel(*turns, output_modes=MODES, execution_config=ONCE)


def good(mode: str) -> object:
    return call("generate_response", **ROME) if mode == "tool" else f"Here: {TEXT}"


def bad(mode: str) -> object:
    return call("generate_response", city="Rome") if mode == "tool" else 'Here: {"city": "Rome"}'


def asked(mode: str, **options: Any) -> StructuredOutput:
    return StructuredOutput(Weather, mode=mode, **options)  # pyright: ignore


async def run(friday, *args: object, **options: object) -> list[Event]:
    """One run; memory, the last event and the fold agree, and nothing of the asking is left."""
    before = list(remembered(friday))
    events = await events_of(friday, *args, **options)
    check(friday, events, before)
    return events


def check(friday, events: list[Event], before: list[Msg]) -> None:
    folded = fold(events)
    assert [*before, *folded.history] == list(remembered(friday))
    if isinstance(events[-1], PostCallEvent):
        assert folded.message == events[-1].message == remembered(friday)[-1]
    assert_no_trace(friday)


def assert_no_trace(friday) -> None:
    assert_whole(friday)
    for message in remembered(friday):
        names = [call.name for call in message.tool_calls] + [result.name for result in message.tool_results]
        assert "generate_response" not in names
        assert message.content


def reply_of(events: list[Event]) -> Msg:
    assert isinstance(events[-1], PostCallEvent)
    return events[-1].message


@pytest.mark.spec("T10", "case 64", "case 65", "case 73")
@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_a_valid_answer(mode: str):
    """java-core.md §22.4 cases 64, 65, 73; §18 T10: [user, response], typed."""
    scripted = model(good(mode))
    friday = agent(scripted)
    reply = reply_of(await run(friday, "Weather?", output=asked(mode)))
    assert reply.structured(Weather) == Weather(**ROME)
    assert reply.structured() == ROME
    assert reply.text == TEXT
    assert reply.role is MsgRole.ASSISTANT
    assert reply.name == "Friday"
    assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
    assert [message.role for message in remembered(friday)] == [MsgRole.USER, MsgRole.ASSISTANT]
    scripted.assert_complete()


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_an_invalid_answer_then_a_valid_one(mode: str):
    """java-core.md §22.10: invalid arguments then valid. What was wrong is told to the model, and not remembered."""
    scripted = model(bad(mode), good(mode))
    friday = agent(scripted)
    reply = reply_of(await run(friday, "Weather?", output=asked(mode)))
    assert reply.structured() == ROME
    assert len(remembered(friday)) == 2
    told = scripted.requests[1].messages[-1]
    said = told.tool_results[0].text if mode == "tool" else told.text
    assert "degrees: is required and was not given" in said


@pytest.mark.spec("W66")
@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_output_retries_are_bounded_and_end_in_a_named_error(mode: str):
    """An error, not a plain text, after the last retry."""
    scripted = model(*[bad(mode)] * 3)
    friday = agent(scripted)
    events: list[Event] = []
    flow = friday.stream("Weather?", output=asked(mode, max_retries=2))
    with pytest.raises(StructuredOutputError, match="in 3 attempts") as caught:
        await flow.pipe(ops.do_action(events.append))
    scripted.assert_complete()
    assert caught.value.problems == ("degrees: is required and was not given",)
    assert caught.value.attempts == 3
    assert "Rome" in caught.value.text
    assert caught.value.agent == "Friday"
    assert [message.role for message in remembered(friday)] == [MsgRole.USER]
    check(friday, events, [])
    assert events[-1].type == "error"


@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_or_the_plain_answer(mode: str):
    friday = agent(model(bad(mode), bad(mode)))
    reply = reply_of(await run(friday, "Weather?", output=asked(mode, max_retries=1, on_failure="text")))
    assert not reply.has_structured
    assert "Rome" in reply.text
    assert reply.generate_reason is GenerateReason.MODEL_STOP
    assert len(remembered(friday)) == 2


@pytest.mark.spec("R17", "case 70", "case 71", "case 72")
@virtual
async def test_the_first_round_is_not_forced_and_a_reminder_is():
    """java-core.md §22.4 cases 70-72; R17: the reminder is a hint of one round and never stored."""
    scripted = model("It is sunny.", call("weather", city="Rome"), good("tool"))
    friday = agent(scripted, generate_options=GenerateOptions(temperature=0.5, tool_choice=ToolChoice("auto")))
    reply = reply_of(await run(friday, "Weather?", output=asked("tool")))
    assert reply.structured() == ROME
    choices = [request.options.tool_choice for request in scripted.requests]
    assert choices == [ToolChoice("auto"), ToolChoice.specific("generate_response"), ToolChoice("auto")]
    assert all(request.options.temperature == 0.5 for request in scripted.requests)
    hints = [request.messages[-1].text for request in scripted.requests]
    assert hints == [
        "Weather?", "Please call the 'generate_response' function to provide your response.", "",
    ]  # fmt: skip
    # what was said in words is conversation, and stays; as do the other calls
    assert [m.role for m in remembered(friday)] == ["user", "assistant", "assistant", "tool", "assistant"]
    assert remembered(friday)[1].text == "It is sunny."


@pytest.mark.spec("case 70")
@virtual
async def test_prompt_mode_never_forces():
    """java-core.md §22.4 case 70."""
    scripted = model("Sunny.", good("tool"))
    await run(agent(scripted), "Weather?", output=asked("tool", reminder="prompt"))
    assert [request.options.tool_choice for request in scripted.requests] == [None, None]
    assert scripted.requests[1].messages[-1].text.startswith("Please call")


@pytest.mark.spec("R18")
@virtual
async def test_a_refused_forced_choice_is_left_out_when_asking_again():
    no = BadRequestError("Thinking mode does not support this tool_choice", status=400)
    scripted = model("Sunny.", no, "Still sunny.", good("tool"))
    friday = agent(scripted)
    await run(friday, "Weather?", output=asked("tool"))
    forced = [request.options.tool_choice is not None for request in scripted.requests]
    assert forced == [False, True, False, False]
    assert all(request.messages[-1].text.startswith("Please call") for request in scripted.requests[1:])
    other = model("Sunny.", BadRequestError("no such field", status=400))
    with pytest.raises(BadRequestError, match="no such field"):
        await agent(other).call("Weather?", output=asked("tool"))


@pytest.mark.parametrize("bound", [{"max_iters": 1}, {"limits": UsageLimits(model_calls=1, on_limit="summary")}])
@virtual
async def test_a_last_attempt_refused_for_forced_choice_is_repeated(bound: dict[str, Any]):
    """It was taken for the chance itself: a summary or an error came in its place."""
    no = BadRequestError("Thinking mode does not support this tool_choice", status=400)
    scripted = model(call("weather", city="Rome"), no, good("tool"))
    friday = agent(scripted, **bound)
    assert reply_of(await run(friday, "Weather?", output=asked("tool"))).structured() == ROME
    assert [request.options.tool_choice is not None for request in scripted.requests] == [False, True, False]
    assert_whole(friday)
    # and it is had once
    friday = agent(model(call("weather", city="Rome"), no, call("weather", city="Rome"), "words"), **bound)
    with pytest.raises(StructuredOutputError):
        await friday.call("Weather?", output=asked("tool"))
    assert_whole(friday)


@virtual
async def test_a_last_chance_that_has_begun_is_not_cut_off_for_one():
    """The deadline's reserve is for a last word; this is one, and has all the time that is left."""
    limits = UsageLimits(deadline=20, summary_reserve=10, on_limit="summary")
    slow = [Delay(12), good("tool")]
    friday = agent(model([Delay(5), call("weather", city="Rome")], slow), max_iters=1, limits=limits)
    assert reply_of(await run(friday, "Weather?", output=asked("tool"))).structured() == ROME
    friday = agent(model([Delay(12), call("weather", city="Rome")], slow), max_iters=1, limits=limits)
    with pytest.raises(RunDeadlineError):
        await friday.call("Weather?", output=asked("tool"))
    assert asyncio.get_running_loop().time() == pytest.approx(17 + 20)
    assert_whole(friday)


@pytest.mark.parametrize("mode", [*MODES, None])
@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice.specific("weather")])
@virtual
async def test_a_choice_of_tools_that_are_withheld_is_not_asked_for(choice: ToolChoice, mode: str | None):
    """Who must call a tool in each round always gets to the last one, and that failed: it demanded a call of none."""
    output = None if mode is None else asked(mode, reminder="prompt")
    scripted = model(call("weather", city="Rome"), "In short." if mode is None else good(mode))
    friday = agent(scripted, max_iters=1, generate_options=GenerateOptions(tool_choice=choice), repeat_tool_choice=True)
    events = await run(friday, "Weather?", output=output)
    assert reply_of(events).text in ("In short.", TEXT)
    choices = [request.options.tool_choice for request in scripted.requests]
    assert choices == [choice, choice if mode == "tool" and choice.mode == "required" else None]
    assert [each.options.tool_choice for each in events if isinstance(each, PreReasoningEvent)] == choices


@virtual
async def test_an_output_removes_only_its_own_calls_from_memory():
    """A server may count its calls from 0 in each answer: the work before had the id of the response."""
    work, answer = (
        ToolUseBlock("call_0", "weather", {"city": "Rome"}),
        ToolUseBlock("call_0", "generate_response", ROME),
    )
    friday = agent(model([work], "It is warm.", [work], [answer]))
    await friday.call("Weather?")
    before = list(remembered(friday))
    assert reply_of(await run(friday, "And now?", output=asked("tool"))).structured() == ROME
    after = remembered(friday)
    assert after[: len(before)] == before
    assert [m.role for m in after[len(before) :]] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.spec("§22.10")
@virtual
async def test_words_three_times_are_an_error_too():
    """java-core.md §22.10: failed reminders. (Java gives the plain text.)"""
    with pytest.raises(StructuredOutputError, match="in words, not by a call of 'generate_response'") as caught:
        await agent(model("a", "b", "c", "d")).call("Weather?", output=asked("tool"))
    assert caught.value.text == "d"
    friday = agent(model("a", "b"))
    reply = reply_of(
        await run(friday, "?", output=StructuredOutput(Weather, mode="tool", max_retries=1, on_failure="text"))
    )
    assert reply.text == "b"


@pytest.mark.spec("W66", "§22.10")
@virtual
async def test_siblings_run_and_stay():
    """java-core.md §22.10: generate_response together with another tool; W66: no orphans."""
    mixed = [ThinkingBlock("hm"), "I look.", call("weather", city="Rome"), good("tool"), call("weather", city="Oslo")]
    friday = agent(model(mixed))
    reply = reply_of(await run(friday, "Weather?", output=asked("tool")))
    kept = list(remembered(friday))
    assert [message.role for message in kept] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call.name for call in kept[1].tool_calls] == ["weather", "weather"]
    assert kept[1].text == "I look."
    assert [message.tool_results[0].text for message in kept[2:4]] == ["Sunny in Rome", "Sunny in Oslo"]
    assert reply.content == kept[4].content
    assert not reply.blocks(ThinkingBlock)


@pytest.mark.spec("R16", "case 66")
@virtual
async def test_usage_of_the_run_and_thinking_of_the_round_are_kept():
    """java-core.md §22.4 case 66; R16."""

    def cost(number: int) -> ChatResponse:
        return ChatResponse(usage=ChatUsage(number, number))

    first = [ThinkingBlock("no"), bad("tool"), cost(10)]
    scripted = model(first, [ThinkingBlock("yes", "signed"), "Here.", good("tool"), cost(5)])
    reply = reply_of(await run(agent(scripted), "Weather?", output=asked("tool")))
    assert reply.usage is not None
    assert reply.usage.input_tokens == 15
    assert reply.blocks(ThinkingBlock) == (ThinkingBlock("yes", "signed"),)
    assert reply.text == TEXT
    native = model([ThinkingBlock("yes"), TEXT, cost(5)])
    reply = reply_of(await run(agent(native), "Weather?", output=asked("native")))
    assert [block.type for block in reply.content] == ["thinking", "text"]


@virtual
async def test_of_several_responses_the_last_valid_one_counts():
    turn = [good("tool"), call("generate_response", city="Oslo", degrees=3), bad("tool")]
    reply = reply_of(await run(agent(model(turn)), "Weather?", output=asked("tool")))
    assert reply.structured() == {"city": "Oslo", "degrees": 3}


@pytest.mark.spec("R18")
@virtual
async def test_auto_takes_the_models_best():
    """Native if the model says so, else the tool, else words."""
    native = ScriptedModel(TEXT, output_modes=MODES)
    assert (await agent(native).call("?", output=Weather)).structured() == ROME
    shape = native.requests[0].options.response_format
    assert shape is not None
    assert shape["type"] == "json_schema"
    assert shape["json_schema"]["schema"]["required"] == ["city", "degrees"]  # pyright: ignore
    assert [schema.name for schema in native.requests[0].tools] == ["weather", "slow", "broken", "count"]
    with_tool = ScriptedModel(good("tool"))
    assert (await agent(with_tool).call("?", output=Weather)).structured() == ROME
    assert with_tool.requests[0].tools[-1].name == "generate_response"
    prompted = ScriptedModel(TEXT, output_modes=["prompted"])
    assert (await agent(prompted).call("?", output=Weather)).structured() == ROME
    assert '"required":["city","degrees"]' in prompted.requests[0].messages[0].text
    assert prompted.requests[0].messages[0].role is MsgRole.SYSTEM


@virtual
async def test_what_cannot_be_asked_is_refused_before_anything_starts():
    friday = agent(ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="does not support mode='native'"):
        friday.call("?", output=asked("native"))
    with pytest.raises(ConfigurationError, match="a type or a JSON schema"):
        friday.stream("?", output=3)

    @tool
    async def generate_response(x: int) -> int:
        """A user's own."""
        return x

    other = agent(ScriptedModel(call("answer", **ROME)), tools=[generate_response])
    with pytest.raises(ConfigurationError, match="named 'generate_response'"):
        other.call("?", output=Weather)
    reply = await other.call("?", output=StructuredOutput(Weather, name="answer"))
    assert reply.structured() == ROME


@pytest.mark.spec("R19")
@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_at_the_limit_there_is_one_more_chance(mode: str):
    """One forced attempt with a schema still open."""
    scripted = model(call("weather", city="Rome"), call("weather", city="Rome"), good(mode))
    friday = agent(scripted, max_iters=2)
    reply = reply_of(await run(friday, "Weather?", output=asked(mode)))
    assert reply.structured() == ROME
    last = scripted.requests[2]
    assert [schema.name for schema in last.tools] == (["generate_response"] if mode == "tool" else [])
    assert last.options.tool_choice == (ToolChoice.specific("generate_response") if mode == "tool" else None)
    assert "You have used all your rounds" in last.messages[-1].text


@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_and_then_the_same_end(mode: str):
    turns = [call("weather", city="Rome"), bad(mode)]
    with pytest.raises(StructuredOutputError, match="in 1 attempt:"):
        await agent(model(*turns), max_iters=1).call("Weather?", output=asked(mode))
    friday = agent(model(*turns), max_iters=1)
    reply = reply_of(await run(friday, "Weather?", output=asked(mode, on_failure="text")))
    assert reply.generate_reason is GenerateReason.MAX_ITERATIONS
    assert "Rome" in reply.text
    # not a word: then the summary
    silent = agent(model(call("weather", city="a"), call("weather", city="b"), "In short."), max_iters=1)
    reply = reply_of(await run(silent, "Weather?", output=asked(mode, on_failure="text")))
    assert reply.text == "In short."


@pytest.mark.spec("W23", "R9")
@virtual
async def test_the_toolkit_of_the_agent_is_never_touched():
    """The tool belongs to the run; two calls at once with different outputs do not meet."""
    scripted = ScriptedModel()
    friday = agent(scripted)

    class City(BaseModel):
        city: str

    async def ask(output: object, turn: ToolUseBlock) -> Msg:
        memory = InMemoryMemory()
        scripted.turns = (*scripted.turns, (turn,))
        reply = await friday.call("?", output=output, memory=memory)
        assert memory.messages[-1] == reply
        return reply

    one, other, plain = await asyncio.gather(
        ask(Weather, call("generate_response", **ROME)),
        ask(City, call("generate_response", city="Oslo")),
        ask(list[int], call("generate_response", response=[1])),
    )
    assert (one.structured(), other.structured(), plain.structured()) == (ROME, {"city": "Oslo"}, [1])
    assert "generate_response" not in friday.toolkit


@pytest.mark.spec("case 67")
@virtual
async def test_a_second_call_at_once_works():
    """java-core.md §22.4 case 67."""
    friday = agent(ScriptedModel(good("tool"), good("tool"), "plain"))
    for _ in range(2):
        assert (await friday.call("?", output=Weather)).structured() == ROME
    assert (await friday.call("and?")).text == "plain"
    assert_no_trace(friday)


@pytest.mark.spec("case 65")
@virtual
async def test_from_memory_only():
    """java-core.md §22.4 case 65."""
    friday = agent(ScriptedModel(good("tool")), memory=InMemoryMemory([Msg.user("Weather in Rome?")]))
    assert (await friday.call(output=Weather)).structured() == ROME
    assert [message.role for message in remembered(friday)] == ["user", "assistant"]


@virtual
async def test_hooks_see_it_as_any_other_call_and_may_change_it():
    seen: list[str] = []

    @hook(PostActingEvent)
    def warmer(event: PostActingEvent):
        seen.append(event.tool_use.name)
        metadata = {**event.result.metadata, "structured_output": {"city": "Rome", "degrees": 99}}
        return event.with_result(ToolResultBlockWith(event, metadata))

    def ToolResultBlockWith(event: PostActingEvent, metadata: dict[str, object]):
        from dataclasses import replace

        return replace(event.result, metadata=metadata)

    friday = agent(ScriptedModel(good("tool")), hooks=[warmer])
    reply = reply_of(await run(friday, "?", output=Weather))
    assert seen == ["generate_response"]
    assert reply.structured(Weather).degrees == 99
    assert reply.text == '{"city":"Rome","degrees":99}'


@virtual
async def test_no_approval_is_asked_for_an_answer():
    friday = agent(ScriptedModel(good("tool")))
    friday.toolkit.approval = lambda call: True
    reply = reply_of(await run(friday, "?", output=Weather))
    assert reply.structured() == ROME
    # a sibling does need it: the run waits, and the response is asked for again
    friday = agent(ScriptedModel([call("weather", city="Rome"), good("tool")], good("tool")))
    friday.toolkit.approval = lambda call: call.name == "weather"
    waiting = await friday.call("?", output=Weather)
    assert waiting.generate_reason is GenerateReason.APPROVAL_REQUIRED
    assert [call.name for call in waiting.tool_calls] == ["weather"]
    assert "generate_response" not in [c.name for m in remembered(friday) for c in m.tool_calls]
    from agentscope_rx import Approve

    reply = await friday.call(Approve(waiting.tool_calls[0]), output=Weather)
    assert reply.structured() == ROME
    assert_no_trace(friday)


@virtual
async def test_a_hook_that_stops_gets_the_answer_in_words():
    @hook(PostReasoningEvent)
    def halt(event: PostReasoningEvent):
        return event.stop()

    friday = agent(ScriptedModel(good("tool")), hooks=[halt])
    reply = reply_of(await run(friday, "?", output=Weather))
    assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED
    assert reply.text == TEXT
    assert not reply.has_structured
    assert not friday.conversation().pending
    friday = agent(ScriptedModel([call("weather", city="Rome"), good("tool")], "done"), hooks=[halt])
    events = await events_of(friday, "?", output=Weather)
    assert [call.name for call in reply_of(events).tool_calls] == ["weather"]
    assert fold(events).message == remembered(friday)[-1]


@virtual
async def test_a_stop_after_the_response_is_the_response():
    @hook(PostActingEvent)
    def halt(event: PostActingEvent):
        return event.stop()

    friday = agent(ScriptedModel([call("weather", city="Rome"), good("tool")]), hooks=[halt])
    reply = reply_of(await run(friday, "?", output=Weather))
    assert reply.structured() == ROME
    refused = agent(ScriptedModel(bad("tool")), hooks=[halt])
    events = await events_of(refused, "?", output=Weather)
    assert reply_of(events).generate_reason is GenerateReason.ACTING_STOP_REQUESTED
    assert reply_of(events) == remembered(refused)[-1]
    assert reply_of(events).tool_results[0].kind is ToolResultKind.INVALID_ARGUMENTS
    assert_whole(refused)


@virtual
async def test_goto_reasoning_goes_on():
    class Once(Hook):
        done = False

        def on_event(self, event: Event):
            if isinstance(event, PostReasoningEvent) and not self.done:
                self.done = True
                return event.goto_reasoning("Think again.")
            return None

    friday = agent(ScriptedModel("Sunny.", good("tool")), hooks=[Once()])
    reply = reply_of(await run(friday, "?", output=Weather))
    assert reply.structured() == ROME


@pytest.mark.parametrize("kind", [PreReasoningEvent, PostReasoningEvent, PostActingEvent, PostCallEvent])
@virtual
async def test_a_failing_hook_leaves_no_trace(kind: type[Event]):
    class Fails(Hook):
        count = 0

        def on_event(self, event: Event):
            if type(event) is kind:
                self.count += 1
                if self.count == 2 or kind is PostCallEvent:
                    raise ValueError("no")

    friday = agent(ScriptedModel(bad("tool"), good("tool")), hooks=[Fails()])
    with pytest.raises(Exception, match="no"):
        await friday.call("?", output=Weather)
    assert_no_trace(friday)


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("mode", MODES)
@virtual
async def test_a_failing_model_leaves_no_trace(mode: str):
    """java-core.md §22.10: failure path cleanup."""
    friday = agent(model([bad(mode)], ["Hm ", ModelConnectionError("gone")]))
    with pytest.raises(ModelConnectionError):
        await friday.call("?", output=asked(mode))
    assert_no_trace(friday)
    assert [message.role for message in remembered(friday)] == ["user"]


@virtual
async def test_a_stream_shows_the_value_as_it_comes():
    pieces = ['{"city": "Ro', 'me", "deg', 'rees": 2', "1}"]
    deltas = [ToolUseDelta(0, "a", "generate_response", pieces[0]), *(ToolUseDelta(0, arguments=p) for p in pieces[1:])]
    events = await run(agent(model(["Here: ", *deltas])), "?", output=asked("tool"))
    shown = [event for event in events if isinstance(event, OutputChunkEvent)]
    assert [event.value for event in shown] == [
        {"city": "Ro"}, {"city": "Rome"}, {"city": "Rome", "degrees": 2}, ROME,
    ]  # fmt: skip
    for index, event in enumerate(events):
        if isinstance(event, OutputChunkEvent):
            chunk = events[index - 1]
            assert isinstance(chunk, ReasoningChunkEvent)
            assert chunk.delta == event.delta
    parts = ['{"response"', ": [1, 2", "3, 4", "]}"]
    native = await run(agent(model(parts)), "?", output=StructuredOutput(list[int], mode="native"))
    assert [event.value for event in native if isinstance(event, OutputChunkEvent)] == [
        None,
        [1, 2],
        [1, 23, 4],
        [1, 23, 4],
    ]


@virtual
async def test_pieces_are_shown_as_the_hooks_left_them():
    @hook(ReasoningChunkEvent)
    def starred(event: ReasoningChunkEvent):
        from agentscope_rx import TextBlock

        return event.replace(delta=TextBlock(event.text.replace("Rome", "****")))

    friday = agent(model([TEXT]), hooks=[starred])
    events = await run(friday, "?", output=asked("native"))
    assert [event.value for event in events if isinstance(event, OutputChunkEvent)] == [{"city": "****", "degrees": 21}]
    assert reply_of(events).structured() == ROME


@virtual
async def test_without_an_output_nothing_is_different():
    friday = agent(ScriptedModel(call("generate_response", x=1), "Hello"))
    events = await events_of(friday, "Hi")
    assert types(events)[-1] == "post_call"
    assert not any(isinstance(event, (OutputChunkEvent, MemoryEvent)) for event in events)
    assert remembered(friday)[2].tool_results[0].kind is ToolResultKind.NOT_FOUND


@virtual
async def test_a_console_writes_a_piece_once():
    written = "".join(piece.text for piece in pieces_of(await run(agent(model([TEXT])), "?", output=asked("native"))))
    assert written.count("Rome") == 1


def pieces_of(events: list[Event]):
    transcript = Transcript()
    return [piece for event in events for piece in transcript.feed(event)]


@virtual
async def test_the_value_survives_json():
    reply = await agent(ScriptedModel(good("tool"))).call("?", output=Weather)
    assert Msg.from_json(reply.to_json()).structured(Weather) == Weather(**ROME)


@virtual
async def test_runs_that_overlap_in_one_memory_keep_apart():
    scripted = ScriptedModel([Delay(1), bad("tool")], [Delay(3), bad("tool")], [Delay(1), good("tool")], good("tool"))
    friday = agent(scripted, check_running=False)
    one = friday.call("one", output=Weather).as_task()
    await asyncio.sleep(0.5)
    other = friday.call("other", output=Weather).as_task()
    assert [(await each).structured() for each in (one, other)] == [ROME, ROME]
    assert_no_trace(friday)
    assert sorted(message.role for message in remembered(friday)) == ["assistant", "assistant", "user", "user"]


@virtual
async def test_a_shutdown_leaves_no_response_pending():
    """Cut off while a sibling runs: what is pending is the sibling's, and the response is asked for again."""
    friday = agent(ScriptedModel([call("slow", seconds=5), good("tool")], good("tool")))
    friday.toolkit.parallel = False
    running = friday.call("go", output=Weather).as_task()
    await asyncio.sleep(1)
    for run in friday.runs:
        run.interruption.request(None, InterruptSource.SYSTEM, Cut.SHUTDOWN)
    with pytest.raises(AgentShuttingDownError):
        await running
    await friday.idle()
    names = [c.name for message in remembered(friday) for c in message.tool_calls]
    assert names == ["slow"]
    assert not friday.conversation().pending or len(friday.conversation().pending) == 1
    assert (await friday.call(output=Weather)).structured() == ROME
    assert_no_trace(friday)


@virtual
async def test_a_validator_that_breaks_is_a_problem_of_the_answer():
    class Strange(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str) -> str:
            return {"Ann": "Ann"}[name]

    for mode, turns in {
        "tool": [call("generate_response", name="Bob"), call("generate_response", name="Ann")],
        "native": ['{"name": "Bob"}', '{"name": "Ann"}'],
    }.items():
        scripted = model(*turns)
        reply = await agent(scripted).call("?", output=StructuredOutput(Strange, mode=mode))  # pyright: ignore
        assert reply.structured(Strange).name == "Ann"
        told = scripted.requests[1].messages[-1]
        assert "KeyError: 'Bob'" in (told.text or told.tool_results[0].text)


@virtual
async def test_a_stream_of_the_value_alone():
    shown = StreamOptions(kinds=OutputChunkEvent, incremental=False)
    parts = ['{"city": ', '"Rome", "degrees"', ": 21}"]
    events = await events_of(agent(model(parts)), "?", shown, output=asked("native"))
    assert types(events) == ["output_chunk"] * 3
    again = [event_from_json(event.to_json()) for event in events]
    assert [event.value for event in again if isinstance(event, OutputChunkEvent)] == [{}, {"city": "Rome"}, ROME]
