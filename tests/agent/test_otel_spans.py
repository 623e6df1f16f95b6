"""OpenTelemetry: the current span is the subscriber's at every hook, tool, model, memory and session call.

The real SDK keeps the current span in a context variable, and logs "Failed to detach context" for a span that ends in
another context than that it began in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.events import Event
from agentscope_rx.hooks import around, hook
from agentscope_rx.hooks.wrapping.around_hook import AroundKind
from agentscope_rx.reactive import defer, flow
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.spans import TRACER, NotingSession, Seen, agent_of, current, failures


@pytest.fixture(autouse=True)
def spans_end_where_they_began(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, "opentelemetry")
    yield
    assert failures(caplog) == []


PLACES = 22


async def by_await(agent: ReActAgent) -> None:
    assert (await agent.call("hi")).text == "Done."


async def by_iteration(agent: ReActAgent) -> None:
    async for event in agent.stream("hi"):
        assert current() == "request", event


async def by_task(agent: ReActAgent) -> None:
    await agent.call("hi").as_task()


async def by_subscribe(agent: ReActAgent) -> None:
    ended = asyncio.Event()
    agent.stream("hi").subscribe(lambda event: None, None, ended.set)
    await ended.wait()


async def by_stock_operators(agent: ReActAgent) -> None:
    piped: Any = agent.stream("hi").pipe(ops.filter(lambda event: True), ops.delay(0.1), ops.last())
    await flow(piped)


@pytest.mark.parametrize("consume", [by_await, by_iteration, by_task, by_subscribe, by_stock_operators])
def test_every_place_sees_the_span_of_the_subscriber(consume: Callable[[ReActAgent], Any]):
    seen = Seen()

    async def main() -> None:
        agent = agent_of(seen)
        with TRACER.start_as_current_span("request"):
            await consume(agent)
        assert current() == "none"

    run_virtual(main())
    assert seen.spans == {"request"}, [each for each in seen if each[1] != "request"]
    assert len(seen.places) >= PLACES, sorted(seen.places)


def test_a_script_without_a_loop_hands_its_span_on():
    seen = Seen()
    # the library's loop is in real time
    seen.pause = 0
    with TRACER.start_as_current_span("request"):
        agent_of(seen).call("hi").run()
    assert seen.spans == {"request"} and len(seen.places) >= PLACES


def test_the_span_is_that_at_the_subscription():
    seen = Seen()

    async def main() -> None:
        agent = agent_of(seen)
        with TRACER.start_as_current_span("made"):
            made = agent.call("hi")
        with TRACER.start_as_current_span("subscribed"):
            await made

    run_virtual(main())
    # do_stream, hooks and tools are called for the subscriber
    assert seen.spans == {"subscribed"}


def test_runs_under_different_spans_do_not_mix():
    many = [Seen() for _ in range(4)]

    async def one(number: int) -> None:
        agent = agent_of(many[number])
        await asyncio.sleep(0.03 * number)
        with TRACER.start_as_current_span(f"request {number}"):
            await agent.call("hi")

    async def main() -> None:
        await asyncio.gather(*map(one, range(4)))

    run_virtual(main())
    assert [seen.spans for seen in many] == [{f"request {number}"} for number in range(4)]


def test_one_agent_for_two_conversations_keeps_spans_apart():
    seen = Seen()
    spans: dict[str, set[str]] = {}

    async def main() -> None:
        agent = agent_of(seen, hooks=[everywhere])

        async def one(name: str) -> None:
            with TRACER.start_as_current_span(name):
                await agent.call(name, memory=InMemoryMemory())

        await asyncio.gather(one("a"), one("b"))

    @hook(Event)
    async def everywhere(event: Event) -> None:
        spans.setdefault(event.run_id, set()).add(current())

    run_virtual(main())
    assert sorted(map(sorted, spans.values())) == [["a"], ["b"]]


def test_a_sub_agent_sees_the_span_of_the_call():
    inner, outer = Seen(), Seen()

    async def main() -> None:
        agent = agent_of(outer, sub=agent_of(inner, name="expert"))
        with TRACER.start_as_current_span("request"):
            await agent.call("hi")

    run_virtual(main())
    assert inner.spans == outer.spans == {"request"}
    assert len(inner.places) >= PLACES


def test_a_session_sees_the_span():
    seen = Seen()

    async def main() -> None:
        session = NotingSession(seen)
        agent = ReActAgent("Friday", ScriptedModel("Hello.", repeat=True))
        with TRACER.start_as_current_span("request"):
            agent.bind(session, "ann")
            await agent.call("hi")
            await agent.save(session, "bob")
            await agent.load(session, "bob")

    run_virtual(main())
    assert seen.spans == {"request"} and seen.places == {"session.save", "session.load"}


@pytest.mark.parametrize("kind", ["call", "reasoning", "acting", "model", "tool"])
def test_an_operator_around_a_part_sees_the_span(kind: AroundKind):
    seen = Seen()

    def noting(source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
        seen.note("applied")

        def begin() -> reactivex.Observable[Any]:
            seen.note("begins")
            return source.pipe(
                ops.do_action(lambda _: seen.note("item"), on_completed=lambda: seen.note("end")),
                ops.finally_action(lambda: seen.note("after")),
            )

        return defer(begin)

    async def main() -> None:
        agent = agent_of(seen, hooks=[around(kind, noting)])
        with TRACER.start_as_current_span("request"):
            await by_iteration(agent)

    run_virtual(main())
    assert seen.spans == {"request"}, [each for each in seen if each[1] != "request"]
    assert {"applied", "begins", "item", "end", "after"} <= seen.places
