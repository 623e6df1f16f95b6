"""`InMemoryMemory`: cold operations, views that do not change, safe from several threads."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Memory, Msg
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import TRANSIENT, History

A, B, C = (Msg.user(letter, "Ann").replace(id=letter) for letter in "abc")


def test_what_is_added_is_there_in_order():
    memory = InMemoryMemory([A])
    assert isinstance(memory, Memory)
    assert memory.add([B, C]).run() is None
    assert memory.messages == memory.get().run() == [A, B, C]
    assert len(memory) == 3
    assert memory.add([]).run() is None and len(memory) == 3


def test_replace_is_by_id_the_last_one_counts():
    memory = InMemoryMemory([A, B, A])
    changed = A.replace(content="changed")
    assert memory.replace(changed).run() is True
    assert memory.messages == [A, B, changed]
    assert memory.replace(C).run() is False
    assert memory.messages == [A, B, changed]


steps = st.lists(
    st.sampled_from(["add a", "add b", "add c", "replace a", "replace b", "delete a", "delete c", "clear"]), max_size=12
)


@given(steps)
def test_a_view_never_changes_whatever_is_done_later(done: list[str]):
    memory = InMemoryMemory([A, B])
    expected = [A, B]
    views: list[tuple[History, list[Msg]]] = []
    for step in done:
        views.append((memory.messages, list(expected)))
        verb, _, letter = step.partition(" ")
        message = Msg.user(f"{step} {len(views)}").replace(id=letter)
        if verb == "add":
            memory.add([message]).run()
            expected.append(message)
        elif verb == "replace":
            found = [index for index, kept in enumerate(expected) if kept.id == letter]
            assert memory.replace(message).run() is bool(found)
            if found:
                expected[found[-1]] = message
        elif verb == "delete":
            count = sum(kept.id == letter for kept in expected)
            assert memory.delete([letter]).run() == count
            expected = [kept for kept in expected if kept.id != letter]
        else:
            memory.clear().run()
            expected = []
        assert memory.messages == expected
    for view, then in views:
        assert view == then and list(view) == then


@pytest.mark.parametrize("wrong", [A, "hi", ["hi"], [None], [A, 3], [{"name": "u"}]])
def test_only_lists_of_messages_are_kept(wrong):
    memory = InMemoryMemory([A])
    with pytest.raises(InvalidInputError, match="Msg objects"):
        memory.add(wrong).run()
    assert memory.messages == [A], "all or none"
    with pytest.raises(InvalidInputError, match="Msg objects"):
        InMemoryMemory(wrong)


@pytest.mark.spec("case 134")
def test_threads_lose_nothing_and_readers_see_whole_additions():
    memory = InMemoryMemory()
    torn: list[int] = []
    done = threading.Event()

    def write(writer: int) -> None:
        for number in range(40):
            pair = [Msg.user(str(half), f"{writer}-{number}") for half in (1, 2)]
            memory.add(pair).run()
            if number % 10 == 0:
                memory.replace(pair[0].replace(content="1")).run()

    def read() -> None:
        while not done.is_set():
            view = memory.messages
            if len(view) % 2 or any(view[i].name != view[i + 1].name for i in range(0, len(view), 2)):
                torn.append(len(view))

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not torn
    assert len(memory) == 4 * 40 * 2
    for writer in range(4):
        own = [message.name for message in memory.messages if message.name.startswith(f"{writer}-")]
        assert own == [f"{writer}-{number}" for number in range(40) for _ in range(2)]


def test_no_marks_are_looked_for_once_they_are_gone():
    memory = InMemoryMemory([Msg.user("a")])
    memory.add([draft := Msg.user("draft")], [TRANSIENT]).run()
    memory.add([other := Msg.user("b")], ["own"]).run()
    assert memory.marked
    memory.delete([draft.id]).run()
    assert memory.marked, "one has a mark of its own"
    memory.delete([other.id]).run()
    assert not memory.marked
