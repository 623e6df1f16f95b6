"""A run that is over leaves nothing to the garbage collector, however it ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import reactivex.operators as ops

from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Probe,
    RetryPolicy,
    append_if_missing,
    catch,
    concat,
    concat_map,
    concat_map_type,
    flat_map,
    flat_map_iterable,
    flow,
    from_async_iterable,
    from_awaitable,
    from_callable,
    from_iterable,
    iterate_on_worker,
    just,
    merge_ordered,
    on_worker,
    probed,
    recurse,
    retry,
    shield,
    steps,
    tail,
    take_until,
    then,
    throw,
    timeout,
    timer,
    transform_type,
    using,
)
from agentscope_rx.testing import collect_dropped
from tests.reactive.catalogue import SeesItems
from tests.support.garbage import left_to_the_collector


def later() -> Flow[int]:
    async def items() -> Any:
        for item in range(3):
            await asyncio.sleep(0)
            yield item

    return from_async_iterable(items)


async def one() -> int:
    await asyncio.sleep(0)
    return 1


async def broken() -> int:
    await asyncio.sleep(0)
    raise ValueError


SOURCES: dict[str, Callable[[], Flow[Any]]] = {
    "values": lambda: just(0, 1, 2),
    "iterable": lambda: from_iterable(range(3)),
    "async iterable": later,
    "call": lambda: from_callable(one),
    "awaitable": lambda: from_awaitable(one()),
    "timer": lambda: timer(0.001),
    "worker": lambda: on_worker(lambda: 1),
    "items on worker": lambda: iterate_on_worker(lambda: range(3)),
    "error": lambda: throw(ValueError()),
    "failing call": lambda: from_callable(broken),
    "stock": lambda: flow(later().pipe(ops.map(lambda item: item))),
}

TWICE = RetryPolicy(stop=lambda state: state.attempt_number >= 2, wait=lambda state: 0.001)

OPERATORS: dict[str, Callable[[Flow[Any]], Flow[Any]]] = {
    "then": lambda source: source.pipe(then(later)),
    "after": lambda source: later().pipe(then(lambda: source)),
    "catch": lambda source: source.pipe(catch(lambda error: later())),
    "concat": lambda source: concat(source, later()),
    "concat_map": lambda source: source.pipe(concat_map(lambda item: later())),
    "ensure": lambda source: source.pipe(append_if_missing(str, lambda: "")),
    "expand": lambda source: source.pipe(flat_map_iterable(lambda item: (item, item))),
    "flat_map": lambda source: source.pipe(flat_map(lambda item: later())),
    "concat_map_type": lambda source: source.pipe(concat_map_type(int, lambda item: later())),
    "concat_map(plain)": lambda source: source.pipe(concat_map(lambda item: later() if item else item)),
    "merge_ordered": lambda source: merge_ordered([later(), source, later()]),
    "concat_map(prefetch)": lambda source: source.pipe(concat_map(lambda item: later() if item else item, prefetch=3)),
    "recurse": lambda source: recurse(lambda: concat(source, just(tail(lambda: source)))),
    "steps": lambda source: steps(lambda: source, later),
    "retry, deadlines": lambda source: source.pipe(retry(TWICE, each=5, total=5)),
    "retry": lambda source: source.pipe(retry(TWICE)),
    "shielded": lambda source: shield(source),
    "probed": lambda source: source.pipe(probed(Probe)),
    "probed, items": lambda source: source.pipe(probed(SeesItems)),
    "take_until": lambda source: source.pipe(take_until(OneShotEvent(), grace=5)),
    "through": lambda source: source.pipe(transform_type(int, ops.map(lambda item: item))),
    "through ours": lambda source: source.pipe(transform_type(int, flat_map_iterable(lambda item: (item, item)))),
    "timeout": lambda source: source.pipe(timeout(first=5, idle=5, total=5)),
    "total": lambda source: source.pipe(timeout(total=5)),
    "using": lambda source: using(lambda: later().pipe(ops.take(1)), lambda _: source, lambda *_: later()),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_left_after_the_end(operator: str, source: str) -> None:
    async def main() -> None:
        ended = asyncio.get_running_loop().create_future()
        OPERATORS[operator](SOURCES[source]()).subscribe(
            lambda value: None, lambda error: ended.set_result(None), lambda: ended.set_result(None)
        )
        await ended

    assert left_to_the_collector(main) == Counter()


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_left_after_a_disposal(operator: str, source: str) -> None:
    async def main() -> None:
        if source == "awaitable" and operator in ("recurse", "after"):
            return  # one awaitable is for one subscription, which must take place
        disposable = OPERATORS[operator](SOURCES[source]()).subscribe(lambda value: None, lambda error: None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        disposable.dispose()

    with collect_dropped():
        assert left_to_the_collector(main) == Counter()


@pytest.mark.parametrize("operator", OPERATORS)
def test_await_and_async_for_leave_no_garbage(operator: str) -> None:
    async def main() -> None:
        make = OPERATORS[operator]
        await make(later())
        await asyncio.wait([make(later()).as_task(), make(from_callable(one)).as_task()])
        async for _ in make(later()):
            break
        async for _ in make(later()):
            pass
        async with make(later()) as values:
            await anext(values)
        with suppress(ValueError):
            await make(from_callable(broken))
        task = make(later()).as_task()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    assert left_to_the_collector(main) == Counter()


def test_a_held_subscription_leaves_no_garbage() -> None:
    class Reader:
        def __init__(self, source: Flow[Any]) -> None:
            self.subscription = source.subscribe(self.hear, self.hear, self.done)

        def hear(self, value: object) -> None: ...

        def done(self) -> None: ...

    async def main() -> None:
        Reader(just(1))
        Reader(throw(ValueError()))
        reader = Reader(later())
        await asyncio.sleep(0.001)
        Reader(later()).subscription.dispose()
        del reader

    assert left_to_the_collector(main) == Counter()


def test_a_stop_with_grace_leaves_nothing() -> None:
    async def careful() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.sleep(0)

    async def main() -> None:
        signal = OneShotEvent()
        run = concat(just(1), from_callable(careful)).pipe(take_until(signal, grace=5)).as_task()
        await asyncio.sleep(0.001)
        signal.fire()
        await run

    assert left_to_the_collector(main) == Counter()
