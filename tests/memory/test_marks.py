"""Marks of messages: kept by every memory, and obeyed by what a request sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Memory, Msg, MsgRole, TextBlock
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.memory import sent
from agentscope_rx.messages import COMPRESSED, HIDDEN, TRANSIENT, ToolResultBlock, ToolUseBlock, call_places
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import check_memory
from tests.memory.histories import histories, ids, marked_histories

A, B, C = (Msg.user(letter, "Ann").replace(id=letter) for letter in "abc")


def test_a_message_carries_any_number_of_marks():
    message = A.marked("hint", HIDDEN)
    assert A.marks == frozenset() and message.marks == {"hint", HIDDEN}
    assert message.marked("hint") is message and A.unmarked("hint") is A
    assert message.unmarked("hint", HIDDEN) == A
    assert message.id == A.id and Msg.from_json(message.to_json()) == message
    assert Msg.from_dict(message.to_dict()).marks == message.marks


def test_metadata_of_other_kinds_is_kept_beside_marks():
    message = A.replace(metadata={"key": 1}).marked("m")
    assert message.metadata["key"] == 1 and message.unmarked("m").metadata == {"key": 1}
    assert A.replace(metadata={"memory_marks": 5}).marks == frozenset()


@pytest.mark.parametrize("wrong", ["", 3, None, "\ud800"])
def test_a_mark_is_a_text(wrong):
    with pytest.raises(InvalidInputError, match="mark"):
        A.marked(wrong)


@pytest.mark.parametrize("wrong", ["", 3, ["hint"]])
def test_a_wrong_mark_is_told_where_messages_are_selected(wrong: Any):
    memory = InMemoryMemory()
    for select in (memory.get_memory, memory.delete_by_mark, memory.update_messages_mark):
        with pytest.raises(InvalidInputError, match="A mark is a text"):
            select(wrong)
    for option in ("mark", "exclude_mark"):
        with pytest.raises(InvalidInputError, match="A mark is a text"):
            memory.read(**{option: wrong})


def test_upstream_names_find_change_and_delete():
    memory = InMemoryMemory()
    memory.add([A, B], marks=["hint"]).run()
    memory.add([C]).run()
    assert ids(memory.get_memory("hint").run()) == ["a", "b"]
    assert ids(memory.get_memory(exclude_mark="hint").run()) == ["c"]
    assert memory.update_messages_mark("old", "hint", ["a", "c"]).run() == 1
    assert [message.marks for message in memory.messages] == [{"old"}, {"hint"}, frozenset()]
    assert memory.update_messages_mark("seen").run() == 3
    assert memory.delete_by_mark("old").run() == 1 and ids(memory.messages) == ["b", "c"]
    with pytest.raises(InvalidInputError, match="as a list"):
        memory.update_messages_mark("x", msg_ids="ab").run()
    with pytest.raises(InvalidInputError, match="as a list"):
        memory.add([A], marks="hint")


def test_a_change_of_marks_leaves_earlier_views_alone():
    memory = InMemoryMemory([A, B])
    view = memory.messages
    memory.update_messages_mark(HIDDEN).run()
    assert view == [A, B] and sent(memory.messages) == []


class Older(Memory):
    """A memory that was written before there were marks: the five methods only."""

    def __init__(self) -> None:
        self.inner = InMemoryMemory()

    def add(self, messages: Sequence[Msg]) -> Flow[None]:
        return self.inner.add(messages)

    def get(self) -> Flow[Sequence[Msg]]:
        return self.inner.get()

    def replace(self, message: Msg) -> Flow[bool]:
        return self.inner.replace(message)

    def delete(self, ids: Sequence[str]) -> Flow[int]:
        return self.inner.delete(ids)

    def clear(self) -> Flow[None]:
        return self.inner.clear()


def test_memories_of_five_methods_keep_all_laws():
    check_memory(Older)


def test_hidden_messages_are_kept_and_not_sent():
    assert sent([A, B.marked(HIDDEN), C]) == [A, C]
    plain = [A, B.marked("other")]
    assert sent(plain) is plain


def test_a_summary_takes_the_place_of_compressed_messages():
    memory = InMemoryMemory([A, B, C])
    assert memory.compress(["a", "b"], "They talked.").run() == 2
    view = sent(memory.messages)
    assert [message.text for message in view] == ["They talked.", "c"] and view[0].role is MsgRole.USER
    assert sent(memory.messages) == view, "the same message each time, for prompt caches"
    assert memory.compress(["a", "c"], "All of it.").run() == 1
    assert [message.text for message in sent(memory.messages)] == ["All of it."]
    assert memory.delete(["c"]).run() == 1
    assert memory.compressed_summary().run() == "All of it."
    memory.clear().run()
    assert memory.compressed_summary().run() == "" and not memory.marked


def test_compressed_messages_without_a_summary_are_sent():
    assert sent([A.marked(COMPRESSED), B]) == [A.marked(COMPRESSED), B]
    memory = InMemoryMemory([A, B])
    memory.compress(["a"], "S").run()
    memory.update_messages_mark(None, COMPRESSED).run()
    assert memory.messages == [A, B], "the summary goes with its message's mark"


def test_system_messages_stay_before_the_summary():
    memory = InMemoryMemory([Msg.system("rules"), A, B])
    memory.compress(["a"], "S").run()
    assert [message.text for message in sent(memory.messages)] == ["rules", "S", "b"]


@pytest.mark.parametrize("summary", ["", "  ", None])
def test_a_summary_is_a_text(summary):
    with pytest.raises(InvalidInputError, match="summary"):
        InMemoryMemory([A]).compress(["a"], summary).run()
    with pytest.raises(InvalidInputError, match="no message"):
        InMemoryMemory([A]).compress(["x"], "S").run()


def called(*names: str) -> Msg:
    return Msg.assistant([TextBlock("I look."), *(ToolUseBlock(name, "look", {}) for name in names)], "Friday")


def result(name: str) -> Msg:
    return Msg.tool(ToolResultBlock(name, "look", (TextBlock("sunny"),)))


@pytest.mark.parametrize("hidden", range(1, 4))
def test_a_call_and_its_results_are_hidden_together(hidden: int):
    messages = [A, called("1", "2"), result("1"), result("2"), B]
    messages[hidden] = messages[hidden].marked(HIDDEN)
    assert sent(messages) == [A, B]


@pytest.mark.parametrize("mark", [HIDDEN, COMPRESSED])
def test_a_call_that_waits_is_sent_whatever_its_mark(mark: str):
    messages = [A, called("1", "2").marked(mark), result("1").marked(mark)]
    assert sent(messages) == messages


def whole(view: Sequence[Msg], of: Sequence[Msg]) -> None:
    """Each call of the view has the results that it has in the conversation, and each result its call."""
    answered = {each.id for message in of for each in message.tool_results}
    calls = [each.id for message in view for each in message.tool_calls]
    results = [each.id for message in view for each in message.tool_results]
    assert [id for id in calls if id in answered and id not in results] == []
    assert len(call_places(view)) == len(results)


@given(marked_histories())
def test_no_mark_separates_a_call_from_its_result(messages: list[Msg]):
    view = sent(messages)
    whole(view, messages)
    opened = {each.id for message in messages for each in message.tool_calls} - {
        each.id for message in messages for each in message.tool_results
    }
    assert opened <= {each.id for message in view for each in message.tool_calls}
    for message in view:
        if HIDDEN in message.marks:
            assert {*message.tool_calls, *message.tool_results}, "only for the sake of a call that waits"


@given(histories(), st.data())
def test_a_compressed_conversation_round_trips(messages: list[Msg], data: st.DataObject):
    memory = InMemoryMemory(messages)
    chosen = data.draw(st.lists(st.sampled_from(ids(messages)), min_size=1, unique=True))
    memory.compress(chosen, "S").run()
    stored = [Msg.from_json(message.to_json()) for message in memory.messages]
    assert ids(stored) == ids(messages)
    assert sent(stored) == sent(memory.messages)
    assert memory.compressed_summary().run() == InMemoryMemory(stored).compressed_summary().run() == "S"
    assert memory.get_memory(TRANSIENT).run() == []
