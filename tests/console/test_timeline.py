"""Timelines of runs: every call once, within its run, with the tokens of `fold`; and of any events at all."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import Price
from agentscope_rx.console.timeline import Lane, Timeline, TimelineFold, timeline_of
from agentscope_rx.console.wording import clean
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreReasoningEvent,
    fold,
)
from agentscope_rx.testing import run_virtual
from tests.console.logs import busy_log, scenario_log
from tests.events.runs import Scenario, scenarios
from tests.events.values import events as any_event

NEAR = 1e-4


def lanes_of(timeline: Timeline, kind: str) -> list[Lane]:
    return [lane for lane in timeline.walk() if lane.kind == kind]


def check_sums(timeline: Timeline) -> None:
    totals = timeline.totals
    parts = totals.models + totals.tools + totals.waiting - totals.overlap + totals.other
    assert totals.elapsed == pytest.approx(parts, abs=NEAR)
    assert min(totals.models, totals.tools, totals.waiting, totals.overlap, totals.other) >= 0


def check_lanes(lanes: tuple[Lane, ...], around: Lane | None = None) -> None:
    """Each lane lies in the one around it; rounds and model calls follow each other."""
    for lane in lanes:
        assert lane.begin <= lane.last and (lane.end is None or lane.end == lane.last)
        assert (lane.end is None) == (lane.state == "open")
        assert 0 <= lane.waited <= lane.seconds + NEAR
        for mark in lane.marks:
            assert lane.begin <= mark.at <= lane.last + NEAR
        if around is not None and lane.kind != "job":
            assert around.begin <= lane.begin and lane.last <= around.last + NEAR
        check_lanes(lane.lanes, lane)
    for kind in ("round", "model"):
        same = [lane for lane in lanes if lane.kind == kind]
        for one, next_one in pairwise(same):
            assert one.end is not None and one.end <= next_one.begin


@settings(max_examples=40, deadline=None)
@given(scenarios)
def test_each_call_has_one_lane(scenario: Scenario):
    seen = run_virtual(scenario_log(scenario))
    timeline = timeline_of(seen)
    asked = sum(isinstance(event, PreReasoningEvent) for event in seen)
    assert len(lanes_of(timeline, "model")) == timeline.totals.model_calls == asked
    begun = Counter((event.path, event.tool_use.id) for event in seen if isinstance(event, PreActingEvent))
    ended = Counter((event.path, event.tool_use.id) for event in seen if isinstance(event, PostActingEvent))
    tools = lanes_of(timeline, "tool")
    assert len(tools) == timeline.totals.tool_calls == sum((begun | ended).values())
    assert Counter(lane.id for lane in tools) == Counter(id for _, id in (begun | ended).elements())
    assert len(lanes_of(timeline, "run")) == len({event.path for event in seen})
    assert timeline.events == len(seen) and timeline.omitted == timeline.clock_jumps == 0


@settings(max_examples=40, deadline=None)
@given(scenarios, st.data())
def test_any_prefix_of_a_run_has_a_timeline(scenario: Scenario, data: st.DataObject):
    seen = run_virtual(scenario_log(scenario))
    seen = seen[: data.draw(st.integers(0, len(seen)))]
    timeline = timeline_of(seen)
    check_lanes(timeline.lanes)
    check_sums(timeline)
    assert timeline.totals.usage == fold(seen).usage
    answered = [e for e in seen if isinstance(e, (PostReasoningEvent, PostSummaryEvent))]
    models = [lane for lane in lanes_of(timeline, "model") if lane.state != "open"]
    assert len(answered) <= len(models)


@settings(max_examples=25, deadline=None)
@given(scenarios, st.data())
def test_runs_in_turn_do_not_mix(scenario: Scenario, data: st.DataObject):
    one, other = run_virtual(scenario_log(scenario)), run_virtual(scenario_log(scenario))
    mixed: list[Event] = []
    queues = [list(one), list(other)]
    while queues[0] or queues[1]:
        which = data.draw(st.booleans()) if queues[0] and queues[1] else not queues[0]
        mixed.append(queues[which].pop(0))
    timeline = timeline_of(mixed)
    alone = {run[0].run_id: timeline_of(run, run=run[0].run_id) for run in (one, other)}
    assert {lane.id for lane in timeline.lanes} == set(alone)
    for lane in timeline.lanes:
        assert [(each.kind, each.name, each.state, each.seconds) for each in lane.walk()] == [
            (each.kind, each.name, each.state, each.seconds) for each in alone[lane.id].walk()
        ]
        assert timeline_of(mixed, run=lane.id).totals.usage == alone[lane.id].totals.usage
    check_sums(timeline)


@settings(max_examples=100, deadline=None)
@given(st.lists(any_event, max_size=12))
def test_any_events_in_any_order_have_a_timeline(seen: list[Event]):
    timeline = timeline_of(seen, prices={"m": Price(1, 2)})
    assert all(lane.begin <= lane.last for lane in timeline.walk())
    assert all(clean(text) == text for lane in timeline.walk() for text in (lane.name, lane.text, lane.error))
    assert timeline.totals.elapsed >= 0


def test_lanes_of_a_run_with_tools_and_a_sub_agent():
    (run,) = timeline_of(busy_log()).lanes
    first, second = run.lanes
    assert [(lane.kind, lane.name, lane.state) for lane in first.lanes] == [
        ("model", "scripted", "done"),
        ("tool", "weather", "done"),
        ("tool", "slow", "done"),
        ("tool", "slow", "done"),
        ("tool", "broken", "failed"),
        ("tool", "call_researcher", "done"),
    ]
    model, *_, failed, researcher = first.lanes
    assert (model.first_chunk, model.seconds) == (0.7, 1.1)
    assert failed.error == "ValueError: because" and failed.waited == 0.5
    (inner,) = researcher.lanes
    assert (inner.name, inner.usage, researcher.usage) == ("Researcher", inner.usage, inner.usage)
    (again,) = second.lanes
    assert again.attempts == 2 and again.waited == 0.5 and again.marks[0].text.endswith("broken pipe\\x1b[31m")


def test_totals_of_a_run_with_tools_and_a_sub_agent():
    seen = busy_log()
    timeline = timeline_of(seen, prices={"scripted": Price(1.0, 10.0)})
    totals = timeline.totals
    assert totals.elapsed == timeline.seconds == 4.2
    assert (totals.models, totals.tools, totals.waiting, totals.overlap) == (2.6, 2.1, 1.5, 2.0)
    assert totals.usage == fold(seen).usage
    assert totals.cost == pytest.approx((2362 * 1 + 140 * 10) / 1e6) and totals.unpriced == ()
    assert [(slow.kind, slow.seconds) for slow in totals.slowest][:2] == [("model", 1.2), ("model", 1.1)]


def test_a_model_without_a_price_is_named():
    totals = timeline_of(busy_log(), prices={"other": Price(1.0, 1.0)}).totals
    assert (totals.cost, totals.unpriced) == (0.0, ("scripted",))
    with pytest.raises(ConfigurationError, match="must be Price"):
        TimelineFold(prices={"m": 3.0})  # type: ignore[dict-item]


def test_what_is_no_list_of_events_is_refused():
    from agentscope_rx.reactive import empty

    for wrong, text in ((empty(), "not a stream"), (3, "not 3"), ([3], "not 3")):
        with pytest.raises(InvalidInputError, match=text):
            timeline_of(wrong)  # type: ignore[arg-type]
