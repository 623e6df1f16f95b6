"""A Scope is a scheduler by the loop's clock; work is counted until its last `finally` has run."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops

from agentscope_rx.reactive import Demand, Flow, Scope, flat_map, from_callable, just
from agentscope_rx.reactive.kernel.in_flight import InFlight
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.reactive.recorder import record, turns


def probe(seen: list[Scope]) -> Flow[int]:
    """A source that notes the scope it is attached in."""

    def attach(sink: Any, scope: Scope) -> None:
        seen.append(scope)
        just(1)._attach(sink, scope)

    return Flow(attach)


STOCK: dict[str, Any] = {
    "map": ops.map(lambda v: v),
    "filter": ops.filter(lambda v: True),
    "scan": ops.scan(lambda a, v: v, 0),
    "reduce": ops.reduce(lambda a, v: v, 0),
    "take": ops.take(5),
    "take_while": ops.take_while(lambda v: True),
    "skip": ops.skip(0),
    "first": ops.first(),
    "last": ops.last(),
    "distinct": ops.distinct(),
    "do_action": ops.do_action(lambda v: None),
    "finally_action": ops.finally_action(lambda: None),
    "start_with": ops.start_with(0),
    "concat": lambda source: ops.concat(rx.of(2))(source),
    "merge": lambda source: ops.merge(rx.of(2))(source),
    "catch": ops.catch(rx.of(2)),
    "retry": ops.retry(2),
    "repeat": ops.repeat(1),
    "delay": ops.delay(1),
    "delay_subscription": ops.delay_subscription(1),
    "debounce": ops.debounce(1),
    "timeout": ops.timeout(9),
    "buffer": ops.buffer_with_count(2),
    "to_list": ops.to_list(),
    "pairwise": lambda source: ops.zip(rx.of(1))(source),
    "switch_latest": lambda source: ops.switch_latest()(rx.of(source)),
    "flat_map": lambda source: ops.flat_map(lambda _: source)(rx.of(1)),
    "share": ops.share(),
    "replay": lambda source: source.pipe(ops.replay(), ops.ref_count()),
    "materialize": ops.materialize(),
}


@pytest.mark.parametrize("name", STOCK)
@pytest.mark.parametrize("inside", [False, True])
def test_the_scope_passes_through_stock_operators(name: str, inside: bool) -> None:
    async def main() -> None:
        seen: list[Scope] = []
        outermost: list[Scope] = []
        piped = probe(seen).pipe(STOCK[name])
        source = just(1).pipe(flat_map(lambda _: piped)) if inside else piped

        def attach(sink: Any, scope: Scope) -> None:
            outermost.append(scope)
            source._attach(sink, scope)

        await record(Flow(attach))
        assert seen == outermost

    run_virtual(main())


def test_what_drops_the_scope_falls_back_to_the_running_loop() -> None:
    from reactivex.scheduler import ImmediateScheduler

    async def main() -> None:
        seen: list[Scope] = []
        assert (await record(probe(seen).pipe(ops.subscribe_on(ImmediateScheduler())))).heard == [1, "|"]
        assert seen[0].loop is asyncio.get_running_loop()

    run_virtual(main())


def test_stock_delays_go_by_the_loops_clock() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        source = just(1).pipe(flat_map(lambda _: rx.timer(5).pipe(ops.delay(timedelta(seconds=2)))))
        assert (await record(source)).timeline == [(7, 0), (7, "|")]
        source = just(1).pipe(flat_map(lambda _: rx.interval(2.0).pipe(ops.take(3))))
        began = loop.time()
        assert [(at - began, what) for at, what in (await record(source)).timeline] == [
            (2, 0),
            (4, 1),
            (6, 2),
            (6, "|"),
        ]
        stamped = await just(1).pipe(flat_map(lambda _: rx.timer(1)), ops.time_interval())
        assert stamped.interval == timedelta(seconds=1)

    run_virtual(main())


def test_scheduled_actions_can_be_dropped_from_any_thread() -> None:
    async def main() -> None:
        scope = Scope.here()
        rung: list[str] = []
        scope.schedule_relative(1, lambda *_: rung.append("dropped")).dispose()
        later = scope.schedule_relative(1, lambda *_: rung.append("dropped from a thread"))
        absolute = scope.schedule_absolute(scope.now + timedelta(seconds=3), lambda *_: rung.append("absolute"))
        thread = threading.Thread(
            target=lambda: (later.dispose(), scope.schedule_relative(2, lambda *_: rung.append("from a thread")))
        )
        thread.start()
        thread.join()
        await asyncio.sleep(5)
        absolute.dispose()
        assert rung == ["from a thread", "absolute"]

    run_virtual(main())


def test_work_counts_in_its_parents_until_the_last_finally() -> None:
    async def main() -> None:
        scope = Scope.here()
        child = scope.child().child()
        idle: list[float] = []

        async def call() -> None:
            try:
                await asyncio.sleep(100)
            finally:
                await asyncio.sleep(5)

        task = child.spawn(call())
        await turns()
        assert (scope.work.count, child.work.count) == (1, 1)
        scope.work.when_idle(lambda: idle.append(asyncio.get_running_loop().time()))
        forget = scope.work.when_idle(lambda: idle.append(-1))
        forget()
        task.cancel()
        await asyncio.sleep(10)
        assert idle == [5]
        scope.work.when_idle(lambda: idle.append(-2))
        assert idle == [5, -2]

    run_virtual(main())


def test_a_failing_clean_up_does_not_stop_the_others() -> None:
    work = InFlight()
    work.begin()
    called: list[int] = []
    work.when_idle(lambda: 1 / 0)
    work.when_idle(lambda: called.append(1))
    with collect_dropped() as dropped:
        work.end()
    assert called == [1]
    assert repr(dropped) == "[ZeroDivisionError('division by zero')]"


def test_demand_measures_how_long_it_was_withheld() -> None:
    async def main() -> None:
        demand = Demand(asyncio.get_running_loop())
        woken: list[str] = []
        demand.when_ready(lambda: woken.append("at once"))
        await asyncio.sleep(1)
        demand.withhold()
        demand.when_ready(lambda: woken.append("later"))
        waiting = asyncio.ensure_future(demand.wait())
        cancelled = asyncio.ensure_future(demand.wait())
        await asyncio.sleep(2)
        demand.withhold()
        cancelled.cancel()
        assert (demand.withheld(), woken, waiting.done()) == (2, ["at once"], False)
        demand.resume()
        demand.resume()
        await waiting
        await asyncio.sleep(4)
        assert (demand.withheld(), woken) == (2, ["at once", "later"])

    run_virtual(main())


def test_a_scope_after_its_loop_has_closed_drops_what_comes() -> None:
    scopes: list[Scope] = []

    async def main() -> None:
        scopes.append(Scope.here())

    asyncio.run(main())
    scopes[0].call_from_thread(pytest.fail, "called")


def test_sources_start_in_a_copy_of_the_context() -> None:
    import contextvars

    var: contextvars.ContextVar[int] = contextvars.ContextVar("var", default=0)

    async def count() -> int:
        var.set(var.get() + 1)
        return var.get()

    async def main() -> None:
        source = just(1, 2, 3).pipe(flat_map(lambda _: from_callable(count)))
        assert (await record(source)).heard == [1, 1, 1, "|"]

    run_virtual(main())
