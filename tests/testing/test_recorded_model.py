"""`RecordedModel`: the same agent with the recorded answers gives the same run; what differs is named."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import ExecutionConfig, StreamOptions, hook
from agentscope_rx.errors import (
    BadRequestError,
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    UnsupportedOptionError,
)
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    Event,
    EventSource,
    Folded,
    PostReasoningEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
    event_from_json,
    fold,
    record,
)
from agentscope_rx.messages import (
    AudioBlock,
    ChatUsage,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.response import AudioDelta, ChatResponse, FinishReason, RetryNotice, ToolUseDelta, WaitNotice
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import (
    HANG,
    Delay,
    RecordedError,
    RecordedMismatchError,
    RecordedModel,
    ScriptedModel,
    call,
    run_virtual,
    verify,
)
from agentscope_rx.testing.recorded_answers import recorded_error
from tests.agent.parts import agent, events_of, remembered
from tests.events.runs import Scenario, friday_of, run_of, stream_of, uninterrupted


def shape(value: Any) -> Any:
    """A message without its id and time; of a call or a result without the ids of runs in its metadata."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [shape(each) for each in value]
    if isinstance(value, Msg):
        # (each run makes its own ids of conversations)
        content = CONVERSATION.sub("conversation_id: ", repr([_bare(block) for block in value.content]))
        return value.role, value.name, content, value.generate_reason, value.usage
    return value


def _bare(block: Any) -> Any:
    return block.replace(metadata={}) if isinstance(block, ToolResultBlock) else block


CONVERSATION = re.compile(r"conversation_id: \w+")


def state_of(folded: Folded) -> Any:
    error = folded.error and (folded.error.error_type, folded.error.error_text)
    return shape(folded.message), shape(folded.history), folded.usage, folded.open_calls, error


def events_shape(events: list[Event]) -> list[Any]:
    """The events without ids and times."""
    unsaid = {"run_id", "path", "timestamp", "message_id", "message", "delay", "queued", "elapsed", "input", "hints"}
    unsaid |= {"system_message", "replaced", "removed", "added", "chunk"}
    return [{k: v for k, v in event.to_dict().items() if k not in unsaid} for event in events]


def without_chunks(events: list[Event]) -> list[Any]:
    """Texts that a provider has interleaved are played one after the other, and answers come without their delays.

    So chunks may be others, and sub-agents' events stand at other places among them.
    """
    kept = [event for event in events if not isinstance(event, (ChunkEvent, ActingChunkEvent)) and not event.depth]
    return [{k: v for k, v in each.items() if k != "seq"} for each in events_shape(kept)]


# --- the law ------------------------------------------------------------------------------------------------------


def researcher_of(log: Path | list[Event], events: list[Event]) -> ScriptedModel:
    """The model of the sub-agent; an empty one for a run that has not called it."""
    called = any(event.agent == "Researcher" for event in events)
    return RecordedModel(log, agent="Researcher") if called else ScriptedModel()


