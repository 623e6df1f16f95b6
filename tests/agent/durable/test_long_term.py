"""Long-term memory across a crash: each call is recorded, notes are in no memory, and are retrieved for the round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.long_term_memory import LongTermMemory, MemoryScope, Note, NoteSource
from agentscope_rx.reactive import Flow, defer, just
from agentscope_rx.testing import run_virtual
from tests.agent.durable.crashes import NotingMemory, World, new_world, play, thinned
from tests.agent.durable.test_every_moment import acting, model, use


class Recorder(LongTermMemory):
    """Records are effects of the world, with the ids of their messages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queries: list[str] = []

    def record(
        self, messages: Sequence[Msg], *, scope: MemoryScope | None = None, source: NoteSource | None = None
    ) -> Flow[None]:
        def record() -> Flow[None]:
            assert source is not None and source.message_ids == tuple(message.id for message in messages)
            texts = "|".join(message.text for message in messages)
            self.world.effect(f"record {texts} {'+'.join(source.message_ids)}")
            return just(None)

        return defer(record)

    def retrieve(self, query: Any, limit: int = 5, *, scope: MemoryScope | None = None) -> Flow[tuple[Note, ...]]:
        self.queries.append(query)
        return just((Note(text="Ann has a cat.", id="n1"),))


def test_a_call_is_recorded_once_by_the_ids_of_its_messages():
    def script(text: str, results: int) -> object:
        return [use(f"{text}1", f"{text}-a")] if results == 0 else f"{text} is done."

    recorders: list[Recorder] = []

    def make(world: World) -> ReActAgent:
        recorders.append(Recorder(world))
        memory = NotingMemory(world)
        options: dict[str, Any] = {"long_term_memory": recorders[-1], "long_term_memory_mode": "static"}
        return ReActAgent("A", model(world, script), tools=acting(world), memory=memory, **options)

    async def main() -> None:
        world = new_world()
        expected = await play(world, make, ["one", "two"])
        assert recorders[-1].queries == ["one", "two"]
        for moment in thinned(world.moments, 3):
            resumed = new_world(moment.sessions, moment.effects)
            resumed.recording = False
            found = await play(resumed, make, ["one", "two"], [])
            assert found == expected, moment.where
            # as often as it may have been recorded, it has the same ids, by which a memory knows it
            records = {each for each in resumed.effects if each.startswith("record ")}
            assert sorted(each.split()[1] for each in records) == ["one|one", "two|two"], (moment.where, records)
            # (no second query for a round that had ended)
            assert set(recorders[-1].queries) <= {"one", "two"}

    run_virtual(main())
