"""A call goes on in the background: at once, when it takes long, or never; once, and with one result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import BackgroundHook, InMemoryMemory, ReActAgent, RuntimeContext, Toolkit, fold, tool
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, InputEvent, PostActingEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.reactive import Rate
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.tools import Background, WrapperTool
from agentscope_rx.tools.background import BACKGROUND, NEVER
from tests.agent.background.parts import RUNS, agent, ends_in, events_of, states, use, work
from tests.agent.parts import assert_whole, types


def test_options_are_checked_and_passed_on():
    assert tool(background=True)(_one).background == Background(0.0)
    assert tool(background=2)(_one).background == Background(2.0)
    assert tool(background=False)(_one).background == NEVER
    assert tool(_one).background is None
    kit = Toolkit()
    assert kit.register(tool(background=2)(_one)).background == Background(2.0) and kit.runs_background
    assert kit.register(_one, name="other", background=False).background == NEVER
    assert WrapperTool(tool(background=3)(_one)).background == Background(3.0)
    assert kit.copy().runs_background and kit.overlay().runs_background and not Toolkit([_one]).runs_background
    for bad in ("yes", -1, float("inf"), float("nan")):
        with pytest.raises(ToolDefinitionError, match="background of tool"):
            tool(background=bad)(_one)  # type: ignore[call-overload]
    (one,) = Toolkit().register_all([_one], background=1)
    assert one.background == Background(1.0)


async def _one() -> str:
    return "x"


def test_exclusive_calls_stay_in_the_foreground():
    with pytest.raises(ToolDefinitionError, match="exclusive"):
        tool(background=True, exclusive=True)(_one)
    alone = tool(exclusive=True)(_slow)
    with pytest.raises(ToolDefinitionError, match="exclusive"):
        Toolkit().register(alone, background=3)
    Toolkit().register(alone, background=False)
    with pytest.raises(ConfigurationError, match="'_slow', which is exclusive"):
        ReActAgent("Friday", ScriptedModel("x"), tools=[alone], hooks=[BackgroundHook(after=1, tools=["_slow"])])

    async def main():
        model = ScriptedModel([use("_slow", "a"), use("work", "b")], "x", "y")
        friday = ReActAgent("Friday", model, tools=[alone, work], hooks=[BackgroundHook(after=1)])
        events = await events_of(friday, "go")
        assert [(event.tool_use.id, event.state) for event in events if isinstance(event, BackgroundEvent)] == [
            ("b", "promoted"),
            ("b", "completed"),
        ]
        results = [event.result for event in events if isinstance(event, PostActingEvent) and not event.depth]
        assert results[0].text == "slow is done"

    run_virtual(main())


async def _slow() -> str:
    await asyncio.sleep(5)
    return "slow is done"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"after": -1}, "after must be"),
        ({"after": True}, "after must be"),
        ({"tools": ["x"]}, "give after="),
        ({"after": 1, "tools": "x"}, "list of names"),
        ({"wait": "no"}, "wait must be"),
        ({"max_jobs": 0}, "max_jobs must be"),
    ],
)
def test_policies_are_checked(options: dict[str, Any], fault: str):
    with pytest.raises(ConfigurationError, match=fault):
        BackgroundHook(**options)


def test_at_once_the_model_gets_a_handle_and_later_the_result():
    async def main():
        RUNS.clear()
        friday = agent(use("work"), "I wait.", "It is done.", background=True)
        events = await events_of(friday, "go")
        assert RUNS == ["w begun", "w done"] and states(events) == ["started", "completed"]
        assert await ends_in(friday) == [("completed", "w is done")]
        handle = next(event for event in events if isinstance(event, PostActingEvent))
        assert handle.result.metadata[BACKGROUND]["job"] and handle.result.kind is None
        assert fold(events).history == tuple(await friday.memory.get())
        assert events[-1].message.text == "It is done."
        assert_whole(friday)

    run_virtual(main())


def test_after_seconds_only_a_call_that_takes_longer_goes_on():
    async def main():
        friday = agent([use("work", "a", seconds=2), use("work", "b", seconds=9)], "so", "done", background=3)
        loop = asyncio.get_running_loop()
        events = await events_of(friday, "go")
        assert states(events) == ["promoted", "completed"] and loop.time() == pytest.approx(9)
        results = [event.result.text for event in events if isinstance(event, PostActingEvent) and not event.depth]
        assert results[0] == "w is done" and "background" in results[1]

    run_virtual(main())


@pytest.mark.parametrize(
    ("hook", "promoted"),
    [
        (BackgroundHook(after=1), ["promoted", "completed"]),
        (BackgroundHook(after=1, tools=["work"]), ["promoted", "completed"]),
        (BackgroundHook(after=1, tools=["other"]), []),
        (BackgroundHook(), []),
        (BackgroundHook(after=9), []),
    ],
)
def test_the_policy_of_the_agent(hook: BackgroundHook, promoted: list[str]):
    async def main():
        friday = agent(use("work"), "x", "y", hooks=[hook])
        assert states(await events_of(friday, "go")) == promoted
        # what a tool says itself comes first
        friday = agent(use("work"), "x", "y", background=False, hooks=[hook])
        assert states(await events_of(friday, "go")) == []

    run_virtual(main())


def test_a_function_of_the_arguments_decides():
    async def main():
        by = Background(after=lambda arguments: 0 if arguments.get("name") == "a" else None)
        friday = agent([use("work", "1", name="a"), use("work", "2", name="b")], "x", "y", background=by)
        events = await events_of(friday, "go")
        assert states(events) == ["started", "completed"]
        friday = agent(use("work"), "x", background=Background(after=lambda arguments: -1))
        (message,) = [event.message for event in await events_of(friday, "go") if isinstance(event, PostActingEvent)]
        assert message.tool_results[0].kind is ToolResultKind.FAILED

    run_virtual(main())


def test_a_call_that_has_ended_at_once_has_its_result():
    async def main():
        friday = agent(use("work", wrong=1), "x", background=True)
        events = await events_of(friday, "go")
        assert states(events) == []
        (message,) = [event.message for event in events if isinstance(event, PostActingEvent)]
        assert message.tool_results[0].kind is ToolResultKind.INVALID_ARGUMENTS

    run_virtual(main())


def test_chunks_come_under_the_path_of_the_job():
    async def main():
        friday = agent(use("parts", count=3), "x", "y", background=True)
        events = await events_of(friday, "go")
        chunks = [event for event in events if isinstance(event, ActingChunkEvent) and event.depth]
        assert [chunk.chunk.text for chunk in chunks] == ["part 0", "part 1", "part 2", ""]
        (path,) = {chunk.path for chunk in chunks}
        assert path == (events[0].run_id, "c", chunks[0].run_id)
        assert [event.seq for event in events] == list(range(len(events)))

    run_virtual(main())


def test_a_failure_is_a_message_and_no_error():
    async def main():
        friday = agent(use("fail"), "x", "It failed.", background=True)
        events = await events_of(friday, "go")
        assert states(events) == ["started", "failed"]
        ((state, text),) = await ends_in(friday)
        assert state == "failed" and "broken pipe" in text

    run_virtual(main())


def test_limits_hold_while_a_call_is_in_the_background():
    async def main():
        RUNS.clear()
        one = tool(max_concurrency=1, background=True)(_counted)
        calls = [use("_counted", f"{n}", name=f"{n}") for n in range(3)]
        friday = agent(calls, "x", *"abc", tools=[one])
        await friday.call("go")
        assert RUNS == ["0 begun", "0 done", "1 begun", "1 done", "2 begun", "2 done"]
        rated = tool(rate=Rate(1, per=10), background=True)(_counted)
        began = asyncio.get_running_loop().time()
        await agent(calls, "x", *"abc", tools=[rated]).call("go")
        assert asyncio.get_running_loop().time() - began == pytest.approx(21)

    run_virtual(main())


async def _counted(name: str) -> str:
    RUNS.append(f"{name} begun")
    await asyncio.sleep(1)
    RUNS.append(f"{name} done")
    return name


def test_without_room_calls_stay_in_the_foreground():
    async def main():
        calls = [use("work", f"{n}") for n in range(3)]
        friday = agent(calls, "x", "y", background=True, hooks=[BackgroundHook(max_jobs=2)])
        events = await events_of(friday, "go")
        assert states(events).count("started") == 2
        assert_whole(friday)

    run_virtual(main())


@given(after=st.floats(0, 4), seconds=st.lists(st.floats(0, 4), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_law_every_call_runs_once_and_is_told_once(after: float, seconds: list[float]):
    """Also if it ends in the same turn of the loop in which its time in the foreground is over."""

    async def main():
        RUNS.clear()
        calls = [use("work", f"c{n}", name=f"{n}", seconds=each) for n, each in enumerate([*seconds, after])]
        friday = agent(calls, *["so"] * 9, background=after, max_iters=20)
        events = await events_of(friday, "go")
        names = [f"{n}" for n in range(len(calls))]
        assert sorted(RUNS) == sorted(f"{name} {what}" for name in names for what in ("begun", "done"))
        told = [text for _, text in await ends_in(friday)]
        direct = [
            event.result.text
            for event in events
            if isinstance(event, PostActingEvent) and not event.depth and BACKGROUND not in event.result.metadata
        ]
        assert sorted([*told, *direct]) == [f"{name} is done" for name in names]
        assert sum(isinstance(event, InputEvent) for event in events) == len(told)
        assert not friday.background().in_progress and not friday.running
        assert_whole(friday)

    run_virtual(main())


def test_a_thousand_jobs_end_in_one_round():
    async def main():
        calls = [use("work", f"c{n}") for n in range(1000)]
        friday = agent(calls, "x", "y", background=True, hooks=[BackgroundHook(max_jobs=1000)])
        events = await events_of(friday, "go")
        assert states(events).count("completed") == 1000 and len(await ends_in(friday)) == 1000
        assert types(events).count("post_reasoning") == 3

    run_virtual(main())


def test_two_conversations_do_not_meet():
    async def main():
        friday = agent(use("work", name="a"), use("work", name="b"), "x", "y", "z", "z", background=True)
        one, two = InMemoryMemory(), InMemoryMemory()
        await asyncio.gather(friday.start("go", memory=one).result(), friday.start("go", memory=two).result())
        assert [text for _, text in [*await ends_in(friday, one), *await ends_in(friday, two)]] == [
            "a is done",
            "b is done",
        ]

    run_virtual(main())


@pytest.mark.parametrize("here", [True, False])
def test_the_model_chooses_by_an_argument(here: bool):
    kit = Toolkit()
    (kit.register(_slow, background="model") if here else kit.register(tool(background="model")(_slow)))
    shown = kit.get("_slow")
    assert shown is not None and kit.runs_background
    assert shown.parameters["properties"]["run_in_background"]["type"] == "boolean"
    assert "required" not in shown.parameters
    # the same tool in another toolkit has the argument once
    assert Toolkit([shown]).get("_slow") is shown
    assert [*kit.copy().get("_slow").parameters["properties"]] == ["run_in_background"]  # type: ignore[union-attr]

    async def main():
        asked = [use("_slow", id, **given) for id, given in ARGUMENTS.items()]
        friday = ReActAgent("Friday", ScriptedModel(asked, "x", "y"), toolkit=kit)
        events = await events_of(friday, "go")
        ended = [event for event in events if isinstance(event, BackgroundEvent)]
        assert [(event.tool_use.id, event.state) for event in ended] == [("yes", "started"), ("yes", "completed")]
        results = {event.tool_use.id: event.result for event in events if isinstance(event, PostActingEvent)}
        assert results["no"].text == results["none"].text == results["null"].text == "slow is done"
        assert results["bad"].kind is ToolResultKind.INVALID_ARGUMENTS
        assert fold(events).history == tuple(await friday.memory.get())

    run_virtual(main())


ARGUMENTS: dict[str, dict[str, Any]] = {
    "yes": {"run_in_background": True},
    "no": {"run_in_background": False},
    "none": {},
    "null": {"run_in_background": None},
    "bad": {"run_in_background": "perhaps"},
}


def test_what_a_program_gives_decides_like_the_model():
    async def main():
        kit = Toolkit()
        kit.register(_slow, background=Background(2, asked=True))
        friday = ReActAgent("Friday", ScriptedModel(use("_slow", "a"), "x", "y", repeat=True), toolkit=kit)
        assert states(await events_of(friday, "go")) == ["promoted", "completed"]
        given = RuntimeContext(tool_arguments={"_slow": {"run_in_background": True}})
        assert states(await events_of(friday, "go", context=given)) == ["started", "completed"]

    run_virtual(main())


def test_an_argument_of_that_name_is_a_clash():
    async def other(run_in_background: bool) -> str:
        return "x"

    with pytest.raises(ToolDefinitionError, match="'run_in_background' would occur twice"):
        Toolkit().register(other, background="model")


def test_what_was_shown_before_the_promotion_is_not_shown_again():
    friday = agent([use("parts", "c", count=6)], "Waiting.", "Done.", background=2.5)
    events = run_virtual(events_of(friday, "go"))
    shown = [e.text for e in events if e.type == "acting_chunk" and e.text.startswith("part")]
    assert shown == [f"part {number}" for number in range(6)]


def test_a_model_reads_what_came_before_the_promotion():
    def read(request: Any) -> object:
        (job,) = (r.metadata[BACKGROUND]["job"] for m in request.messages for r in m.tool_results)
        return [use("background_read", "r", job=job)]

    friday = agent([use("parts", "c", count=4)], read, "Waiting.", "Done.", hooks=[BackgroundHook(2.5)])
    run_virtual(friday.call("go"))
    results = {r.id: r.text for message in friday.memory.messages for r in message.tool_results}
    assert "part 0" in results["r"] and "part 1" in results["r"]
