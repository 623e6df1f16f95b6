"""The places of messages by id, in histories that grow and are edited, are those that a search finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Msg
from agentscope_rx.messages import History
from agentscope_rx.messages.history import numbers_of

steps = st.lists(
    st.tuples(st.sampled_from(["add", "replace", "replace all", "delete", "clear"]), st.sampled_from("abcd"))
)


@given(steps, st.sets(st.sampled_from("abcde")))
def test_numbers_are_those_of_a_search(done: list[tuple[str, str]], ids: set[str]):
    memory = InMemoryMemory()
    views: list[tuple[History, list[Msg]]] = []
    for at, (verb, letter) in enumerate(done):
        message = Msg.user(f"{at}").replace(id=letter)
        if verb == "add":
            memory.add([message, message]).run()
        elif verb == "replace":
            memory.replace(message).run()
        elif verb == "replace all":
            expected = [message if each.id == letter else each for each in memory.messages]
            assert memory.replace_all([message]).run() == sum(each.id == letter for each in memory.messages)
            assert memory.messages == expected
        elif verb == "delete":
            memory.delete([letter]).run()
        else:
            memory.clear().run()
        views.append((memory.messages, list(memory.messages)))
        # the latest one is asked first at some steps only, so that the places are also filled late
        for view, then in views[:: -1 if at % 3 else 1]:
            assert numbers_of(view, ids) == [n for n, each in enumerate(then) if each.id in ids]
            assert numbers_of(then, ids) == numbers_of(view, ids)
