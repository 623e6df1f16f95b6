"""`fold` of a prefix is the state of the run at that moment; `RunFold` is the same, event by event."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.events import (
    ErrorEvent,
    Event,
    EventSource,
    Folded,
    MemoryEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
    RunFold,
    StreamOptions,
    SummaryChunkEvent,
    event_from_json,
    fold,
)
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.testing import run_virtual
from tests.agent.parts import remembered
from tests.events.runs import Scenario, friday_of, run_of, scenarios
from tests.events.values import events

RUN = EventSource("run", "Friday", ("run",))
SUB = EventSource("sub", "Researcher", ("run", "call", "sub"))
ASK = Msg.assistant([ToolUseBlock("a", "weather"), ToolUseBlock("b", "weather")], "Friday")


def open_in(messages) -> list[str]:
    """The ids of the calls without a result, by counting."""
    done = [result.id for message in messages for result in message.tool_results]
    return [call.id for message in messages for call in message.tool_calls if call.id not in done]


# --- the law ------------------------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(scenarios)
def test_every_prefix_is_the_state_of_the_run(scenario: Scenario):
    async def main() -> None:
        friday = friday_of(scenario)
        run, seen = RunFold(), list[Event]()
        spent, ahead = list[ChatUsage](), list[Msg]()

        def check(event: Event) -> None:
            seen.append(event)
            run.add(event)
            state = run.state
            assert state == fold(seen)
            if isinstance(event, (PostReasoningEvent, PostSummaryEvent)) and event.usage is not None:
                spent.append(event.usage)
            if isinstance(event, PostCallEvent):
                return
            assert state.usage == sum(spent, ChatUsage()) and state.message is None
            if not isinstance(event, PreCallEvent):
                # (PreCall announces the input, which is remembered next)
                memory = tuple(remembered(friday))
                assert state.history == memory[: len(state.history)]
                ahead.extend(memory[len(state.history) :])
                assert [call.id for call in state.open_calls] == open_in(memory)
            if event.depth == 0 and isinstance(event, ReasoningChunkEvent) and event.delta is not None:
                assert state.partial is not None and state.partial.id == event.message_id
                assert event.text in state.partial.text and state.partial.content

        result = await run_of(friday, scenario, seen=check)
        state = run.state
        assert state.history == tuple(remembered(friday)) and state.partial is None
        assert all(message is state.history[-1] for message in ahead), "only a reply is reported later, by PostCall"
        assert state.run_id == seen[0].run_id
        if isinstance(result, Exception):
            assert state.message is None and state.error is seen[-1]
            assert (state.error.error_type, state.error.error) == (type(result).__name__, result)
        else:
            assert state.message == result and state.error is None
            assert state.usage == seen[-1].usage and state.open_calls == ()

    run_virtual(main())


@settings(max_examples=60, deadline=None)
@given(scenarios, st.booleans())
def test_a_log_folds_as_the_run_at_every_prefix(scenario: Scenario, incremental: bool):
    seen: list[Event] = []
    friday = friday_of(scenario)
    stream = friday.stream("go", StreamOptions(incremental=incremental))
    run_virtual(run_of(friday, scenario, stream, seen.append))
    live, logged = RunFold(), RunFold()
    for event in seen:
        live.add(event)
        logged.add(event_from_json(event.to_json()))
        assert logged.state == live.state


@given(st.lists(events, max_size=8))
def test_any_events_fold_in_any_order(several: list[Event]):
    run = RunFold()
    for event in several:
        run.add(event)
    assert isinstance(run.state, Folded) and run.state == fold(several)


# --- open calls ---------------------------------------------------------------------------------------------------


def done(id: str) -> PostActingEvent:
    return PostActingEvent(tool_use=ToolUseBlock(id, "weather"), message=Msg.tool(ToolResultBlock(id, "weather", "x")))


def test_calls_are_open_until_their_results():
    run = [PreCallEvent(), PostReasoningEvent(message=ASK), PreActingEvent(tool_use=ASK.tool_calls[0]), done("b")]
    assert [call.id for call in fold(run[:2]).open_calls] == ["a", "b"]
    assert [call.id for call in fold(run).open_calls] == ["a"]
    assert fold([*run, done("a")]).open_calls == ()


def test_calls_that_an_earlier_run_has_left_are_open_too():
    old, lost = ToolUseBlock("old", "weather"), ToolUseBlock("lost", "weather")
    begin = PreCallEvent(pending=(old,), lost=(lost,))
    assert fold([begin]).open_calls == (lost, old)
    assert fold([begin, done("lost")]).open_calls == (old,)
    edited = old.with_input({"city": "Oslo"})
    approved = MemoryEvent(replaced=(Msg.assistant(edited),))
    assert fold([begin, done("lost"), approved]).open_calls == (edited,)
    # an answer in the input
    given_result = Msg.tool(ToolResultBlock("old", "weather", "sunny"))
    assert fold([begin.replace(input=(given_result,))]).open_calls == (lost,)


def test_calls_of_others_in_the_input_are_not_open():
    assert fold([PreCallEvent(input=(ASK,))]).open_calls == ()


# --- usage and sub-agents -----------------------------------------------------------------------------------------


def test_usage_includes_sub_agents_and_ends_as_the_whole_runs():
    answer = PostReasoningEvent(source=RUN, message=ASK, usage=ChatUsage(10, 1))
    inner = PostReasoningEvent(source=SUB, message=ASK, usage=ChatUsage(5, 2))
    other = PostReasoningEvent(source=EventSource("x", "X", ("y", "c", "x")), message=ASK, usage=ChatUsage(99, 99))
    run = [PreCallEvent(source=RUN), answer, inner, other]
    assert fold(run).usage == ChatUsage(15, 3) and len(fold(run).history) == 1
    # with the cost of an answer that no Post event has reported
    end = PostCallEvent(source=RUN, message=ASK, usage=ChatUsage(20, 4))
    assert fold([*run, end]).usage == ChatUsage(20, 4)
    assert fold([*run, end.replace(usage=None)]).usage == ChatUsage(15, 3)


def test_a_stream_that_was_joined_inside_a_sub_agent():
    answer = Msg.assistant("found", "Researcher")
    inner = [ReasoningChunkEvent(source=SUB, message_id="m"), PostReasoningEvent(source=SUB, message=answer)]
    assert fold(inner).run_id == "sub" and fold(inner).history == (answer,)
    outer = [PostReasoningEvent(source=RUN, message=ASK), PostCallEvent(source=SUB, message=answer)]
    joined = fold([*inner, *outer])
    assert (joined.run_id, joined.history, joined.message) == ("run", (ASK,), None)


# --- the message being written ------------------------------------------------------------------------------------


def pieces(*blocks, kind: type[ReasoningChunkEvent] | type[SummaryChunkEvent] = ReasoningChunkEvent) -> list[Event]:
    return [kind(source=RUN, message_id="m", delta=block, timestamp=1.0) for block in blocks]


def test_the_partial_message_is_what_has_come():
    image = ImageBlock(URLSource("https://example.org/x.png"))
    sound = AudioBlock(Base64Source("audio/pcm", "YWI="))
    seen = pieces(
        ThinkingBlock("h"), ThinkingBlock("m", "sig"), ThinkingBlock("more"), TextBlock("Hel"), TextBlock("lo"),
        ToolUseBlock("1", "weather", raw='{"ci'), sound, TextBlock("!"), ToolUseBlock("1", "", raw='ty": '), sound,
        image, TextBlock("after"), ToolUseBlock("2", "weather", {"city": "Rome"}),
    )  # fmt: skip
    partial = fold(seen).partial
    assert partial is not None and (partial.id, partial.name, partial.role) == ("m", "Friday", "assistant")
    assert partial.timestamp == "1970-01-01T00:00:01.000+00:00"
    assert partial.content == (
        ThinkingBlock("hm", "sig"), ThinkingBlock("more"), TextBlock("Hello!"),
        ToolUseBlock("1", "weather", raw='{"city": '), AudioBlock(Base64Source("audio/pcm", "YWJhYg==")),
        image, TextBlock("after"), ToolUseBlock("2", "weather", {"city": "Rome"}),
    )  # fmt: skip


def test_whole_blocks_are_not_joined():
    sound, address = AudioBlock(Base64Source("audio/pcm", "YWI=")), AudioBlock(URLSource("https://example.org/x.wav"))
    whole = ToolUseBlock("1", "weather", {"city": "Rome"})
    seen = pieces(sound, address, sound, ToolUseBlock("1", "weather", raw="{"), whole, whole)
    assert fold(seen).partial.content == (
        sound, address, sound, ToolUseBlock("1", "weather", raw="{"), whole, whole,
    )  # fmt: skip


def test_accumulated_content_replaces_the_block_so_far():
    seen = [
        ReasoningChunkEvent(source=RUN, message_id="m", snapshot=block)
        for block in (TextBlock("a"), TextBlock("ab"), ThinkingBlock("x"), ThinkingBlock("xy"), TextBlock("abc"))
    ]
    assert fold(seen).partial.content == (TextBlock("abc"), ThinkingBlock("xy"))


def test_a_partial_message_ends_with_its_answer_or_its_attempt():
    begin = [PreReasoningEvent(source=RUN), *pieces(TextBlock("a"))]
    assert fold(begin).partial.text == "a"
    whole = Msg.assistant("ab")
    ends = [
        PostReasoningEvent(source=RUN, message=whole),
        PostSummaryEvent(source=RUN, message=whole),
        PostCallEvent(source=RUN, message=whole),
        ErrorEvent(source=RUN, error_type="ValueError"),
        PreReasoningEvent(source=RUN, iteration=1),
        RetryEvent(source=RUN, discarded=True),
    ]
    assert all(fold([*begin, end]).partial is None for end in ends)
    for kept in (RetryEvent(source=RUN), RetryEvent(source=RUN, stage="tool", discarded=True), done("x")):
        assert fold([*begin, kept.replace(source=RUN)]).partial.text == "a"
    assert fold(pieces(TextBlock("s"), kind=SummaryChunkEvent)).partial.text == "s"


def test_a_run_that_failed_has_its_error():
    error = ErrorEvent.of(ValueError("no"), source=RUN)
    state = fold([PreCallEvent(source=RUN), error])
    assert state.error is error and state.message is None
    assert fold([PreCallEvent(source=RUN), ErrorEvent(source=SUB)]).error is None