@settings(max_examples=120, deadline=None)
@given(uninterrupted, st.booleans())
def test_a_recorded_run_is_played_again(scenario: Scenario, from_file: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        first, seen = friday_of(scenario), list[Event]()
        result = run_virtual(run_of(first, scenario, record(stream_of(first, scenario), path), seen.append))
        log = path if from_file else seen
        model, inner = RecordedModel(log), researcher_of(log, seen)
        again, replayed = friday_of(scenario, model, inner), list[Event]()
        other = run_virtual(run_of(again, scenario, seen=replayed.append))
    model.assert_complete()
    inner.assert_complete()
    assert state_of(fold(replayed)) == state_of(fold(seen))
    assert without_chunks(replayed) == without_chunks(seen)
    assert shape(remembered(again)) == shape(remembered(first))
    assert (type(other) is type(result) and shape(other) == shape(result)) or str(other) == str(result)


@settings(max_examples=50, deadline=None)
@given(uninterrupted, st.sampled_from(["accumulated", "answers", "bare"]))
def test_a_log_that_does_not_show_all_will_do(scenario: Scenario, shown: str):
    """The messages are the same without the deltas of chunks."""
    options = {
        "accumulated": StreamOptions(incremental=False),
        "answers": StreamOptions(),
        "bare": StreamOptions(),
    }[shown]
    first, seen = friday_of(scenario), list[Event]()
    run_virtual(run_of(first, scenario, first.stream("go", options), seen.append))
    log = [event for event in seen if shown != "bare" or not isinstance(event, ReasoningChunkEvent)]
    again, replayed = friday_of(scenario, RecordedModel(log), researcher_of(log, log)), list[Event]()
    run_virtual(run_of(again, scenario, again.stream("go"), replayed.append))
    assert state_of(fold(replayed)) == state_of(fold(seen))


def test_a_conversation_with_a_sub_agent_is_continued():
    """The id of the conversation is in the log, and another in the run that plays it."""

    class Continuing(ScriptedModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
            if len(self.requests) == 1:
                id = messages[-1].tool_results[0].metadata["conversation_id"]
                go_on = call("call_researcher", "c2", message="and then?", conversation_id=id)
                self.turns = (self.turns[0], (f"In {id} ", go_on), *self.turns[2:])
            return super().do_stream(messages, tools, options)

    scenario = Scenario([], ["found", "found more"], parallel=True, structured=False, hinted=False, interrupt_at=None)
    first = friday_of(scenario, Continuing(call("call_researcher", "c1", message="find"), "unused", "done"))
    seen = run_virtual(events_of(first, "go"))
    model, inner = RecordedModel(seen), RecordedModel(seen, agent="Researcher")
    again = friday_of(scenario, model, inner)
    replayed = run_virtual(events_of(again, "go"))
    model.assert_complete()
    inner.assert_complete()
    results = [result.text for message in remembered(again) for result in message.tool_results]
    assert len(results) == 2 and "found more" in results[1] and len(fold(replayed).history) == len(fold(seen).history)


def test_parallel_runs_of_a_sub_agent_get_their_own_answers():
    """The first researcher took longer; without delays it asks first again."""
    both = [call("call_researcher", "c1", message="slowly"), call("call_researcher", "c2", message="quickly")]

    def answer(request: Any) -> Any:
        asked = next(message.text for message in request.messages if message.role == "user")
        if request.messages[-1].role == "tool":
            return f"{asked} done"
        return [Delay(9 if asked == "slowly" else 1), call("weather", city=asked)]

    scenario = Scenario([], [], parallel=True, structured=False, hinted=False, interrupt_at=None)
    inner = ScriptedModel(answer, repeat=True)
    seen = run_virtual(events_of(friday_of(scenario, ScriptedModel(both, "done"), inner), "go"))
    asked = [request.messages[0].text for request in inner.requests]
    assert asked == ["slowly", "quickly", "quickly", "slowly"]
    model, recorded_inner = RecordedModel(seen), RecordedModel(seen, agent="Researcher")
    again = friday_of(scenario, model, recorded_inner)
    run_virtual(events_of(again, "go"))
    model.assert_complete()
    recorded_inner.assert_complete()
    results = [result.text for message in remembered(again) for result in message.tool_results]
    assert "slowly done" in results[0] and "quickly done" in results[1]


def test_runs_one_after_the_other_are_played_in_their_order(tmp_path: Path):
    path = tmp_path / "runs.jsonl"
    friday = agent(ScriptedModel("one", "two"))
    for question in ("first", "second"):
        run_virtual(record(friday.stream(question), path, mode="a"))
    with pytest.raises(RecordedMismatchError, match="'first'"):
        run_virtual(agent(RecordedModel(path)).call("second"))


def test_a_conversation_of_several_runs_in_one_file(tmp_path: Path):
    path = tmp_path / "runs.jsonl"

    async def talk(friday: Any, log: Path | None) -> list[Any]:
        for question in ("hi", "and you?"):
            stream = friday.stream(question)
            await (stream if log is None else record(stream, log, mode="a"))
        return shape(remembered(friday))

    script = [call("weather", "c1", city="Rome")], "sunny", ["fine ", "too"]
    first = run_virtual(talk(agent(ScriptedModel(*script)), path))
    model = RecordedModel(path)
    assert run_virtual(talk(agent(model), None)) == first and len(model.requests) == 3
    model.assert_complete()


# --- answers ------------------------------------------------------------------------------------------------------


class Fixed(ChatModel):
    """Gives these increments, whatever they are."""

    def __init__(self, *responses: ChatResponse) -> None:
        super().__init__("fixed")
        self.responses = responses

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        return just(*self.responses)


IMAGE = ImageBlock(URLSource("https://example.org/x.png"))
ANSWERS: dict[str, tuple[ChatResponse, ...]] = {
    "blocks by number": tuple(ChatResponse((TextBlock(text),), block=n) for text, n in [("a", 0), ("b", 0), ("c", 1)]),
    "a signed thought": (
        ChatResponse((ThinkingBlock("h"),)), ChatResponse((ThinkingBlock("m"),)),
        ChatResponse((ThinkingBlock("", "sig", {"redacted": True}),)), ChatResponse((TextBlock("ok"),)),
    ),
    "a call in pieces": (
        ChatResponse((ToolUseDelta(0, "c1", "weather", '{"ci', {"k": 1}),)),
        ChatResponse((ToolUseDelta(1, "c2", "weather", '{ "city": '),)),
        ChatResponse((ToolUseDelta(0, arguments='ty": "Rome"}'),)),
        ChatResponse((ToolUseDelta(1, arguments='"Oslo"}'),), finish_reason=FinishReason.TOOL_CALLS),
    ),
    "arguments that are no JSON": (ChatResponse((ToolUseDelta(0, "c1", "weather", '{"city": Rome}'),)),),
    "a whole call that could not be read": (
        ChatResponse((ToolUseBlock("c1", "weather", raw="{", input_error="unreadable"),)),
    ),
    "pictures and sound": (
        ChatResponse((TextBlock("see"),)), ChatResponse((IMAGE,)), ChatResponse((TextBlock("hear"),)),
        ChatResponse((AudioDelta("YWI=", "audio/wav"),)), ChatResponse((AudioDelta("Yw==", "audio/wav"),)),
        ChatResponse((AudioBlock(URLSource("https://example.org/x.wav")),)),
    ),
    "usage as it goes": (
        ChatResponse((TextBlock("a"),), usage=ChatUsage(5, 1)), ChatResponse(usage=ChatUsage(5, 2, 1, 1, 0.5)),
        ChatResponse(finish_reason=FinishReason.LENGTH),
    ),
    "an attempt that failed": (
        ChatResponse((TextBlock("fal"),), usage=ChatUsage(5, 1)),
        ChatResponse(retry=RetryNotice(1, 0.5, ModelConnectionError("broken pipe"), True, "other"), usage=ChatUsage(6)),
        ChatResponse((TextBlock("right"),), usage=ChatUsage(7, 2)),
    ),
    "a wait": (ChatResponse(wait=WaitNotice()), ChatResponse(wait=WaitNotice(2.5)), ChatResponse((TextBlock("a"),))),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("incremental", [True, False])
def test_an_answer_is_played_as_it_was(name: str, incremental: bool):
    def first_round(model: ChatModel) -> list[Event]:
        stream = agent(model).stream("hi", StreamOptions(incremental=incremental))
        return run_virtual(stream.pipe(ops.take_while(is_open, inclusive=True), ops.to_list()))

    def is_open(event: Event) -> bool:
        return not isinstance(event, PostReasoningEvent)

    seen = first_round(Fixed(*ANSWERS[name]))
    log = [event_from_json(event.to_json()) for event in seen]
    again = first_round(RecordedModel(log))
    assert events_shape(again) == events_shape(seen)
    one, other = seen[-1], again[-1]
    assert isinstance(one, PostReasoningEvent) and isinstance(other, PostReasoningEvent)
    assert shape(one.message) == shape(other.message) and one.queued == other.queued
    assert [each.raw_input for each in one.message.tool_calls] == [each.raw_input for each in other.message.tool_calls]


def test_a_message_that_hooks_have_rewritten_is_played():
    @hook(PostReasoningEvent)
    def redact(event: PostReasoningEvent) -> PostReasoningEvent:
        return event.replace(message=event.message.replace(content=event.message.text.replace("secret", "***")))

    seen = run_virtual(events_of(agent(ScriptedModel(["a ", "secret"]), hooks=[redact]), "hi"))
    model = RecordedModel(seen)
    assert run_virtual(agent(model).call("hi")).text == "a ***"
    model.assert_complete()


# --- failures and ends --------------------------------------------------------------------------------------------


def test_a_failure_is_raised_again(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    for error in (ModelConnectionError("broken pipe"), BadRequestError("no", status=400), ValueError("mine"), Own("x")):
        with pytest.raises(type(error)):
            run_virtual(record(agent(ScriptedModel(["a", error])).stream("hi"), path, mode="w"))
        model = RecordedModel(path)
        friday = agent(model)
        with pytest.raises(RecordedError if isinstance(error, Own) else type(error)) as caught:
            run_virtual(friday.call("hi"))
        assert str(caught.value) == str(error) and type(caught.value).__name__ == type(error).__name__
        model.assert_complete()


class Own(Exception):
    """An error that the library does not know."""


def test_errors_are_of_their_class_where_it_is_known():
    made = recorded_error("BadRequestError", "no such model")
    assert type(made) is BadRequestError and str(made) == "no such model" and made.status is None
    assert type(recorded_error("ConnectionError", "x")) is ConnectionError
    for unknown in ("UnicodeDecodeError", "annotations", "SystemExit", "", "int"):
        made = recorded_error(unknown, "text")
        assert isinstance(made, (RecordedError, ModelError)) and str(made) == "text"
        assert type(made).__name__ == (unknown or "RecordedError")


def test_a_refused_choice_of_a_tool_is_refused_again():
    class Refusing(ScriptedModel):
        def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
            if options.tool_choice is not None and not self.requests:
                self.requests.append(None)  # pyright: ignore
                raise UnsupportedOptionError("no tool_choice here", option="tool_choice")
            return super().do_stream(messages, tools, options)

    shape_of = {"type": "object", "properties": {"city": {"type": "string"}}}

    def ask(model: ChatModel) -> list[Event]:
        return run_virtual(events_of(agent(model, tools=()), "hi", output=shape_of))

    seen = ask(Refusing("unused", [call("generate_response", city="Rome")]))
    assert [event.type for event in seen].count("pre_reasoning") == 2
    model = RecordedModel(seen)
    assert events_shape(ask(model)) == events_shape(seen)
    model.assert_complete()


@pytest.mark.parametrize("way", ["interrupted", "interrupted in silence", "left"])
def test_an_answer_without_an_end_hangs(way: str):
    turn = [HANG] if way == "interrupted in silence" else ["so ", "far", HANG]

    async def interrupted(model: ChatModel, *, leave: bool = False) -> list[Event]:
        friday, seen = agent(model), list[Event]()
        if leave:
            subscription = friday.stream("hi").subscribe(seen.append)
            await _asleep(1)
            subscription.dispose()
        else:
            _later(1, friday.interrupt)
            await friday.stream("hi").pipe(ops.do_action(seen.append))
        await friday.idle()
        return seen

    seen = run_virtual(interrupted(ScriptedModel(turn), leave=way == "left"))
    again = run_virtual(interrupted(RecordedModel(seen), leave=way == "left"))
    assert events_shape(again) == events_shape(seen)
    verify(agent(RecordedModel(seen)).stream("hi")).expect_eventually(PreReasoningEvent).expect_count(
        0 if way == "interrupted in silence" else 2
    ).expect_no_event(for_=3600).then_dispose().run()


async def _asleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def _later(seconds: float, action: Any) -> None:
    asyncio.get_running_loop().call_later(seconds, action)


# --- the pace -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pace", "times"), [(None, [0, 0, 0]), (1.0, [1, 3, 7]), (2.0, [0.5, 1.5, 3.5])])
def test_answers_come_at_the_recorded_pace(pace: float | None, times: list[float]):
    place = EventSource("run", "Friday", ("run",))
    hi, said = Msg.user("hi"), Msg.assistant("abc", "Friday")
    system = Msg.system("You are Friday.")
    log = [
        PreCallEvent(source=place, input=(hi,)),
        PreReasoningEvent(source=place, timestamp=100.0, system_message=system),
        *(ReasoningChunkEvent(source=place, message_id=said.id, delta=TextBlock(text), timestamp=at)
          for text, at in [("a", 101.0), ("b", 103.0), ("c", 107.0)]),
        PostReasoningEvent(source=place, message=said, timestamp=107.0),
    ]  # fmt: skip
    chunks = agent(RecordedModel(log, pace=pace)).stream("hi").of_type(ReasoningChunkEvent)
    done = verify(chunks).expect_count(3).expect_completed().run()
    assert [signal.at for signal in done.signals[:3]] == pytest.approx(times)
    with pytest.raises(ConfigurationError, match="pace must be"):
        RecordedModel(log, pace=0)


def test_retries_are_played_and_none_are_added():
    twice = ExecutionConfig(max_attempts=2, initial_backoff=5)
    script = [Delay(1), ModelConnectionError("one")], [Delay(1), ModelConnectionError("two")]
    friday = agent(ScriptedModel(*script, execution_config=twice))
    seen: list[Event] = []
    with pytest.raises(ModelConnectionError, match="two"):
        run_virtual(friday.stream("hi").pipe(ops.do_action(seen.append)))
    model = RecordedModel(seen)
    again = agent(model, model_execution_config=twice)
    replayed: list[Event] = []
    with pytest.raises(ModelConnectionError, match="two"):
        run_virtual(again.stream("hi").pipe(ops.do_action(replayed.append)))
    assert [type(event) for event in replayed] == [type(event) for event in seen]
    assert sum(isinstance(event, RetryEvent) for event in replayed) == 1 and isinstance(replayed[-1], ErrorEvent)
    model.assert_complete()
