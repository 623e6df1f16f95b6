"""Calls of an agent: what they are given, what they remember, and when they are refused."""

from __future__ import annotations

import asyncio

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    ExecutionConfig,
    GenerateOptions,
    InMemoryMemory,
    Msg,
    RuntimeContext,
    ToolContext,
    hook,
    tool,
)
from agentscope_rx.errors import AgentBusyError, ModelConnectionError
from agentscope_rx.events import PreCallEvent, ReasoningChunkEvent, StreamOptions
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.testing import Delay, run_virtual
from tests.agent.parts import events_of, remembered
from tests.agent.shorthand import agent, said, use


def chunks(friday, *, incremental: bool = True) -> list[ReasoningChunkEvent]:
    options = StreamOptions(kinds=ReasoningChunkEvent, incremental=incremental)
    return [e for e in run_virtual(events_of(friday, "hi", options)) if isinstance(e, ReasoningChunkEvent)]


@pytest.mark.spec("case 3", "case 4")
def test_tools_run_once_each_in_the_models_order():
    ran: list[str] = []

    @tool
    async def note(what: str) -> str:
        """Notes."""
        ran.append(what)
        return f"noted {what}"

    friday = agent(use("a", "note", what="1"), use("b", "note", what="2"), "done", tools=[note])
    assert friday.call("hi").run().text == "done"
    assert ran == ["1", "2"]
    assert said(friday) == ["user hi", "Friday [a]", "a=noted 1", "Friday [b]", "b=noted 2", "Friday done"]


@pytest.mark.spec("case 11", "case 12", "case 54")
def test_pieces_of_parallel_calls_accumulate_apart():
    """Interleaved fragments, as increments and as the call so far."""
    deltas = [
        ToolUseDelta(0, "a", "weather", '{"ci'),
        ToolUseDelta(1, "b", "weather", '{"city":'),
        ToolUseDelta(0, arguments='ty":"Rome"}'),
        ToolUseDelta(1, arguments='"Oslo"}'),
    ]
    shown = chunks(agent(deltas, "done"))[:4]
    assert [(c.delta.id, c.delta.raw) for c in shown] == [
        ("a", '{"ci'), ("b", '{"city":'), ("a", 'ty":"Rome"}'), ("b", '"Oslo"}'),
    ]  # fmt: skip
    assert [(c.accumulated.id, c.accumulated.raw) for c in shown[2:]] == [
        ("a", '{"city":"Rome"}'), ("b", '{"city":"Oslo"}'),
    ]  # fmt: skip
    friday = agent(deltas, "done")
    friday.call("hi").run()
    assert said(friday)[2:4] == ["a=Sunny in Rome", "b=Sunny in Oslo"]


@pytest.mark.spec("case 15", "case 16", "R21")
@pytest.mark.parametrize("incremental", [True, False])
def test_thinking_as_increments_or_accumulated(incremental: bool):
    """One or the other, not both."""
    shown = chunks(agent([ThinkingBlock("a"), ThinkingBlock("b"), ThinkingBlock("c"), "x"]), incremental=incremental)
    blocks = [c.delta if incremental else c.snapshot for c in shown]
    texts = [block.thinking if isinstance(block, ThinkingBlock) else block.text for block in blocks]
    assert texts == (["a", "b", "c", "x"] if incremental else ["a", "ab", "abc", "x"])
    assert all((c.snapshot is None) is incremental for c in shown)


@pytest.mark.spec("case 17", "case 18")
def test_a_seeded_memory_is_part_of_the_summary():
    memory = InMemoryMemory([Msg.user("My name is Ann.")])
    friday = agent(use("a"), "in short", memory=memory, max_iters=1)
    reply = friday.call("hi").run()
    assert friday.model.requests[-1].messages[1].text == "My name is Ann."
    assert remembered(friday)[-1] == reply and reply.text == "in short"


@pytest.mark.spec("case 20", "case 21", "§5.2")
def test_options_reach_the_model():
    """The agent's execution config is united with that of its options."""
    friday = agent(
        "ok",
        generate_options=GenerateOptions(
            temperature=0.1, top_p=0.2, max_tokens=3, seed=4, execution_config=ExecutionConfig(max_attempts=7)
        ),
        model_execution_config=ExecutionConfig(timeout=5),
    )
    friday.call("hi").run()
    asked = friday.model.requests[0].options
    assert (asked.temperature, asked.top_p, asked.max_tokens, asked.seed) == (0.1, 0.2, 3, 4)
    assert (asked.execution_config.timeout, asked.execution_config.max_attempts) == (5, 7)


@pytest.mark.spec("case 23", "§4.2")
@pytest.mark.parametrize(
    ("given_input", "remembered_input"),
    [(None, []), ([], []), ("   ", ["user    "]), ("", ["user"]), ([Msg.user(())], ["user"])],
)
def test_degenerate_inputs(given_input, remembered_input):
    """What fails in Java with a null pointer goes on from memory here."""
    friday = agent("ok")
    assert friday.call(given_input).run().text == "ok"
    assert said(friday) == [*remembered_input, "Friday ok"]


@pytest.mark.spec("case 25", "case 27")
def test_a_second_call_is_refused_until_the_reply_is_seen():
    """Refused before any hook; free before the subscriber sees the end, also of a failure."""

    async def main():
        begun = []

        @hook(PreCallEvent)
        def look(event):
            begun.append(event)

        friday = agent([Delay(1), "one"], "two", ModelConnectionError("x"), "three", hooks=[look])
        friday.model.execution_config = ExecutionConfig(max_attempts=1)
        first = friday.call("a").as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(AgentBusyError, match="still running"):
            await friday.call("b")
        assert len(begun) == 1
        assert (await first).text == "one"
        again = friday.call("b").pipe(ops.flat_map(lambda _: friday.call("c").pipe(ops.catch(friday.call("d")))))
        assert (await again).text == "three"
        assert [each for each in said(friday) if each.startswith("user")] == ["user a", "user b", "user c", "user d"]

    run_virtual(main())


@pytest.mark.spec("case 26", "W24")
def test_overlapping_calls_if_asked_for():
    """Nothing of one run is seen by the other, although they share an agent and its memory."""

    async def main():
        seen: dict[str, str] = {}

        @tool
        async def whose(context: RuntimeContext, call: ToolContext) -> str:
            """Says whose call it is."""
            await asyncio.sleep(1)
            seen[call.call.id] = context.require(str, "user")
            return seen[call.call.id]

        friday = agent(use("a", "whose"), use("b", "whose"), "one", "two", tools=[whose], check_running=False)
        contexts = [RuntimeContext(user=name) for name in ("Ann", "Bob")]
        replies = await asyncio.gather(*(friday.call("hi", context=context).as_task() for context in contexts))
        assert seen == {"a": "Ann", "b": "Bob"} and {reply.text for reply in replies} == {"one", "two"}

    run_virtual(main())


@pytest.mark.spec("case 29")
def test_what_is_observed_is_remembered_and_not_answered():
    """It is remembered, and there is no answer."""
    friday = agent("never asked")
    assert friday.observe([Msg.user("a"), Msg.user("b")]).run() is None
    assert said(friday) == ["user a", "user b"] and friday.model.requests == []
