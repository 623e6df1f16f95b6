"""`TokenWindow`: the newest messages that fit, cut only where no call is separated from its results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg, MsgRole, TextBlock
from agentscope_rx.errors import ConfigurationError, PromptTooLongError
from agentscope_rx.memory import TokenWindow, sent
from agentscope_rx.memory.window import segments, window
from agentscope_rx.messages import HIDDEN, History, ToolResultBlock, ToolUseBlock, open_calls
from agentscope_rx.messages.marks import SUMMARY
from agentscope_rx.models.tokens import EstimatedTokens, TextCounter
from tests.memory.histories import histories, ids, marked_histories
from tests.memory.test_marks import called, result, whole

limits = st.integers(20, 600)


def counted(text: str) -> int:
    return len(text.split())


@given(marked_histories(), limits)
def test_a_window_keeps_its_laws(messages: list[Msg], limit: int):
    counter = TextCounter(counted)
    complete = sent(messages)
    try:
        view = window(messages, limit, counter)
    except PromptTooLongError:
        assert counter.count(complete) > limit
        return
    assert counter.count(view) <= limit, "fits"
    if counter.count(complete) <= limit:
        assert list(view) == list(complete), "all of it fits"
    whole([each for each in view if each.id in ids(messages)], messages)
    known = [each for each in complete if each in list(view)]
    assert ids(known) == ids(view), "in order, and nothing that would not be sent anyway"
    users = [each for each in complete if each.role is MsgRole.USER]
    if users:
        assert users[-1] in list(view), "the last user message"
    assert complete == [] or complete[-1] in list(view), "the newest"
    waiting = {call.id for call in open_calls(messages, "Friday")}
    assert waiting <= {call.id for each in view for call in each.tool_calls}, "calls that wait"
    body = [each for each in view if each.role is not MsgRole.SYSTEM]
    if body and body[0].role is not MsgRole.USER:
        before = [each.role for each in complete[: list(complete).index(body[0])]]
        assert MsgRole.USER not in before, "begins with a user's message"


@given(histories(), limits)
def test_a_call_that_waits_is_found_far_back(messages: list[Msg], limit: int):
    later = [Msg.user(f"news {n}", "Bob").replace(id=f"n{n}") for n in range(30)]
    waiting = {call.id for call in open_calls(messages, "Friday")}
    try:
        view = window([*messages, *later], limit, TextCounter(counted), pending=waiting)
    except PromptTooLongError:
        return
    assert waiting <= {call.id for each in view for call in each.tool_calls}
    whole(view, messages)


@given(histories())
def test_segments_are_legal_and_cover_everything(messages: list[Msg]):
    found = list(segments(messages))
    assert [n for each in reversed(found) for n in range(*each)] == list(range(len(messages)))
    for segment in found:
        whole(messages[segment.start :], messages[segment.start :])
        own = messages[segment.start : segment.stop]
        assert {r.id for m in own for r in m.tool_results} <= {c.id for m in own for c in m.tool_calls}


class Watched(Sequence[Msg]):
    """A conversation that notes which of its messages were looked at."""

    def __init__(self, messages: list[Msg]) -> None:
        self.messages = History(messages)
        self.seen: set[int] = set()

    def __len__(self) -> int:
        return len(self.messages)

    def __getitem__(self, index):
        found = range(len(self.messages))[index]
        self.seen.update([found] if isinstance(found, int) else found)
        return self.messages[index]


@pytest.mark.parametrize("turns", [100, 10_000])
def test_the_cost_is_that_of_the_window(turns: int):
    messages = [each for n in range(turns) for each in (Msg.user(f"q{n}"), Msg.assistant(f"a{n}", "Friday"))]
    counts: list[str] = []

    def count(text: str) -> int:
        counts.append(text)
        return 1

    watched, counter = Watched(messages), TextCounter(count)
    view = window(watched, 400, counter, marked=False)
    assert 40 <= len(view) <= 80
    assert len(watched.seen) <= 100 and len(counts) <= 200
    counts.clear()
    again = Watched([*messages, Msg.user("next")])
    window(again, 400, counter, marked=False)
    assert len(again.seen) <= 100 and counts == ["next"], "each message is counted once"


def test_the_same_cut_serves_several_turns():
    """Prompt caches hold as long as a request begins as the one before."""
    messages: list[Msg] = []
    begins = []
    for number in range(200):
        messages.append(Msg.user(f"question {number}"))
        begins.append(window(messages, 200, TextCounter(counted))[0].id)
        messages.append(Msg.assistant("an answer", "Friday"))
    assert len(set(begins)) <= 50, "four turns on average"


def test_the_last_question_stays_through_a_long_run():
    asked = Msg.user("the question")
    messages = [Msg.user("old"), asked]
    for number in range(50):
        messages += [called(f"c{number}"), result(f"c{number}")]
    view = window(messages, 300)
    assert view[0] is asked and len(view) < 30
    whole(view, messages)


def test_a_summary_stays_in_every_window():
    old = [Msg.user(f"old {n}").marked("compressed") for n in range(20)]
    old[-1] = old[-1].replace(metadata={**old[-1].metadata, SUMMARY: "the past"})
    new = [Msg.user(f"new {n}") for n in range(50)]
    view = window([*old, *new], 100, TextCounter(counted))
    assert view[0].text == "the past" and view[-1] is new[-1] and len(view) < 20


def test_a_hidden_question_is_not_the_last_question():
    messages = [Msg.user("seen"), *(Msg.assistant("w " * 30, "Friday") for _ in range(9)), Msg.user("x").marked(HIDDEN)]
    view = window(messages, 100, TextCounter(counted))
    assert view[0].text == "seen" and all(HIDDEN not in each.marks for each in view)


def test_an_orphan_result_hinders_no_cut():
    messages = [Msg.user("q"), result("gone"), *(Msg.assistant("w " * 30, "Friday") for _ in range(9))]
    view = window(messages, 100, TextCounter(counted))
    assert view[0] is messages[0] and view[-1] is messages[-1] and len(view) < 5


def test_what_must_be_sent_and_does_not_fit_is_an_error():
    with pytest.raises(PromptTooLongError) as caught:
        window([Msg.user("old"), Msg.user("word " * 500)], 100)
    assert caught.value.max_tokens == 100 and caught.value.tokens > 500


def test_another_counter_is_asked_once_for_each_message():
    class Counter:
        def __init__(self) -> None:
            self.asked = 0

        def count(self, messages: Sequence[Msg], tools: Sequence[object] = ()) -> int:
            self.asked += len(messages)
            return len(messages)

    counter = Counter()
    view = TokenWindow(5, counter)
    messages = [Msg.user(f"{n}") for n in range(20)]
    assert len(view.of(messages)) <= 5 and len(view.of(messages)) <= 5
    assert counter.asked <= 8


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"max_tokens": "9"}, {"max_tokens": 9, "keep": 1}])
def test_wrong_windows_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        TokenWindow(**wrong)
    with pytest.raises(ConfigurationError, match="counter"):
        TokenWindow(9, counter=len)  # type: ignore[arg-type]


def test_calls_in_one_message_with_thinking_count():
    message = Msg.assistant([TextBlock("a"), ToolUseBlock("1", "look", {})], "Friday")
    both = [Msg.user("q"), message, Msg.tool(ToolResultBlock("1", "look", (TextBlock("r"),)))]
    assert window(both, EstimatedTokens().count(both)) is both
    with pytest.raises(PromptTooLongError):
        window(both, EstimatedTokens().count(both) - 1)
