"""Views of a conversation never change; which calls are open; how they are closed."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.messages import (
    History,
    Joined,
    Msg,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    closing_results,
    open_calls,
    results_first,
)

MESSAGES = [Msg.user(str(number)) for number in range(8)]

lengths = st.integers(0, 8)
slices = st.slices(8)


def view(length: int) -> History:
    """A view of the first messages of a longer list."""
    return History(list(MESSAGES), length)


def assert_like_a_list(sequence: Sequence[Msg], items: list[Msg], part: slice) -> None:
    assert len(sequence) == len(items) and list(sequence) == items
    assert list(reversed(sequence)) == items[::-1]
    assert sequence == items and sequence == tuple(items)
    assert sequence[part] == items[part]
    for index in range(-len(items) - 2, len(items) + 2):
        if -len(items) <= index < len(items):
            assert sequence[index] is items[index]
        else:
            with pytest.raises(IndexError):
                sequence[index]
    for message in MESSAGES:
        assert (message in sequence) == (message in items)


@given(lengths, slices)
def test_a_history_is_the_list_as_it_was(length: int, part: slice):
    assert_like_a_list(view(length), MESSAGES[:length], part)


@given(st.lists(lengths, max_size=4), slices)
def test_joined_parts_are_one_sequence(parts: list[int], part: slice):
    items = [message for length in parts for message in MESSAGES[:length]]
    assert_like_a_list(Joined(*(view(length) for length in parts)), items, part)


def test_a_view_does_not_change_while_its_owner_appends():
    owned = MESSAGES[:3]
    history = History(owned)
    joined = Joined((MESSAGES[7],), history)
    seen = []
    for message in history:
        seen.append(message)
        owned.append(MESSAGES[5])
    assert seen == MESSAGES[:3] == list(history) == history[:]
    assert list(joined) == [MESSAGES[7], *MESSAGES[:3]]
    assert history[-1] is MESSAGES[2] and joined[-1] is MESSAGES[2]
    assert len(History(owned)) == 6


def test_views_cost_nothing():
    class Watched(list):
        reads = 0

        def __getitem__(self, index):
            Watched.reads += 1
            return super().__getitem__(index)

        def __iter__(self):
            Watched.reads += len(self)
            return super().__iter__()

    owned = Watched(MESSAGES * 1000)
    history = History(owned)
    joined = Joined((MESSAGES[0],), history)
    assert len(joined) == 8001 and len(history) == 8000
    assert Watched.reads == 0
    assert joined[-1] is history[-1]
    assert Watched.reads == 2


def test_views_are_equal_by_value_and_not_hashable():
    assert view(3) == view(3) != view(2)
    assert Joined(view(1), view(0)) == view(1)
    assert view(0) == () and view(0) != ""
    for unhashable in (view(1), Joined()):
        with pytest.raises(TypeError):
            hash(unhashable)
    assert pickle.loads(pickle.dumps(view(3))) == view(3)
    assert repr(view(3)) == "History(3 messages)" and repr(Joined(view(3))) == "Joined(3 messages)"


# --- open calls --------------------------------------------------------------------------------------------------


def call(id: str) -> ToolUseBlock:
    return ToolUseBlock(id, "weather")


def asks(*ids: str, name: str = "Friday") -> Msg:
    return Msg.assistant([call(id) for id in ids], name)


def answers(*ids: str, name: str = "tool") -> Msg:
    return Msg.tool([ToolResultBlock.of(call(id), "sunny") for id in ids], name)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], []),
        ([Msg.user("hi")], []),
        ([asks("a", "b")], ["a", "b"]),
        ([asks("a", "b"), answers("b")], ["a"]),
        ([asks("a", "b"), answers("b"), answers("a")], []),
        ([asks("a", "b"), answers("a", "b")], []),
        ([asks("a"), Msg.user("and now?")], ["a"]),
        ([asks("a"), Msg.assistant("done", "Friday")], []),
        # peers are looked past: what they say, and what they call
        ([asks("a"), Msg.assistant("hello", "Peer")], ["a"]),
        ([asks("a"), asks("x", name="Peer")], ["a"]),
        ([asks("x", name="Peer")], []),
        # an id that a later turn uses again is answered by that turn's results only
        ([asks("call_0"), answers("call_0"), asks("call_0")], ["call_0"]),
        ([asks("call_0"), answers("call_0"), asks("call_0"), answers("call_0")], []),
        # a user called Friday does not speak for the agent
        ([asks("a"), Msg.user("hi", "Friday")], ["a"]),
    ],
)
def test_open_calls(history, expected):
    assert [call.id for call in open_calls(history, "Friday")] == expected
    assert [call.id for call in open_calls(History(history), "Friday")] == expected


def test_closing_results_are_one_for_each_and_machine_readable():
    calls = (call("a"), call("b"))
    results = closing_results(calls)
    assert [result.id for result in results] == ["a", "b"]
    assert {result.kind for result in results} == {ToolResultKind.INTERRUPTED}
    assert all(result.text.startswith("Error: ") for result in results)
    assert closing_results(iter(calls), ToolResultKind.FAILED)[0].kind is ToolResultKind.FAILED
    assert closing_results(calls, ToolResultKind.REJECTED, "no")[1].text == "Error: no"
    assert closing_results(calls, ToolResultKind.TIMEOUT)[0].text == "Error: timeout"
    assert closing_results(()) == ()
    assert open_calls([asks("a", "b"), Msg.tool(results)], "Friday") == ()


def _call(*ids: str) -> Msg:
    return Msg.assistant([ToolUseBlock(id, "t") for id in ids])


def _result(*ids: str) -> Msg:
    return Msg.tool([ToolResultBlock(id, "t") for id in ids])


def _said(messages) -> list[str]:
    return ["+".join([b.id if hasattr(b, "id") else b.text for b in m.content]) for m in messages]


def test_what_came_between_calls_and_results_comes_after_them():
    history = [Msg.user("hi"), _call("a", "b"), Msg.user("psst"), _result("a"), Msg.user("x"), _result("b"), _call("c")]
    assert _said(results_first(history)) == ["hi", "a+b", "a", "b", "psst", "x", "c"]
    overlapping = [_call("a"), _call("b"), _result("b"), _result("a")]
    assert _said(results_first(overlapping)) == ["a", "a", "b", "b"]


def test_calls_without_a_result_hold_nothing_up():
    history = [_call("a"), Msg.user("1"), _call("b"), _result("b"), Msg.user("2")]
    assert _said(results_first(history)) == _said(history)
    # nor keep others from being put in order
    history = [_call("a"), Msg.user("1"), _call("b"), Msg.user("2"), _result("b")]
    assert _said(results_first(history)) == ["a", "1", "b", "b", "2"]


@given(st.lists(st.sampled_from("abcu"), max_size=12))
def test_nothing_is_lost_and_a_clean_history_stays_as_it_is(kinds: list[str]):
    clean = [m for k in kinds for m in ([Msg.user(k)] if k == "u" else [_call(k), _result(k)])]
    assert list(results_first(clean)) == clean
    mixed = sorted(clean, key=lambda m: (bool(m.tool_results), 0))
    assert sorted(map(id, results_first(mixed))) == sorted(map(id, mixed))
