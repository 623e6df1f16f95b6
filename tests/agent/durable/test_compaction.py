"""A run that compacts, and is killed at any moment, goes on in another process."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx import Msg, ReActAgent, tool
from agentscope_rx.memory.short_forms import has_short_forms
from agentscope_rx.messages import COMPRESSED
from agentscope_rx.reactive import Flow, concat_map, defer, just
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.compacting import SUMMARY, Compacts, summarized, with_short_results
from tests.agent.durable.crashes import NotingMemory, World, at_every_moment
from tests.agent.durable.test_every_moment import acting, model, use


@tool
async def act(name: str) -> str:
    """Have an effect."""
    return f"did {name}"


class NotingReplacements(NotingMemory):
    """Notes the moments before and after a compaction, too."""

    def replace_all(self, messages: Sequence[Msg]) -> Flow[int]:
        writing = super().replace_all(messages)

        def write() -> Flow[int]:
            self._world.note("before a compaction")
            return writing.pipe(concat_map(self._compacted))

        return defer(write)

    def _compacted(self, number: int) -> Flow[int]:
        self._world.note("after a compaction")
        return just(number)


def test_short_forms_of_every_round():
    def script(text: str, results: int) -> object:
        return use(f"{text}{results}", f"{text}-{results}") if results < 3 else f"{text} is done."

    worlds: list[ReActAgent] = []

    def make(world: World) -> ReActAgent:
        agent = ReActAgent(
            "A",
            model(world, script),
            tools=acting(world),
            memory=NotingReplacements(world),
            hooks=[Compacts(with_short_results, above=2)],
        )
        worlds.append(agent)
        return agent

    assert run_virtual(at_every_moment(make, ["go"]))
    for agent in worlds:
        assert isinstance(agent.memory, NotingReplacements)
        results = [each for each in agent.memory.messages if each.tool_results]
        assert all("did" in each.tool_results[0].text or each.tool_results[0].is_error for each in results)
        assert not results or has_short_forms(results[0])


def test_a_lost_run_goes_on_with_its_compacted_conversation():
    """The checkpoint before the last round has the summary that the round before has made."""

    async def main() -> None:
        session = InMemorySession()
        compacts = Compacts(lambda request: summarized(request, 2), above=3)
        first = ReActAgent(
            "A",
            ScriptedModel(use("c1", "a"), use("c2", "b"), use("c3", "c"), "never"),
            tools=[act],
            hooks=[compacts],
        )
        await first.bind(session, "k", checkpoint="stage")
        async for event in first.stream("go"):
            if event.type == "pre_reasoning" and len(first.model.requests) == 3:
                # (as if the process had ended: what is stored now is what it leaves)
                left = InMemorySession()
                left._sessions = dict(session._sessions)
        again = ReActAgent("A", ScriptedModel("done"), tools=[act])
        await again.bind(left, "k", checkpoint="stage")
        await again.call()
        assert again.model.requests[0].messages[0].text == SUMMARY
        assert any(COMPRESSED in each.marks for each in again.memory.messages)

    run_virtual(main())
