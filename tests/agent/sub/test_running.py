"""A sub-agent's run inside of a parent's: its events, what is shown of them, its costs, its surroundings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentscope_rx import (
    GenerateReason,
    Msg,
    ReActAgent,
    RuntimeContext,
    StreamOptions,
    UsageLimits,
    UserAgent,
    fold,
    hook,
    tool,
)
from agentscope_rx.agent import Price
from agentscope_rx.errors import ConfigurationError, UsageLimitError
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PreCallEvent,
    ReasoningChunkEvent,
    event_from_json,
)
from agentscope_rx.messages import ChatUsage, ToolResultKind, ToolUseBlock
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.testing import Delay, ScriptedModel, collect_dropped, run_virtual
from tests.agent.parts import events_of, remembered, types, weather
from tests.agent.sub.parts import agent, ask, child_of, history, researcher, use
from tests.support.assertions import assert_one_truth, results_in


def used(input: int = 10, output: int = 1) -> ChatResponse:
    return ChatResponse((), usage=ChatUsage(input, output))


def pair(**options: Any) -> ReActAgent:
    child = researcher(use("weather", "w", city="Rome"), ["It is ", "sunny."], tools=[weather])
    return agent("Boss", ask("p"), "Good.", tools=[child.as_tool(**options)])


@pytest.mark.spec("R23", "§8.3", "case 124")
def test_a_sub_agents_events_are_in_the_stream_under_their_path():
    """In order, before the result, no number left out; each run folds to its outcome."""

    async def main() -> None:
        boss = pair()
        events = await events_of(boss, "go")
        assert [event.seq for event in events] == list(range(len(events)))
        assert_one_truth(events, (), remembered(boss))
        inside = [event for event in events if event.depth]
        assert fold(inside).history == tuple(await history(child_of(boss)))
        assert fold(inside).message.text == "It is sunny."
        run = events[0].run_id
        assert {(event.agent, event.path) for event in inside} == {
            ("Researcher", (run, "p", inside[0].run_id)),
        }  # fmt: skip
        assert types(inside)[0] == "pre_call" and types(inside)[-1] == "post_call"
        place = events.index(inside[-1])
        assert [e.type for e in events[place + 1 : place + 3]] == ["acting_chunk", "post_acting"]
        assert all(event_from_json(event.to_json()).path == event.path for event in events)
        said = results_in(remembered(boss))["p"][1]
        assert said == f"conversation_id: {child_of(boss).id}\n\nIt is sunny."
        # the words are progress of the call, for readers of these events only
        chunks = [e for e in events if isinstance(e, ActingChunkEvent) and e.tool_use.id == "p"]
        assert [chunk.text for chunk in chunks[:-1]] == ["It is ", "sunny."] and chunks[-1].is_last

    run_virtual(main())


@pytest.mark.spec("case 124")
@pytest.mark.parametrize(
    ("forward", "nested", "chunks", "inside"),
    [("events", True, True, True), ("text", True, True, False), ("none", True, False, False),
     ("events", False, True, False), ("events", 1, True, True)],
)  # fmt: skip
def test_what_is_shown_of_it(forward: str, nested: bool | int, chunks: bool, inside: bool):
    """Chosen by the tool and by the caller: the outcome is the same, and so are the numbers."""

    async def main() -> None:
        boss = pair(forward=forward)
        events = await events_of(boss, "go", StreamOptions(nested=nested))
        assert [event.seq for event in events] == list(range(len(events)))
        assert any(event.depth for event in events) == inside
        shown = [e for e in events if isinstance(e, ActingChunkEvent) and e.depth == 0 and not e.is_last]
        assert bool(shown) == chunks
        assert_one_truth(events, (), remembered(boss))

    run_virtual(main())


def test_kinds_and_depth():
    """Field P3: filterable by depth; the last event is the outermost run's."""

    async def main() -> None:
        def build() -> ReActAgent:
            low = agent("Low", "low")
            mid = researcher(use("call_low", "l", message="go"), "mid", tools=[low.as_tool()])
            return agent("Top", ask("p"), "top", tools=[mid.as_tool()])

        seen = await events_of(build(), "go")
        assert {(event.agent, event.depth) for event in seen} == {("Top", 0), ("Researcher", 1), ("Low", 2)}
        low = next(event for event in seen if event.agent == "Low")
        mid = next(event for event in seen if event.agent == "Researcher")
        assert low.path == (*mid.path, "l", low.run_id)
        assert [event.seq for event in seen] == list(range(len(seen)))
        one = await events_of(build(), "go", StreamOptions(nested=1))
        assert {event.agent for event in one} == {"Top", "Researcher"}
        kinds = await events_of(build(), "go", StreamOptions(kinds=ReasoningChunkEvent, incremental=False))
        assert [(e.agent, e.type) for e in kinds[-2:]] == [
            ("Researcher", "reasoning_chunk"),
            ("Top", "reasoning_chunk"),
        ]
        assert [e.type for e in kinds if e.type != "reasoning_chunk"] == []
        assert kinds[-2].snapshot.text == "mid"

    run_virtual(main())


