"""`map_agent` and `map_at_most`: order, back-pressure, failures, and the end at every moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.subject import Subject

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, StepError
from agentscope_rx.pipeline import map_agent
from agentscope_rx.reactive import from_async_iterable, from_iterable, just, map_at_most, then, timer
from agentscope_rx.testing import HANG, Delay, ScriptedModel, collect_dropped, run_virtual
from tests.pipeline.parts import remembered, says


def worker(seconds: dict[str, float] | None = None):
    """An agent that takes so many seconds for an input, and fails for "bad"."""

    def turn(request: Any) -> Any:
        text = request.messages[-1].text
        return ValueError("bad input") if text == "bad" else [Delay((seconds or {}).get(text, 1)), text.upper()]

    return says("worker", *[turn] * 300)


def test_results_in_order_and_as_they_come():
    async def main() -> None:
        agent = worker({"a": 3, "b": 1, "c": 1})
        found = [each async for each in from_iterable("abc").pipe(map_agent(agent, at_most=2))]
        assert [each.value.text for each in found] == ["A", "B", "C"]
        assert [each.elapsed for each in found] == [3, 1, 1]
        found = [each async for each in from_iterable("abc").pipe(map_agent(agent, at_most=2, ordered=False))]
        assert [each.value.text for each in found] == ["B", "C", "A"]
        assert remembered(agent) == []
        assert all(len(request.messages) == 1 for request in agent.model.requests)  # pyright: ignore

    run_virtual(main())


def test_failures_are_values_or_end_all():
    async def main() -> None:
        inputs = from_iterable([Msg.user("a"), "bad", "slow"])
        agent = worker({"slow": 100})
        found = [each async for each in inputs.pipe(map_agent(agent, timeout=10))]
        assert [each.ok for each in found] == [True, False, False]
        kinds = [(each.error.kind, each.error.error_type, each.error.number) for each in found if each.error]
        assert kinds == [("failed", "ValueError", 2), ("timeout", "StepTimeoutError", 3)]
        got: list[str] = []
        source = from_iterable(["a", "bad", "slow"]).pipe(map_agent(agent, at_most=1, on_error="raise"))
        with pytest.raises(StepError, match="'worker' failed in step 2: ValueError: bad input"):
            await source.pipe(ops.do_action(lambda each: got.append(each.value.text)))
        assert got == ["A"] and not agent.running

    run_virtual(main())


def test_a_source_is_read_only_as_far_as_it_is_wanted():
    read: list[int] = []

    async def endless() -> AsyncIterator[str]:
        number = 0
        while True:
            read.append(number)
            yield f"{number}"
            number += 1
            await asyncio.sleep(0)

    async def main() -> None:
        agent = worker()
        source = from_async_iterable(lambda: endless())
        got = 0
        events = source.pipe(map_agent(agent, at_most=3)).buffered(1)
        async for each in events:
            assert each.value.text == f"{got}"
            got += 1
            assert len(read) <= got + 3 + 3, "no more is read than is in progress"
            await asyncio.sleep(20)
            if got == 7:
                break
        await events.aclose()  # pyright: ignore
        await agent.idle()
        assert not agent.running

    run_virtual(main())


def test_a_hot_source_and_its_disposal():
    async def main() -> None:
        agent = worker()
        source: Subject[str] = Subject()
        found: list[str] = []
        handle = source.pipe(map_agent(agent, at_most=2)).subscribe(lambda each: found.append(each.value.text))
        for text in "abcde":
            source.on_next(text)
        await asyncio.sleep(1.5)
        assert found == ["A", "B"] and len(agent.runs) == 2
        handle.dispose()
        await agent.idle()
        assert not agent.running and not source.observers
        source.on_next("late")
        await asyncio.sleep(5)
        assert found == ["A", "B"]

    run_virtual(main())


def test_an_error_of_the_source_ends_the_calls():
    async def main() -> None:
        agent = says("a", [HANG])
        source = reactivex.concat(from_iterable(["x"]), timer(2).pipe(then(lambda: reactivex.throw(KeyError("k")))))
        with pytest.raises(KeyError):
            await source.pipe(map_agent(agent))
        await agent.idle()
        assert not agent.running

    run_virtual(main())


def test_a_function_and_wrong_arguments():
    async def main() -> None:
        found = [each async for each in from_iterable("ab").pipe(map_agent(lambda_named()))]
        assert [each.value.text for each in found] == ["A", "B"]

    run_virtual(main())
    for options in ({"at_most": 0}, {"timeout": -1}, {"on_error": "no"}, {"memory": 3}):
        with pytest.raises(ConfigurationError):
            map_agent(worker(), **options)  # pyright: ignore


def lambda_named():
    def upper(message: Msg) -> str:
        return message.text.upper()

    return upper


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 4), st.booleans())
def test_map_at_most_bounds_and_orders(waits: list[int], at_most: int, ordered: bool):
    async def main() -> None:
        now = most = 0

        def inner(item: tuple[int, int]) -> Any:
            nonlocal now, most
            number, wait = item
            now += 1
            most = max(most, now)

            def end() -> Any:
                nonlocal now
                now -= 1
                return just(number)

            return timer(wait).pipe(then(end)) if wait else end()

        found = [
            each async for each in from_iterable(enumerate(waits)).pipe(map_at_most(inner, at_most, ordered=ordered))
        ]
        assert sorted(found) == list(range(len(waits))) and most <= at_most and now == 0
        if ordered:
            assert found == sorted(found)

    run_virtual(main())


def test_a_slow_subscriber_and_one_that_throws():
    async def main() -> None:
        agent = worker({})
        seen = 0

        def fail(_: object) -> None:
            nonlocal seen
            seen += 1
            raise RuntimeError("no")

        errors: list[Exception] = []
        from_iterable("abc").pipe(map_agent(agent, at_most=1)).subscribe(fail, errors.append)
        await asyncio.sleep(10)
        await agent.idle()
        assert seen == 1 and not agent.running

    with collect_dropped():
        run_virtual(main())


def test_models_are_not_asked_ahead():
    """At most the calls in progress have asked the model."""

    async def main() -> None:
        model = ScriptedModel(*[[Delay(1), "x"]] * 20)
        agent = ReActAgent("a", model)
        first = await from_iterable(range(20)).pipe(first_of(map_agent(agent, at_most=2)))
        assert first.value.text == "x" and len(model.requests) <= 4
        await agent.idle()

    run_virtual(main())


def first_of(operator: Any) -> Any:
    return lambda source: operator(source.pipe(ops.map(str))).pipe(ops.take(1))


@pytest.mark.parametrize("ends", [False, True])
def test_what_a_flow_emits_meanwhile_comes_behind(ends: bool):
    """A subscriber that makes a flow emit, or end, while its held values are emitted."""
    flows: list[Subject[str]] = [Subject(), Subject(), Subject()]
    seen: list[str] = []

    def hear(value: str) -> None:
        seen.append(value)
        if value == "b1":
            flows[1].on_next("b3")
            if ends:
                flows[1].on_completed()

    async def main() -> None:
        mapped = from_iterable(range(3)).pipe(map_at_most(lambda n: flows[n], 3))
        subscription = mapped.subscribe(hear, on_completed=lambda: seen.append("end"))
        await asyncio.sleep(0)
        for each, values in ((2, ["c1"]), (1, ["b1", "b2"]), (0, ["a1"])):
            for value in values:
                flows[each].on_next(value)
        for each in flows:
            each.on_completed()
        await asyncio.sleep(0)
        subscription.dispose()

    run_virtual(main())
    assert seen == ["a1", "b1", "b2", "b3", "c1", "end"]
