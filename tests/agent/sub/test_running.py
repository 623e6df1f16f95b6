"""A sub-agent's run inside of a parent's: its events, its result, its conversations."""

from __future__ import annotations

from agentscope_rx import ReActAgent, fold
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import events_of, remembered, weather


def test_a_sub_agents_events_are_in_the_stream_under_their_path():
    """R23, §8.3: in order, before the result, numbered without gaps; each run folds to its own outcome."""

    async def main() -> None:
        researcher = ReActAgent(
            "Researcher", ScriptedModel(call("weather", city="Rome"), ["It is ", "sunny."]), tools=[weather]
        )
        ask = call("call_researcher", message="And the weather?")
        boss = ReActAgent("Boss", ScriptedModel(ask, "Good."), tools=[researcher.as_tool()])
        events = await events_of(boss, "go")
        assert [event.seq for event in events] == list(range(len(events)))
        assert fold(events).message == events[-1].message
        assert fold(events).history == tuple(remembered(boss))
        (child,) = boss.conversation().children.all
        inside = [event for event in events if event.depth]
        assert fold(inside).history == tuple(await child.memory.get())
        assert fold(inside).message.text == "It is sunny."
        run = events[0].run_id
        assert {event.path for event in inside} == {(run, ask.id, inside[0].run_id)}
        kinds = [event.type for event in events]
        assert kinds.index("post_acting", events.index(inside[-1])) > events.index(inside[-1])
        assert remembered(boss)[2].tool_results[0].text == f"conversation_id: {child.id}\n\nIt is sunny."

    run_virtual(main())
