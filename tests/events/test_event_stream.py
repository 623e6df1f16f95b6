"""`EventStream`: one kind of events, and the words alone."""

from __future__ import annotations

import pytest
from reactivex import operators as ops

from agentscope_rx import ReActAgent, StreamOptions, ToolSuspend, hook, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    Event,
    EventStream,
    PostActingEvent,
    PostCallEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, events_of


async def pieces(friday: ReActAgent, options: StreamOptions | None = None, **given) -> list[str]:
    return [piece async for piece in friday.stream("hi", options, **given).text()]


def test_a_stream_is_a_flow_and_piped_it_is_an_ordinary_one():
    stream = agent(ScriptedModel("a")).stream("hi")
    assert isinstance(stream, EventStream) and isinstance(stream, Flow)
    piped = stream.pipe(ops.map(lambda event: event.type))
    assert type(piped) is Flow and piped.run() == "post_call"


def test_events_of_one_kind_or_of_several():
    def friday():
        return agent(ScriptedModel(call("weather", city="Rome"), ["a", "b"]))

    chunks = run_virtual(friday().stream("hi").of_type(ReasoningChunkEvent).pipe(ops.to_list()))
    assert [chunk.text for chunk in chunks] == ["", "a", "b"]
    both = run_virtual(friday().stream("hi").of_type(PostActingEvent, PostCallEvent).pipe(ops.to_list()))
    assert [event.type for event in both] == ["post_acting", "post_call"]
    assert run_virtual(friday().stream("hi").of_type(ChunkEvent).pipe(ops.count())) == 3
    assert run_virtual(friday().stream("hi").of_type(SummaryChunkEvent).pipe(ops.count())) == 0
    for wrong in ("post_call", str, PostCallEvent()):
        with pytest.raises(ConfigurationError, match="of_type takes classes of events"):
            friday().stream("hi").of_type(wrong)  # pyright: ignore


def test_leaving_ends_the_run():
    async def main() -> None:
        friday = agent(ScriptedModel(["a", HANG]))
        async with friday.stream("hi").text() as words:
            assert await anext(words) == "a"
        assert not friday.running

    run_virtual(main())


@pytest.mark.parametrize("incremental", [True, False])
def test_the_pieces_are_the_text_of_the_reply(incremental: bool):
    turn = [ThinkingBlock("hm"), "The ", "answer ", "is 4."]
    friday = agent(ScriptedModel(turn))
    found = run_virtual(pieces(friday, StreamOptions(incremental=incremental)))
    assert found == ["The ", "answer ", "is 4."]
    # each subscription is a run of its own
    words = agent(ScriptedModel(["a", "b"], ["c"])).stream("hi").text()
    assert [run_virtual(words.pipe(ops.to_list())) for _ in range(2)] == [["a", "b"], ["c"]]


@pytest.mark.parametrize("incremental", [True, False])
def test_messages_are_apart_and_sub_agents_are_not_heard(incremental: bool):
    helper = ReActAgent("Helper", ScriptedModel("I help."))
    friday = agent(ScriptedModel(["Let me ", "ask.", call("call_helper", message="?")], ["It ", "is."]), tools=[helper])
    assert "".join(run_virtual(pieces(friday, StreamOptions(incremental=incremental)))) == "Let me ask.\nIt is."


def test_what_was_not_streamed_comes_at_the_end():
    assert run_virtual(pieces(agent(ScriptedModel(["a"])), StreamOptions(kinds=PostCallEvent))) == ["a"]
    assert run_virtual(pieces(agent(ScriptedModel("a")), StreamOptions(kinds=ActingChunkEvent))) == []

    async def main() -> None:
        friday = agent(ScriptedModel(["a", HANG]))
        found: list[str] = []
        async for piece in friday.stream("hi").text():
            found.append(piece)
            friday.interrupt("Enough.")
        assert "".join(found) == "a\nEnough."

    run_virtual(main())
    value = ScriptedModel(call("generate_response", response=3))
    assert run_virtual(pieces(agent(value), output=int)) == ["3"]


def test_a_reply_that_was_shown_is_not_said_again():
    @tool
    async def outside() -> str:
        """Suspends."""
        raise ToolSuspend("later")

    @hook(PostCallEvent)
    def polite(event: PostCallEvent):
        return event.replace(message=event.message.replace(content="Please: a"))

    assert run_virtual(pieces(agent(ScriptedModel("a"), hooks=[polite]))) == ["a"]
    waiting = agent(ScriptedModel(["I ask.", call("outside")]), tools=[outside])
    assert run_virtual(pieces(waiting)) == ["I ask."]


def test_a_stream_shows_its_kinds_and_nothing_else():
    def kinds(*chosen: type[Event]) -> list[str]:
        friday = agent(ScriptedModel(call("weather", city="Rome"), "a"))
        return [event.type for event in run_virtual(events_of(friday, "hi", StreamOptions(kinds=chosen)))]

    assert kinds(PostActingEvent) == ["post_acting"]
    assert kinds() == []
