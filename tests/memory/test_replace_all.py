"""`replace_all`: in one step where a memory can, else in an order in which each state between is legal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, Memory, Msg
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.memory import sent
from agentscope_rx.memory.changes import compressed
from agentscope_rx.memory.views import summary_carrier
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import check_memory
from tests.memory.histories import histories


class OneByOne(Memory):
    """The five methods only."""

    def __init__(self, messages: Sequence[Msg] = ()) -> None:
        self.inner = InMemoryMemory(messages)
        self.states: list[list[Msg]] = []

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        return self.inner.add(messages)

    def get(self) -> Flow[Sequence[Msg]]:
        return self.inner.get()

    def replace(self, message: Msg) -> Flow[bool]:
        done = self.inner.replace(message)

        def note(found: bool) -> bool:
            self.states.append(list(self.inner.messages))
            return found

        return done.pipe(ops.map(note))

    def delete(self, ids: Sequence[str]) -> Flow[int]:
        return self.inner.delete(ids)

    def clear(self) -> Flow[None]:
        return self.inner.clear()


def test_a_memory_of_five_methods_keeps_the_laws():
    check_memory(OneByOne)


@pytest.mark.parametrize("wrong", ["text", Msg.user("one"), [1]])
def test_anything_but_messages_is_refused(wrong: Any):
    for memory in (InMemoryMemory([Msg.user("a")]), OneByOne([Msg.user("a")])):
        with pytest.raises(InvalidInputError, match="memory"):
            memory.replace_all(wrong)


def test_every_message_of_an_id_is_replaced_at_once():
    again = Msg.user("go on")
    memory = InMemoryMemory([again, Msg.user("b"), again])
    before = memory.messages
    assert memory.replace_all([again.marked("m")]).run() == 2
    assert [bool(each.marks) for each in memory.messages] == [True, False, True]
    assert not any(each.marks for each in before), "views do not change"


@given(messages=histories(), data=st.data())
def test_in_between_nothing_is_left_out_that_no_summary_covers(messages: list[Msg], data: st.DataObject):
    """One summary, then another one that covers more: written message by message."""
    memory = OneByOne(messages)
    places = st.sets(st.integers(0, len(messages) - 1), min_size=1)
    covered: dict[str, set[str]] = {}
    for summary in ("first", "second"):
        known = list(memory.inner.messages)
        chosen = sorted(data.draw(places))
        changes = compressed(known, chosen, summary)
        covered[summary] = {each.id for each in known if COMPRESSED in each.marks} | {known[n].id for n in chosen}
        order = data.draw(st.permutations([new for _, new in changes]))
        assert memory.replace_all(order).run() == len(changes)
    for state in memory.states:
        carrier = summary_carrier(state)
        left_out = {each.id for each in state} - {each.id for each in sent(state)}
        if carrier is None:
            assert not left_out
        else:
            marked = {each.id for each in state if COMPRESSED in each.marks}
            assert marked <= covered[str(carrier.metadata["memory_summary"])]
