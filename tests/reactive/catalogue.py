"""The public sources and operators of the kernel, each with the arguments of its kit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from reactivex import operators as ops
from tenacity import stop_after_attempt, wait_fixed

from agentscope_rx.reactive import (
    OneShotEvent,
    Probe,
    Rate,
    RetryPolicy,
    Semaphore,
    admitted,
    append_if_missing,
    catch,
    concat,
    concat_map,
    concat_map_type,
    conflate,
    defer,
    empty,
    flat_map,
    flat_map_iterable,
    flow,
    from_async_iterable,
    from_awaitable,
    from_callable,
    from_iterable,
    hedge,
    iterate_on_worker,
    just,
    map_at_most,
    merge_ordered,
    never,
    next_turn,
    on_worker,
    onward,
    probed,
    recurse,
    retry,
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


class SeesItems(Probe[object]):
    def item(self, value: object) -> None: ...


async def one() -> int:
    await asyncio.sleep(1)
    return 1


async def failed() -> int:
    raise ValueError("x")


async def five() -> AsyncIterator[int]:
    for number in range(5):
        await asyncio.sleep(1)
        yield number


def blocking() -> Iterator[int]:
    yield from range(5)


def fault(*_: object) -> Any:
    raise ValueError("x")


async def failing() -> AsyncIterator[int]:
    await asyncio.sleep(1)
    yield 1
    raise ValueError("x")


def failing_later() -> Iterator[int]:
    yield 1
    raise ValueError("x")


SOURCES: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "defer": (lambda: defer(lambda: from_async_iterable(five)), {"failing": lambda: defer(fault)}),
    "empty": (empty, {}),
    "from_async_iterable": (
        lambda: from_async_iterable(five),
        {"failing": lambda: from_async_iterable(failing)},
    ),
    "from_awaitable": (
        lambda: from_awaitable(one()),
        {"repeatable": False, "failing": lambda: from_awaitable(failed())},
    ),
    "from_callable": (lambda: from_callable(one), {"failing": lambda: from_callable(fault)}),
    "from_iterable": (
        lambda: from_iterable(range(5)),
        {"failing": lambda: from_iterable(failing_later())},
    ),
    "iterate_on_worker": (
        lambda: iterate_on_worker(blocking),
        {"failing": lambda: iterate_on_worker(failing_later)},
    ),
    "just": (lambda: just(1, 2, 3, 4, 5), {"ahead": None}),
    "never": (never, {"endless": True}),
    "on_worker": (lambda: on_worker(lambda: 1), {"failing": lambda: on_worker(fault)}),
    "throw": (lambda: throw(ValueError("x")).pipe(catch(lambda error: empty())), {"failing": lambda: throw(fault_())}),
    "timer": (lambda: timer(1), {}),
}


def fault_() -> ValueError:
    return ValueError("x")


def recursion(source: Any) -> Any:
    """The source as the first of two stages."""
    return recurse(lambda: concat(source, just(tail(lambda: just(6)))))


SAME = [1, 2, 3, 4, 5]
OPERATORS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "Rate": (lambda source: admitted((Rate(1000, per=1).limiter(),), lambda waited: source), {"expected": SAME}),
    "Semaphore": (lambda source: Semaphore(1).around(source), {"expected": SAME}),
    "admitted": (lambda source: admitted((Semaphore(1),), lambda waited: source), {"expected": SAME}),
    "append_if_missing": (append_if_missing(str, lambda: "end"), {"expected": [*SAME, "end"]}),
    "catch": (catch(lambda error: just(6)), {"expected": SAME, "catches": True}),
    "concat": (lambda source: concat(source, just(6)), {"expected": [*SAME, 6]}),
    "concat_map": (concat_map(lambda value: value), {"expected": SAME}),
    "concat_map, flows": (
        concat_map(lambda value: just(value).pipe(ops.delay(0.1))),
        {"expected": SAME, "ahead": None},
    ),
    "concat_map, prefetch": (
        concat_map(lambda value: just(value).pipe(ops.delay(5)), prefetch=2),
        {"expected": SAME, "ahead": 3},
    ),
    "conflate": (conflate(), {"expected": SAME, "ahead": None}),
    "concat_map_type": (concat_map_type(int, just), {"expected": SAME}),
    "flat_map": (flat_map(just), {"expected": SAME}),
    "flat_map_iterable": (flat_map_iterable(lambda value: [value], lambda: [6]), {"expected": [*SAME, 6]}),
    "flow": (flow, {"expected": SAME}),
    "hedge": (hedge(10, shows=lambda value: True), {"expected": SAME}),
    "map_at_most": (map_at_most(just, 1), {"expected": SAME}),
    "map_at_most, several": (map_at_most(just, 3), {"expected": SAME}),
    "map_at_most, unordered": (map_at_most(just, 3, ordered=False), {"expected": SAME}),
    "map_at_most, flows": (
        map_at_most(lambda value: just(value).pipe(ops.delay(5)), 2),
        {"expected": SAME, "ahead": 3},
    ),
    "merge_ordered": (lambda source: merge_ordered([source, just(6)]), {"expected": [*SAME, 6]}),
    "next_turn": (next_turn, {"expected": SAME}),
    "onward": (lambda source: onward(source, just), {"expected": SAME}),
    "recurse": (recursion, {"expected": [*SAME, 6]}),
    "steps": (lambda source: steps(lambda: source, lambda: 6), {"expected": [*SAME, 6]}),
    "retry": (retry(RetryPolicy(stop=stop_after_attempt(3), wait=wait_fixed(1))), {"expected": SAME}),
    "probed": (probed(Probe), {"expected": SAME}),
    "probed, items": (probed(SeesItems), {"expected": SAME}),
    "take_until": (take_until(OneShotEvent()), {"expected": SAME}),
    "take_until, grace": (take_until(OneShotEvent(), grace=1), {"expected": SAME}),
    "then": (then(lambda: just(6, 7)), {"expected": [6, 7], "ahead": None}),
    "timeout": (timeout(first=9, idle=9), {"expected": SAME}),
    "timeout, total": (timeout(total=99), {"expected": SAME}),
    "transform_type": (transform_type(int, ops.map(lambda value: value)), {"expected": SAME}),
    "using": (
        lambda source: using(lambda: just(1), lambda resource: source, lambda resource, outcome: None),
        {"expected": SAME},
    ),
}
ELSEWHERE = {
    "on_library_loop": "runs its source on another loop: as a publisher, in test_publisher_rules",
    "on_loop": "the same",
    "shield": "runs on after a disposal, on purpose: as a publisher, in test_publisher_rules",
    "spawn_background": "subscribes, and returns a disposable",
    "tail": "a value for recurse",
    "jittered": "a wait for retry",
    "count_abandoned": "passes its source on, and needs the counter of an abandoned call",
}
NO_FLOWS = {
    "Attempt", "Buffering", "ChannelStatistics", "Demand", "ENGINE_WORKERS", "Flow", "FlowIterator", "OneShotEvent",
    "Outcome", "Overflow", "Overshoot", "Probe", "RetryPolicy", "Scope", "SemaphoreStatistics", "SourceCancelledError",
    "Tail", "WORKERS", "WorkerPool", "WorkerStatistics", "cancelled_alone", "on_dropped",
}  # fmt: skip
