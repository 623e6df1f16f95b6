"""`coalesce_chunks`: text and thinking of one block merge, all else stays; what a slow reader sees is the same run."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import StreamOptions, hook
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    Event,
    EventSource,
    PostCallEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
    coalesce_chunks,
    event_from_json,
    fold,
)
from agentscope_rx.messages import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, URLSource
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.testing import Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of, remembered
from tests.events.values import EVENTS, events

RUN = EventSource("run", "Friday", ("run",))


def said(*blocks: Any, kind: type[ChunkEvent] = ReasoningChunkEvent) -> list[ChunkEvent]:
    """The events of these pieces of one message, numbered, as a run makes them."""
    gather = ResponseAccumulator()
    pieces = gather.feed(ChatResponse(tuple(TextBlock(b) if isinstance(b, str) else b for b in blocks)))
    return [
        kind(source=RUN, seq=n, timestamp=float(n), message_id="m", delta=delta, view=view, count=count)
        for n, (delta, view, count) in enumerate(pieces)
    ]


def merged(chunks: list[Any]) -> list[Any]:
    """What a consumer gets who is behind from the first to the last."""
    waiting = [chunks[0]]
    for chunk in chunks[1:]:
        both = coalesce_chunks(waiting[-1], chunk)
        waiting[-1:] = [waiting[-1], chunk] if both is None else [both]
    return waiting


def test_the_merged_event_is_the_later_one_with_the_joined_text() -> None:
    (event,) = merged(said("It ", "is ", "sunny."))
    assert (event.seq, event.timestamp, event.text, event.count) == (2, 2.0, "It is sunny.", 3)
    assert event.accumulated == TextBlock("It is sunny.")
    assert event_from_json(event.to_json()) == event


def test_thinking_merges_up_to_its_signature() -> None:
    (event,) = merged(said(ThinkingBlock("a", metadata={"x": 1}), ThinkingBlock("b", "sig", {"y": 2})))
    assert event.delta == ThinkingBlock("ab", "sig", {"x": 1, "y": 2}) == event.accumulated
    first, second = merged(said(ThinkingBlock("a", "sig"), ThinkingBlock("b")))
    assert (first.thinking, second.thinking) == ("a", "b")


def test_other_blocks_and_deltas_of_calls_keep_their_places() -> None:
    called = ToolUseDelta(0, "1", "t", "{"), ToolUseDelta(0, arguments="}")
    pieces = said("a", "b", ThinkingBlock("c"), "d", *called, "e")
    assert [e.text or e.thinking or "call" for e in merged(pieces)] == ["ab", "c", "d", "call", "call", "e"]


def test_two_texts_of_one_message_stay_two() -> None:
    a, _, b = said("a", ImageBlock(URLSource("https://example.org/x.png")), "b")
    assert coalesce_chunks(a, b) is None


def test_one_text_is_merged_behind_a_call() -> None:
    a, _, b = said("a", ToolUseDelta(0, "1", "t", "{}"), "b")
    merged = coalesce_chunks(a, b)
    assert isinstance(merged, ReasoningChunkEvent) and merged.text == "ab" == merged.accumulated.text


@pytest.mark.parametrize(
    "other",
    [
        {"message_id": "n"},
        {"source": EventSource("other", "Friday", ("run", "other"))},
        {"delta": ThinkingBlock("b")},
        {"delta": ToolUseBlock("1", "t", raw="b")},
        {"delta": None},
        {"view": None},
        {"snapshot": TextBlock("ab")},
    ],
)
def test_other_messages_runs_and_kinds_do_not_merge(other: dict[str, Any]) -> None:
    a, b = said("a", "b")
    assert coalesce_chunks(a, b) is not None
    assert coalesce_chunks(a, b.replace(**other)) is None
    summary = said("a", "b", kind=SummaryChunkEvent)
    assert coalesce_chunks(a, summary[1]) is None
    assert coalesce_chunks(*summary) is not None


def test_accumulated_content_the_later_one_says_it_all() -> None:
    accumulated: Any = [StreamOptions(incremental=False).shown(event) for event in said("a", "b", ThinkingBlock("c"))]
    assert [event.accumulated for event in merged(accumulated)] == [TextBlock("ab"), ThinkingBlock("c")]


def test_a_merged_piece_is_bounded() -> None:
    short = partial(coalesce_chunks, max_chars=3)
    a, b, c = said("ab", "c", "d")
    both = short(a, b)
    assert both is not None and short(both, c) is None
    a, b = said(ThinkingBlock("abc"), ThinkingBlock("d"))
    assert short(a, b) is None


@given(earlier=events, later=events)
def test_nothing_but_chunks_ever_merges(earlier: Event, later: Event) -> None:
    both = coalesce_chunks(earlier, later)
    assert both is None or (isinstance(earlier, ChunkEvent) and type(earlier) is type(later) is type(both))


def test_every_other_kind_waits_for_its_turn() -> None:
    for kind in EVENTS:
        if not issubclass(kind, ChunkEvent):
            assert coalesce_chunks(kind(), kind()) is None


LINES = st.lists(st.sampled_from(["a", "bc", Delay(1), Delay(5), ThinkingBlock("t")]), min_size=1, max_size=12)


@given(
    first=LINES,
    last=LINES,
    paces=st.lists(st.sampled_from([0, 0, 1, 7]), min_size=1, max_size=8),
    capacity=st.integers(1, 5),
)
def test_a_slow_reader_sees_the_same_run(first: Any, last: Any, paces: list[int], capacity: int) -> None:
    script = ([*first, call("count", upto=3)], [*last, "."])

    async def slowly() -> tuple[list[Event], Any]:
        friday = agent(ScriptedModel(*script))
        stream = friday.stream("hi").buffered(capacity, coalesce=coalesce_chunks)
        seen: list[Event] = []
        async for event in stream:
            seen.append(event)
            await asyncio.sleep(paces[len(seen) % len(paces)])
        assert [event.seq for event in seen] == sorted({event.seq for event in seen})
        assert seen[-1].seq == stream.statistics().received - 1
        assert fold(seen).history == tuple(remembered(friday))
        return seen, fold(seen).message

    quick = run_virtual(events_of(agent(ScriptedModel(*script)), "hi"))
    seen, reply = run_virtual(slowly())
    assert reply is not None and isinstance(seen[-1], PostCallEvent) and reply.text == fold(quick).message.text
    for read in (lambda e: e.text, lambda e: e.thinking):
        assert "".join(read(e) for e in seen if isinstance(e, ReasoningChunkEvent)) == "".join(
            read(e) for e in quick if isinstance(e, ReasoningChunkEvent)
        )
    controls = [e for e in quick if not isinstance(e, ReasoningChunkEvent)]
    assert [e.type for e in seen if not isinstance(e, ReasoningChunkEvent)] == [e.type for e in controls]
    assert sum(isinstance(e, ActingChunkEvent) for e in seen) == 4


def test_behind_a_chunk_hook_what_was_shown_merges() -> None:
    upper = hook(ReasoningChunkEvent)(lambda e: e.replace(delta=TextBlock(e.text.upper())))

    async def main() -> None:
        stream = agent(ScriptedModel(["a", "b", "c"]), hooks=[upper]).stream("hi").buffered(coalesce=coalesce_chunks)
        seen = []
        async for event in stream:
            await asyncio.sleep(1)
            if isinstance(event, ReasoningChunkEvent):
                seen.append((event.text, event.accumulated))
        assert "".join(text for text, _ in seen) == "ABC" and len(seen) < 3
        assert seen[-1][1] == TextBlock("ABC")

    run_virtual(main())
