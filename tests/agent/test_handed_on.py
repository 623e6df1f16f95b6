"""A summary whose carrier is removed at the end of a run goes to another message, and the events say so."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Hook, InMemoryMemory, Msg, fold
from agentscope_rx.errors import StructuredOutputError
from agentscope_rx.memory import SqlMemory
from agentscope_rx.messages import TRANSIENT
from agentscope_rx.messages.marks import summary_in
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.compacting import SUMMARY, Compacts, summarized
from tests.agent.parts import agent

WRONG = call("generate_response", number="none")
OUTPUT = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def assert_told(events, before, after):
    """The events amount to the memory, with its one summary."""
    assert list(fold(events).history) == list(after[len(before) :])
    new = {each.id: each for event in events if event.type == "memory" for each in event.replaced}
    assert [new.get(each.id, each) for each in before] == list(after[: len(before)])
    assert [summary_in(each.metadata) for each in after if summary_in(each.metadata)] == [SUMMARY]


@pytest.mark.parametrize("stored", ["in memory", "sql"])
@pytest.mark.parametrize("first", [0, 2])
def test_of_removed_attempts_at_an_output(stored, first, tmp_path):
    """The carrier is a result of the response tool; the heir is of this run, or of one before."""
    before = [Msg.user(f"old {number}") for number in range(first)]
    model = ScriptedModel(["I try.", call("weather", city="Paris")], WRONG, WRONG, WRONG, WRONG, repeat=True)
    compacts = Compacts(lambda request: summarized(request, 1), above=3 + first)

    async def main():
        memory = InMemoryMemory() if stored == "in memory" else SqlMemory(f"sqlite:///{tmp_path}/memory.db", "k")
        await memory.add(before)
        friday = agent(model, hooks=[compacts], memory=memory, max_iters=4)
        events = []

        async def run():
            async for event in friday.stream("hi", output=OUTPUT):
                events.append(event)

        with pytest.raises(StructuredOutputError):
            await run()
        assert any(event.removed for event in events if event.type == "memory")
        after = [each async for each in memory.read()]
        if isinstance(memory, SqlMemory):
            await memory.close()
        return events, after

    events, after = asyncio.run(main())
    assert_told(events, before, after)


def test_of_a_transient_message():
    given = [Msg.user("old"), Msg.user("for now").marked(TRANSIENT)]

    class All(Hook):
        def compact(self, request):
            return summarized(request, 1) if len(request.messages) == 3 else None

    friday = agent(ScriptedModel("done"), hooks=[All()], memory=InMemoryMemory(given))

    async def main():
        return [event async for event in friday.stream("hi")]

    events = run_virtual(main())
    after = list(friday.memory.messages)
    new = {each.id: each for event in events if event.type == "memory" for each in event.replaced}
    assert new[given[0].id] == after[0] and summary_in(after[0].metadata) == SUMMARY
    assert [each.text for each in after] == ["old", "hi", "done"]