@pytest.mark.parametrize("nested", [-1, "all", None])
def test_a_depth_that_is_none(nested: Any):
    with pytest.raises(ConfigurationError, match="nested"):
        StreamOptions(nested=nested)


def test_hooks_see_the_runs_of_their_own_agent():
    """A parent's hooks see its calls and their progress; what is inside of them is for the sub-agent's hooks."""
    seen: dict[str, list[str]] = {"Boss": [], "Researcher": []}

    def watcher(name: str):
        @hook(Event)
        async def watch(event: Event) -> None:
            await asyncio.sleep(0)
            seen[name].append(event.agent)

        return watch

    async def main() -> None:
        child = researcher(["It is ", "sunny."], hooks=[watcher("Researcher")])
        boss = agent("Boss", ask("p"), "Good.", tools=[child.as_tool()], hooks=[watcher("Boss")])
        events = await events_of(boss, "go")
        assert {name: set(agents) for name, agents in seen.items()} == {"Boss": {"Boss"}, "Researcher": {"Researcher"}}
        assert len(seen["Boss"]) + len(seen["Researcher"]) == len(events)

    run_virtual(main())


def test_several_at_once_and_in_turn():
    async def main() -> None:
        for parallel, seconds in ((True, 2), (False, 4)):
            child = researcher([Delay(2), "one"], [Delay(2), "two"])
            boss = agent("Boss", [ask("p", "1"), ask("q", "2")], "ok", tools=[child.as_tool()], parallel=parallel)
            before = asyncio.get_running_loop().time()
            events = await events_of(boss, "go")
            assert asyncio.get_running_loop().time() - before == pytest.approx(seconds)
            assert_one_truth(events, (), remembered(boss))
            runs = {event.run_id for event in events if event.depth}
            for run in runs:
                assert fold(event for event in events if event.run_id == run).message.text in ("one", "two")
            assert len(runs) == 2 and [e.tool_use.id for e in events if isinstance(e, PostActingEvent)] == ["p", "q"]

    run_virtual(main())


@pytest.mark.spec("case 126")
def test_a_call_gets_the_runtime_context_of_its_parents():
    """Tools and hooks of a sub-agent find what the caller gave, under call and stream."""
    found: list[object] = []

    @tool
    async def look(context: RuntimeContext) -> str:
        """Looks."""
        found.append(context)
        return "seen"

    @hook(PreCallEvent)
    def before(event: PreCallEvent) -> None:
        found.append(event.context)

    async def main() -> None:
        child = researcher(use("look", "l"), "ok", use("look", "m"), "ok", tools=[look], hooks=[before])
        boss = agent("Boss", ask("p"), "ok", ask("q"), "ok", tools=[child.as_tool()])
        context = RuntimeContext(user_id="ann")
        await boss.call("go", context=context)
        await events_of(boss, "go", context=context)
        assert len(found) == 4 and all(each is context for each in found)

    run_virtual(main())


