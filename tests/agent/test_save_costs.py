"""The save of turn n costs the same at n = 10 and n = 10,000: Python calls and encoded items, counted."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, Sequence
from types import FrameType

import pytest

from agentscope_rx import InMemoryMemory, Msg
from agentscope_rx.memory import Memory
from agentscope_rx.reactive import Flow, concat_map
from agentscope_rx.session import ANY_VERSION, Expected, InMemorySession, Items, ListTail
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent


class Counting(InMemorySession):
    """Counts the items that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.items = 0

    def save_all(
        self,
        key: str,
        values: Mapping[str, object],
        lists: Mapping[str, Items] | None = None,
        *,
        expected: Expected = ANY_VERSION,
    ) -> Flow[str | None]:
        given = [each.items if isinstance(each, ListTail) else each for each in (lists or {}).values()]
        self.items += sum(len(items) for items in given)
        return super().save_all(key, values, lists, expected=expected)


class Anew(InMemoryMemory):
    """Makes its messages anew at each reading, as a memory in a database does."""

    def get(self) -> Flow[Sequence[Msg]]:
        return super().get().pipe(concat_map(lambda view: [Msg.from_dict(message.to_dict()) for message in view]))


def turns(length: int, count: int = 4) -> tuple[int, int]:
    """The Python calls and the saved items of some turns at the end of a conversation of this length."""
    calls = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def main() -> tuple[int, int]:
        store = Counting()
        first = agent(ScriptedModel("ok"))
        await first.memory.add([Msg.user(f"{n}") for n in range(length)])
        await first.save(store, "s")
        friday = agent(ScriptedModel("ok", repeat=True))
        await friday.bind(store, "s")
        for _ in range(2):
            await friday.call("go")
        store.items = 0
        # finalizers of other tests' objects are calls, too
        gc.collect()
        gc.disable()
        sys.setprofile(note)
        try:
            for _ in range(count):
                await friday.call("go")
        finally:
            sys.setprofile(None)
            gc.enable()
        return calls, store.items

    return run_virtual(main())


@pytest.mark.spec("W70")
def test_a_save_costs_the_same_however_long_it_is():
    turns(10)
    short, long = turns(10), turns(10_000)
    assert short == long
    # two messages and a checkpoint for each turn
    assert long[1] == 4 * 3


@pytest.mark.parametrize("make", [InMemoryMemory, Anew])
@pytest.mark.parametrize(("change", "written"), [("replace", 2), ("delete", 1), ("clear", 0), ("none", 0)])
def test_a_change_is_saved_from_its_place_on(make: type[Memory], change: str, written: int):
    async def main() -> None:
        store = Counting()
        friday = agent(ScriptedModel("ok"), memory=make())
        messages = [Msg.user(f"{n}") for n in range(5)]
        await friday.memory.add(messages)
        await friday.save(store, "s")
        store.items = 0
        if change == "replace":
            await friday.memory.replace(messages[3].replace(content="other"))
        elif change == "delete":
            await friday.memory.delete([messages[3].id])
        elif change == "clear":
            await friday.memory.clear()
        await friday.save(store, "s")
        # besides the messages a checkpoint, if anything has changed
        assert store.items == written + (change != "none")
        other = agent(ScriptedModel("ok"))
        assert await other.load(store, "s")
        assert list(await other.memory.get()) == list(await friday.memory.get())

    run_virtual(main())
