"""The ids of the calls in a conversation: all are known, little is looked at twice, and what is gone is forgotten."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, tool
from agentscope_rx.agent.call_ids import CallIds
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.messages.history import History
from agentscope_rx.testing import ScriptedModel, run_virtual

changes = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 90)),
    st.tuples(st.just("take out"), st.integers(0, 200), st.integers(1, 90)),
    st.tuples(st.just("take out last"), st.integers(1, 4)),
    st.tuples(st.just("put back")),
    st.tuples(st.just("look")),
)


def said(number: int) -> Msg:
    return Msg.assistant(ToolUseBlock(f"c{number}", "f") if number % 2 else "words", "Friday")


@given(st.lists(changes, max_size=12))
def test_every_call_of_the_history_is_known(steps: list[Any]) -> None:
    ids, messages, numbers = CallIds(), list[Msg](), count()
    first: list[Msg] = []
    for step in [*steps, ("look",)]:
        match step:
            case ("add", some):
                messages += [said(next(numbers)) for _ in range(some)]
            case ("put back",):
                # another state is loaded: the one that was there before
                first, messages = messages, list(first)
            case ("take out", where, some):
                del messages[where : where + some]
            case ("take out last", some):
                del messages[-some:]
            case _:
                known = ids.known(History(list(messages)))
                there = {call.id for message in messages for call in message.tool_calls}
                assert there <= set(known)
                assert len(known) <= 2 * len(messages) + 1000 + 90 * 12


class Seen(History):
    """Counts the messages that are looked at."""

    looked = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        Seen.looked += len(found) if isinstance(index, slice) else 1
        return found


def test_what_was_looked_at_is_not_looked_at_again() -> None:
    ids, messages = CallIds(), [said(n) for n in range(10_000)]
    ids.known(Seen(messages))
    for number in range(100):
        Seen.looked = 0
        # traces of an output leave a history at its end, and others follow
        messages = [*messages[:-3], *(said(20_000 + 5 * number + n) for n in range(5))]
        ids.known(Seen(messages))
        assert Seen.looked <= 20


def test_a_history_that_is_cut_off_again_and_again_is_forgotten() -> None:
    ids = CallIds()
    for start in range(0, 100_000, 50):
        ids.known(History([said(n) for n in range(start, start + 60)]))
    assert len(ids.known(History([said(1)]))) < 2000


def test_ids_that_a_loaded_history_has_are_not_given_again() -> None:
    @tool
    async def f() -> str:
        """Runs."""
        return "ran"

    async def main() -> None:
        memory = InMemoryMemory()
        again = [ToolUseBlock("call_0", "f")]
        one = ReActAgent("Friday", ScriptedModel(again, "done"), tools=[f], memory=memory)
        await one.call("go")
        other = ReActAgent("Friday", ScriptedModel(again, "done"), tools=[f], memory=memory)
        await other.call("go")
        ids = [call.id for message in memory.messages for call in message.tool_calls]
        assert ids[0] == "call_0" and len(set(ids)) == 2

    run_virtual(main())


def test_a_conversation_that_is_loaded_again_is_read_again() -> None:
    ids = CallIds()
    first, second = [said(n) for n in range(40)], [said(n) for n in range(100, 103)]
    for history in (first, [], first, [], second):
        ids.known(History(history))
    known = ids.known(History(first))
    assert {call.id for message in first for call in message.tool_calls} <= set(known)


def test_overlapping_runs_do_not_share_an_id_not_yet_in_history() -> None:
    ids, read = CallIds(), History([said(1)])
    assert not ids.claim("c1", read, "one")
    assert ids.claim("call_0", read, "one") and not ids.claim("call_0", read, "two")
    # (an attempt that failed is made again)
    assert ids.claim("call_0", read, "one")
    ids.release("one", ["two"])
    assert not ids.claim("call_0", read, "two"), "what this run has read does not have it"
    assert ids.claim("call_1", read, "two")
    ids.release("two", [])
    assert ids.claim("call_0", read, "three") and ids.claim("call_1", read, "three")
    ids.release("three", [])