@pytest.mark.spec("R22")
def test_a_slow_reader_slows_the_sub_agent():
    """Events are produced on demand, at any depth."""

    async def main() -> None:
        child = researcher([f"{n} " for n in range(2000)])
        boss = agent("Boss", ask("p"), "ok", tools=[child.as_tool()])
        said: list[int] = []

        @hook(ReasoningChunkEvent)
        def count(event: ReasoningChunkEvent) -> None:
            said.append(1)

        child.hooks = type(child.hooks)((count,))
        async with boss.stream("go") as events:
            async for event in events:
                if isinstance(event, ReasoningChunkEvent) and event.depth:
                    break
            await asyncio.sleep(10)
            assert len(said) < 500
        await boss.idle()
        assert results_in(remembered(boss))["p"][0] is ToolResultKind.INTERRUPTED

    run_virtual(main())


def test_a_subscriber_that_raises_ends_both():
    async def main() -> None:
        boss = pair()

        def raise_inside(event: Event) -> None:
            if event.depth and event.type == "pre_acting":
                raise RuntimeError("subscriber")

        with collect_dropped() as dropped:
            boss.stream("go").subscribe(raise_inside)
            await asyncio.sleep(1)
            await boss.idle()
        assert [str(error) for error in dropped] == ["subscriber"]
        assert results_in(remembered(boss))["p"][0] is ToolResultKind.INTERRUPTED
        assert results_in(await history(child_of(boss)))["w"][0] is ToolResultKind.INTERRUPTED

    run_virtual(main())


def test_a_reply_that_stopped_at_a_result_and_one_with_a_limit():
    @hook(PostActingEvent)
    def stop(event: PostActingEvent) -> PostActingEvent:
        return event.stop()

    async def main() -> None:
        stops = researcher(use("weather", "w", city="Rome"), tools=[weather], hooks=[stop])
        rounds = agent("Rounds", use("weather", "w", city="Rome"), "so far", tools=[weather], max_iters=1)
        calls = [ask("p"), use("call_rounds", "q", message="go")]
        boss = agent("Boss", calls, "ok", tools=[stops.as_tool(), rounds.as_tool()])
        await boss.call("go")
        blocks = {r.id: r for message in remembered(boss) for r in message.tool_results}
        assert blocks["p"].text.endswith("\n\nSunny in Rome") and blocks["q"].text.endswith("\n\nso far")
        assert blocks["p"].metadata["generate_reason"] == GenerateReason.ACTING_STOP_REQUESTED
        assert blocks["q"].metadata["generate_reason"] == GenerateReason.MAX_ITERATIONS

    run_virtual(main())


def test_an_agent_that_tells_of_its_runs_in_its_own_way():
    """A subclass with a `stream` of its own is told like any other, under the path of the call."""

    class Tagged(ReActAgent):
        def stream(self, *args: Any, **options: Any):
            from agentscope_rx.reactive import concat_map

            return super().stream(*args, **options).pipe(concat_map(lambda event: event))

    async def main() -> None:
        child = Tagged("Researcher", ScriptedModel("hi"))
        boss = agent("Boss", ask("p"), "ok", tools=[child.as_tool()])
        events = await events_of(boss, "go")
        assert {event.path[:2] for event in events if event.depth} == {(events[0].run_id, "p")}
        assert_one_truth(events, (), remembered(boss))

    run_virtual(main())


# --- costs -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("§9.15", "R34")
def test_what_a_sub_agent_uses_counts_as_its_parents():
    """Calls, tokens and cost, in all levels, as they happen."""

    async def main() -> None:
        low = agent("Low", [use("weather", "w", city="Rome"), used(1)], ["low", used(2)], tools=[weather])
        mid = researcher([use("call_low", "l", message="go"), used(4)], ["mid", used(8)], tools=[low.as_tool()])
        limits = UsageLimits(cost=1.0, prices={"scripted": Price(input=100.0, output=0.0)})
        top = agent("Top", [ask("p"), used(16)], ["top", used(32)], tools=[mid.as_tool()], limits=limits)
        stats: list[Any] = []

        @hook(PostCallEvent)
        def note(event: PostCallEvent) -> None:
            stats.append(top.runs[0].stats())

        top.hooks = type(top.hooks)((note,))
        reply = await top.call("go")
        assert reply.usage == ChatUsage(63, 6)
        assert (stats[0].model_calls, stats[0].tool_calls) == (6, 3)
        assert stats[0].cost == pytest.approx(63 * 100 / 1_000_000)

    run_virtual(main())


