"""`fold`: what a run amounts to, from its events alone; `StreamOptions`: what a stream shows of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    EventSource,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    RetryEvent,
    RunFold,
    StreamOptions,
    fold,
)
from agentscope_rx.messages import (
    ChatUsage,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.models.accumulate import block_builder
from agentscope_rx.reactive import from_iterable
from tests.events.values import EVENTS, events

HI = Msg.user("hi")
ANSWER = Msg.assistant("hello")


def asks(*ids: str) -> Msg:
    return Msg.assistant([ToolUseBlock(id, "weather") for id in ids], "Friday")


def result(id: str, kind: ToolResultKind | None = None) -> PostActingEvent:
    block = ToolResultBlock(id, "weather", "sunny", kind)
    return PostActingEvent(tool_use=ToolUseBlock(id, "weather"), message=Msg.tool(block))


def begin(id: str) -> PreActingEvent:
    return PreActingEvent(tool_use=ToolUseBlock(id, "weather"))


def test_nothing_amounts_to_nothing():
    assert fold(()) == fold(iter(())) and fold(()).message is None and fold(()).history == ()


@pytest.mark.parametrize("wrong", [["x"], [None], "x", (HI,), 3, None])
def test_what_is_no_event_is_refused(wrong):
    with pytest.raises(InvalidInputError, match=r"takes (a list of )?events, not"):
        fold(wrong)


def test_a_stream_is_to_be_collected_first():
    with pytest.raises(InvalidInputError, match="Collect them first"):
        fold(from_iterable([PreCallEvent(input=(HI,))]))  # pyright: ignore


def test_a_fold_tells_how_far_it_is():
    run = RunFold()
    assert repr(run) == "<RunFold no event yet>"
    run.add(PreCallEvent(input=(HI,)))
    assert repr(run) == f"<RunFold run {run.state.run_id}, 1 messages>"
    run.add(PostCallEvent(message=ANSWER))
    assert repr(run).endswith("2 messages, ended>")


def test_a_plain_answer():
    folded = fold([PreCallEvent(input=(HI,)), PostReasoningEvent(message=ANSWER), PostCallEvent(message=ANSWER)])
    assert folded.message == ANSWER and folded.history == (HI, ANSWER)


def test_a_round_of_tools():
    ask, a, b = asks("a", "b"), result("a"), result("b")
    events = [
        PreCallEvent(input=(HI,)), PreReasoningEvent(), PostReasoningEvent(message=ask), begin("a"), begin("b"), a, b,
        PreReasoningEvent(iteration=1), PostReasoningEvent(message=ANSWER), PostCallEvent(message=ANSWER),
    ]  # fmt: skip
    assert fold(events).history == (HI, ask, a.message, b.message, ANSWER)


def test_a_reply_changed_in_post_call_replaces_its_original():
    changed = ANSWER.replace(content="hello, friend")
    events = [PreCallEvent(input=(HI,)), PostReasoningEvent(message=ANSWER), PostCallEvent(message=changed)]
    assert fold(events).history == (HI, changed) and fold(events).message == changed


def test_a_reply_that_is_new_is_added():
    # as after an interruption
    ask, other = asks("a"), Msg.assistant("interrupted")
    closed = result("a", ToolResultKind.INTERRUPTED)
    events = [
        PreCallEvent(input=(HI,)),
        PostReasoningEvent(message=ask, interrupted=True),
        closed,
        PostCallEvent(message=other),
    ]
    assert fold(events).history == (HI, ask, closed.message, other)


def test_messages_of_a_goto_follow_the_answer():
    again = Msg.user("think again")
    events = [
        PreCallEvent(input=(HI,)),
        PostReasoningEvent(message=ANSWER).goto_reasoning(again),
        PostReasoningEvent(message=(second := Msg.assistant("better"))),
        PostCallEvent(message=second),
    ]
    assert fold(events).history == (HI, ANSWER, again, second)


def test_calls_that_the_input_passes_by_are_closed_before_it():
    first, second = result("old1", ToolResultKind.INTERRUPTED), result("old2", ToolResultKind.INTERRUPTED)
    events = [
        PreCallEvent(input=(HI,), pending=(first.tool_use, second.tool_use), passes_by=True), first, second,
        PostReasoningEvent(message=(ask := asks("new"))), begin("new"), (done := result("new")),
        PostReasoningEvent(message=ANSWER), PostCallEvent(message=ANSWER),
    ]  # fmt: skip
    assert fold(events).history == (first.message, second.message, HI, ask, done.message, ANSWER)


def test_pending_calls_that_are_run_follow_the_input():
    given_result = Msg.tool(ToolResultBlock("p1", "weather", "sunny"))
    events = [PreCallEvent(input=(given_result,)), begin("p2"), (ran := result("p2")), PostCallEvent(message=ANSWER)]
    assert fold(events).history == (given_result, ran.message, ANSWER)


def test_calls_closed_by_a_failure_follow_earlier_results():
    # the hook of the first PreActing failed: no call began
    given_result = Msg.tool(ToolResultBlock("p1", "weather", "sunny"))
    closed = result("p2", ToolResultKind.FAILED)
    events = [PreCallEvent(input=(given_result,)), closed, ErrorEvent(error_type="HookError")]
    assert fold(events).history == (given_result, closed.message) and fold(events).message is None


def test_compactions_of_sub_agents_count_for_a_run_in_progress():
    outer, inner = EventSource("r", "a", ("r",)), EventSource("s", "b", ("r", "c", "s"))
    seen = [PreCallEvent(source=outer), ContextEvent(source=inner, usage=ChatUsage(5, 1))]
    assert fold(seen).usage == ChatUsage(5, 1)


def test_a_summary_is_the_reply():
    last = Msg.assistant("so far")
    events = [PreCallEvent(input=(HI,)), PreSummaryEvent(), PostSummaryEvent(message=last), PostCallEvent(message=last)]
    assert fold(events) == fold(events[:1] + events[2:])
    assert fold(events).history == (HI, last)


@given(st.lists(st.one_of(*(values for kind, values in EVENTS.items() if issubclass(kind, (ChunkEvent, RetryEvent))))))
def test_chunks_and_notices_are_only_a_preview(previews: list[Event]):
    run = [PreCallEvent(input=(HI,)), PostReasoningEvent(message=ANSWER), PostCallEvent(message=ANSWER)]
    assert fold([run[0], *previews, *run[1:]]) == fold(run)


@given(st.lists(events, max_size=6))
def test_what_was_written_folds_to_the_same(recorded: list[Event]):
    from agentscope_rx.events import event_from_json

    assert fold(event_from_json(event.to_json()) for event in recorded) == fold(recorded)


# --- decisions on events ------------------------------------------------------------------------------------------


def test_decisions_are_copies():
    event = PostReasoningEvent(message=ANSWER)
    assert event.stop().stop_requested and not event.stop_requested
    assert event.goto_reasoning("again").goto_messages[0].text == "again"
    assert event.goto_reasoning().goto_messages == () and event.goto_messages is None
    assert event.goto_reasoning([HI]).goto_messages == event.goto_reasoning(HI).goto_messages == (HI,)
    acted = result("a")
    assert acted.stop().stop_requested and not acted.stop_requested
    other = ToolResultBlock("a", "weather", "[redacted]")
    assert acted.with_result(other).result == other and acted.with_result(other).message.id == acted.message.id


@pytest.mark.spec("case 106")
def test_goto_needs_a_result_for_each_open_call():
    event = PostReasoningEvent(message=asks("a", "b"))
    with pytest.raises(InvalidInputError, match="'b'"):
        event.goto_reasoning([result("a").message])
    assert event.goto_reasoning([result("a").message, result("b").message, result("more").message])


def test_hints_and_system_text_are_for_a_copy():
    event = PreReasoningEvent()
    assert [hint.text for hint in event.with_hint("a").with_hint(HI).hints] == ["a", "hi"]
    once = event.append_system_content("Be brief.")
    twice = once.append_system_content("Be kind.")
    assert once.system_message.text == "Be brief." and twice.system_message.text == "Be brief.\nBe kind."
    assert twice.system_message.id == once.system_message.id
    assert event.hints == () and event.system_message is None


# --- what a stream shows ------------------------------------------------------------------------------------------


@given(events)
def test_without_a_choice_all_is_shown_as_it_is(event: Event):
    assert StreamOptions().shown(event) is event


@given(events)
def test_kinds_are_chosen_exactly(event: Event):
    options = StreamOptions(kinds=(ChunkEvent, PreReasoningEvent))
    wanted = (ChunkEvent, PreReasoningEvent)
    assert options.shown(event) is (event if isinstance(event, wanted) else None)


def test_accumulated_content_stands_in_place_of_the_piece():
    pieces = [TextBlock("Hel"), TextBlock("lo"), TextBlock("!")]
    view = block_builder(pieces[0])
    shown = [
        StreamOptions(incremental=False).shown(ReasoningChunkEvent(delta=piece, view=view, count=view.add(piece)))
        for piece in pieces
    ]
    assert [event.snapshot.text for event in shown] == ["Hel", "Hello", "Hello!"]
    assert all(event.delta is None for event in shown)
    assert [event.to_dict()["snapshot"]["text"] for event in shown] == ["Hel", "Hello", "Hello!"]
    thinking = StreamOptions(incremental=False).shown(ReasoningChunkEvent(delta=ThinkingBlock("hm")))
    assert thinking.snapshot == ThinkingBlock("hm")
    acting = ActingChunkEvent()
    assert StreamOptions(incremental=False).shown(acting) is acting


def test_one_class_or_a_list_of_classes_will_do():
    assert StreamOptions(ChunkEvent) == StreamOptions([ChunkEvent]) == StreamOptions((ChunkEvent,))


@pytest.mark.parametrize("kinds", ["reasoning", ("reasoning",), (TextBlock,), (ReasoningChunkEvent, None)])
def test_kinds_must_be_classes_of_events(kinds):
    with pytest.raises(ConfigurationError, match=r"StreamOptions\.kinds"):
        StreamOptions(kinds=kinds)
