"""Laws of operators around flows, for scripts and operators drawn by chance.

What is shown after the last announcement is what is remembered; every call has one result; nothing is left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from tenacity import stop_after_attempt

from agentscope_rx.errors import HookError, ModelConnectionError
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostReasoningEvent,
    ReasoningChunkEvent,
    RetryEvent,
)
from agentscope_rx.hooks import around
from agentscope_rx.reactive import RetryPolicy, catch, concat_map, from_awaitable, retry, throw, timeout
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole
from tests.hooks.around_parts import watching

DOWN = ModelConnectionError("down")
DISCARDING = RetryPolicy(stop=stop_after_attempt(3), discards=True)


def refusing(after: int, later: bool) -> Callable[[Any], Any]:
    """Passes all items; the first subscription fails at an item, at once or a second later."""
    seen = [0]

    def look(item: Any) -> Any:
        seen[0] += 1
        if seen[0] == after:
            raise ValueError("refused")
        return item

    async def wait(item: Any) -> Any:
        await asyncio.sleep(0.5)
        return look(item)

    return concat_map(lambda item: from_awaitable(wait(item))) if later else ops.map(look)


OPERATORS = st.one_of(
    st.sampled_from([ops.retry(2), ops.retry(3), retry(DISCARDING), ops.do_action(lambda item: None), catch(throw)]),
    st.sampled_from([ops.timeout(1.5), timeout(idle=1.5), ops.delay(0.25)]),
    st.builds(refusing, st.integers(1, 6), st.booleans()),
)
KINDS = st.sampled_from(["call", "stage", "reasoning", "acting", "model", "tool"])
TURNS = st.sampled_from(["text", "text", "tools", "down", "half", "slow"])


def script(turns: Sequence[str]) -> ScriptedModel:
    played: dict[str, Any] = {
        "text": ["fi", Delay(0.5), "ne"],
        "down": [DOWN],
        "half": ["ha", Delay(0.5), "lf", DOWN],
        "slow": ["sl", Delay(2.0), "ow"],
        "tools": ["Look: ", call("weather", city="Rome"), call("slow", seconds=1), call("count", upto=2)],
    }
    return ScriptedModel(*[played[turn] for turn in turns], "end", repeat=True)


def check_announced(events: Sequence[Event]) -> None:
    """What is shown after the last announcement is what a Post event reports."""
    shown = ""
    results: dict[str, str] = {}
    for event in events:
        if isinstance(event, ReasoningChunkEvent):
            shown += event.text
        elif isinstance(event, ActingChunkEvent):
            results[event.tool_use.id] = results.get(event.tool_use.id, "") + event.text
        elif isinstance(event, RetryEvent) and event.discarded:
            if event.stage == "model":
                shown = ""
            else:
                results.pop(event.tool_use_id or "", None)
        elif isinstance(event, PostReasoningEvent):
            assert event.message.text == shown
            shown = ""
        elif isinstance(event, PostActingEvent) and not event.result.is_error and event.tool_use.name == "weather":
            assert results[event.tool_use.id] == event.result.text


@settings(max_examples=80, deadline=None)
@given(st.lists(TURNS, min_size=1, max_size=4), st.lists(st.tuples(KINDS, OPERATORS), max_size=4))
def test_what_was_shown_last_is_what_is_remembered(turns: list[str], hooks: list[tuple[str, Any]]):
    friday = agent(script(turns), hooks=[around(kind, operator) for kind, operator in hooks], max_iters=3)

    async def main() -> None:
        watched = await watching(friday)
        if watched.error is None:
            # (an operator that fails takes with it what it holds back)
            check_announced(watched.events)

    run_virtual(main())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TURNS, min_size=1, max_size=3),
    st.lists(st.tuples(KINDS, OPERATORS), min_size=1, max_size=3),
    st.integers(0, 24),
    st.booleans(),
)
@example(["slow"], [("model", timeout(idle=1.5))], 6, False)
def test_nothing_is_left_whenever_a_run_is_ended(
    turns: list[str], hooks: list[tuple[str, Any]], at: int, interrupt: bool
):
    friday = agent(script(turns), hooks=[around(kind, operator) for kind, operator in hooks], max_iters=3)

    async def main() -> None:
        seen: list[Event] = []
        errors: list[Exception] = []
        ended = asyncio.Event()
        running = friday.stream("hi").subscribe(
            seen.append, lambda error: (errors.append(error), ended.set()), ended.set
        )
        await asyncio.sleep(at / 4)
        if interrupt:
            friday.interrupt()
            await asyncio.wait_for(ended.wait(), 60)
            assert all(not isinstance(error, HookError) or error.event for error in errors)
        else:
            running.dispose()
        await friday.idle()
        assert_whole(friday)
        assert not friday.running

    with collect_dropped() as dropped:
        # (tasks and timers that are left fail here)
        run_virtual(main())
    # a run that has failed in the turn of its disposal, or was being cleaned up then, has no subscriber for its error
    assert set(dropped.where) <= (set() if interrupt else {"a disposed run"})