@pytest.mark.parametrize("on_limit", ["error", "summary"])
@pytest.mark.parametrize("which", ["model_calls", "tool_calls", "total_tokens"])
def test_a_parents_limit_holds_inside(which: str, on_limit: Any):
    """The sub-agent ends there, as its own limits would have it; then the parent does, as its own say."""

    async def main() -> None:
        rounds = [[use("weather", f"w{n}", city="Rome"), used()] for n in range(5)]
        child = researcher(*rounds, "never", tools=[weather])
        limits = UsageLimits(**{which: 33 if which == "total_tokens" else 3}, on_limit=on_limit)
        boss = agent("Boss", [ask("p"), used()], "Last word.", tools=[child.as_tool()], limits=limits)
        if which == "tool_calls":
            # the limit does not keep the parent from answering
            assert (await boss.call("go")).text == "Last word."
        elif on_limit == "error":
            with pytest.raises(UsageLimitError, match="Boss") as caught:
                await boss.call("go")
            assert caught.value.which == which and caught.value.agent == "Boss"
        else:
            reply = await boss.call("go")
            assert (reply.text, reply.generate_reason) == ("Last word.", GenerateReason.LIMIT_REACHED)
        assert len(child.model.requests) == (3 if which == "tool_calls" else 2)
        kind, text = results_in(remembered(boss))["p"]
        assert kind is ToolResultKind.FAILED and "UsageLimitError: Agent 'Boss' has reached its limit" in text

    run_virtual(main())


def test_its_own_limits_hold_as_well():
    async def main() -> None:
        limits = UsageLimits(model_calls=1, on_limit="summary")
        child = researcher(use("weather", "w", city="Rome"), "So far: nothing.", tools=[weather], limits=limits)
        boss = agent("Boss", ask("p"), "ok", tools=[child.as_tool()], limits=UsageLimits(model_calls=9))
        assert (await boss.call("go")).text == "ok"
        assert results_in(remembered(boss))["p"][1].endswith("So far: nothing.")

    run_virtual(main())


def test_a_child_model_without_a_price_is_not_called():
    async def main() -> None:
        child = ReActAgent("Researcher", ScriptedModel("never", model_name="unknown"))
        limits = UsageLimits(cost=1.0, prices={"scripted": Price(1.0, 1.0)})
        boss = agent("Boss", ask("p"), "ok", tools=[child.as_tool()], limits=limits)
        await boss.call("go")
        assert "no price for the model 'unknown'" in results_in(remembered(boss))["p"][1]
        assert not child.model.requests

    run_virtual(main())


def test_the_call_may_say_more_than_one_word():
    """What a sub-agent is told is a message of a user, whatever it looks like."""

    async def main() -> None:
        child = researcher("ok")
        boss = agent(
            "Boss", ToolUseBlock("p", "call_researcher", {"message": "  two\nlines "}), "ok", tools=[child.as_tool()]
        )
        await boss.call("go")
        first = (await history(child_of(boss)))[0]
        assert isinstance(first, Msg) and (first.role, first.text) == ("user", "  two\nlines ")

    run_virtual(main())


def test_a_person_may_be_asked_by_a_model():
    """Any agent can be a tool: a `UserAgent` is one that has a person answer."""

    async def main() -> None:
        async def answer(question: object) -> str:
            return "Blue."

        person = UserAgent("Ann", input=answer)
        boss = agent("Boss", use("call_ann", "p", message="Which colour?"), "Blue it is.", tools=[person.as_tool()])
        events = await events_of(boss, "go")
        assert events[-1].message.text == "Blue it is." and {event.agent for event in events} == {"Boss", "Ann"}
        assert results_in(remembered(boss))["p"][1].endswith("Blue.")

    run_virtual(main())
