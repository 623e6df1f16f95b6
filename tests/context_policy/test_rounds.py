"""Laws of rounds: every message that is sent is in one of them, and no call is separated from its result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.context_policy.rounds import last_rounds, open_ids, rounds_of, visible
from agentscope_rx.memory.views import groups, system_head
from tests.memory.histories import histories, marked_histories


@given(marked_histories())
def test_rounds_are_the_sent_messages_in_order(messages: list[Msg]) -> None:
    shown = visible(messages)
    assert [each for one in rounds_of(messages) for each in one.messages] == list(shown[system_head(shown) :])


@given(histories())
def test_no_round_splits_a_call_from_its_results(messages: list[Msg]) -> None:
    round_of = {each.id: at for at, one in enumerate(rounds_of(messages)) for each in one.messages}
    for group in groups(messages):
        assert len({round_of[messages[number].id] for number in group.members}) == 1


@given(histories(), st.integers(0, 10))
def test_the_last_rounds_have_so_many_answers(messages: list[Msg], number: int) -> None:
    rounds = rounds_of(messages)
    last = last_rounds(rounds, number)
    assert list(last) == rounds[len(rounds) - len(last) :]
    answers = sum(each.answers for each in last)
    assert answers == min(number, sum(each.answers for each in rounds))
    assert answers < number or not last or last[0].answers


@given(histories())
def test_open_calls_are_known_with_their_group(messages: list[Msg]) -> None:
    expected = {messages[number].id for group in groups(messages) if group.open for number in group.members}
    assert open_ids(messages) == expected
