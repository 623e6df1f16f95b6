"""The view of a conversation that grows is what `view_of` makes of it, at the cost of the new messages."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Msg, TextBlock
from agentscope_rx.memory import TokenWindow
from agentscope_rx.memory.growing_view import GrowingView
from agentscope_rx.memory.short_forms import has_short_forms, shortened
from agentscope_rx.memory.views import view_of
from agentscope_rx.messages import COMPRESSED, HIDDEN, TRANSIENT, History, ToolResultBlock, ToolUseBlock
from tests.memory.histories import marked_histories

SHORT = TextBlock("short")


@st.composite
def histories(draw: st.DrawFn) -> list[Msg]:
    """A conversation with marks, a summary and short forms."""
    messages = draw(marked_histories())
    for number in draw(st.lists(st.integers(0, len(messages) - 1), max_size=3)):
        messages[number] = shortened(messages[number], {0: SHORT})
    return messages


@given(messages=histories(), data=st.data())
def test_a_growing_view_equals_one_that_is_made_anew(messages: list[Msg], data: st.DataObject):
    memory, view = InMemoryMemory(), GrowingView()
    at = 0
    while at < len(messages):
        step = data.draw(st.integers(1, 4))
        memory.add(messages[at : at + step]).run()
        at += step
        if data.draw(st.integers(0, 4)) == 0:
            kept = memory.messages
            chosen = kept[data.draw(st.integers(0, len(kept) - 1))]
            mark = data.draw(st.sampled_from([HIDDEN, COMPRESSED, TRANSIENT]))
            memory.replace(chosen.unmarked(mark) if mark in chosen.marks else chosen.marked(mark)).run()
        if data.draw(st.integers(0, 2)) == 0:
            # as compactions do: the oldest messages, a few of them kept
            stop = data.draw(st.integers(1, len(memory)))
            kept = data.draw(st.sets(st.integers(0, stop - 1), max_size=2))
            if chosen := [each.id for number, each in enumerate(memory.messages[:stop]) if number not in kept]:
                memory.compress(chosen, f"the past until {stop}").run()
        now = memory.messages
        assert view.of(now) == view_of(now)
        assert view.of(now).messages is view.of(now).messages, "the same without a change"
        assert not any(has_short_forms(each) for each in view.of(now).messages)


def test_earlier_views_stay_as_they_are():
    memory, view = InMemoryMemory([Msg.user("a").marked(HIDDEN), Msg.user("b")]), GrowingView()
    first = view.of(memory.messages).messages
    memory.add([Msg.user("c")]).run()
    second = view.of(memory.messages).messages
    assert [[each.text for each in messages] for messages in (first, second)] == [["b"], ["b", "c"]]
    assert isinstance(first, History) and isinstance(second, History) and first.is_of(second)


def test_a_shorter_and_another_conversation_get_their_own_view():
    given = [Msg.user(letter).marked(*([HIDDEN] if letter == "a" else [])) for letter in "abc"]
    view = GrowingView()
    for messages in (History(given), History(given, 2), History(given[1:]), given):
        assert view.of(messages) == view_of(messages)


def calls_of(function: Callable[[History], object], history: History) -> int:
    """The number of calls that the function makes, those in C included."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # a collection would call what waits for the end of messages of other tests
    gc.disable()
    sys.setprofile(note)
    try:
        function(history)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("what", ["hidden", "summary", "short forms"])
def test_the_thousandth_round_costs_as_much_as_the_tenth(what: str):
    """A long conversation with marks is not looked through for each request."""
    first = Msg.user("question")
    marked = {
        "hidden": first.marked(HIDDEN),
        "summary": first.marked(COMPRESSED).replace(metadata={"memory_marks": [COMPRESSED], "memory_summary": "s"}),
        "short forms": shortened(first, {0: SHORT}),
    }[what]
    messages, view = [marked], GrowingView()
    costs: list[int] = []
    for number in range(1_000):
        call = ToolUseBlock(f"c{number}", "look", {})
        result = ToolResultBlock(call.id, "look", (TextBlock("x"),))
        answer = Msg.tool(result)
        messages += [Msg.assistant([call], "Friday"), answer if number % 10 else shortened(answer, {0: result})]
        history = History(messages, len(messages))
        costs.append(calls_of(view.of, history))
    assert costs[999] == costs[9] and costs[990] == costs[10]


def test_the_hundredth_compaction_costs_what_the_tenth_did():
    """In steps of the interpreter within the view: loops over the past would count, too."""
    memory, view = InMemoryMemory([Msg.user("question")]), GrowingView()
    costs: list[int] = []
    for number in range(100):
        for at in range(10):
            call = ToolUseBlock(f"c{number}-{at}", "look", {})
            result = ToolResultBlock(call.id, "look", (TextBlock("x"),))
            memory.add([Msg.assistant([call], "Friday"), Msg.tool(result)]).run()
        view.of(memory.messages)
        *rest, last = [
            each.replace(metadata={"memory_marks": [COMPRESSED]})
            for each in memory.messages[-min(len(memory) - 1, 25) : -4]
        ]
        carrier = last.replace(metadata={**last.metadata, "memory_summary": f"{number}"})
        memory.replace_all([*rest, carrier]).run()
        now = memory.messages
        costs.append(steps_of(view.of, now))
        assert view.of(now) == view_of(now)
    assert costs[99] == costs[9]


def steps_of(function: Callable[[History], object], history: History) -> int:
    """The number of steps of the interpreter that the function takes, those of comprehensions included."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return note

    before = sys.gettrace()
    gc.disable()
    sys.settrace(note)
    try:
        function(history)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_a_window_of_a_growing_view_costs_what_it_sends():
    messages, view, window = [Msg.user("note").marked(HIDDEN)], GrowingView(), TokenWindow(300)
    costs: list[int] = []
    for number in range(1_000):
        messages += [Msg.user(f"question {number:04}"), Msg.assistant(f"answer {number:04}", "Friday")]
        history = History(messages, len(messages))
        costs.append(calls_of(lambda given: window.of_view(view.of(given)), history))
        if number % 100 == 0:
            assert list(window.of_view(view.of(history))) == list(window.of(messages))
    assert max(costs[900:]) <= max(costs[100:200])
