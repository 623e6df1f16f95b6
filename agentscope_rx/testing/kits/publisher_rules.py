"""The rules of `check_publisher`, each a coroutine function that fails or returns."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple
from weakref import ref

from reactivex import Observable

from agentscope_rx.reactive import Demand, Scope, flow
from agentscope_rx.reactive.kernel.observer import Upstream, attach
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.rules import SkippedRule, equal, quiet, require
from agentscope_rx.testing.record import DroppedErrors
from agentscope_rx.testing.virtual_time import VirtualLoop


@dataclass(slots=True)
class Publisher:
    """What is checked; `count` is the number of values of a run."""

    make: Callable[[], Observable[object]]
    failing: Callable[[], Observable[object]] | None = None
    ahead: int | None = 0
    repeatable: bool = True
    concurrent: bool = True
    endless: bool = False
    hot: bool = False
    count: int = 0

    def needs_values(self, least: int = 1) -> None:
        """Skip the rule for a publisher with fewer values."""
        if self.count < least:
            raise SkippedRule(f"it needs {least} values, and a run has {self.count}")

    def needs_demand(self, least: int = 2) -> int:
        """Skip the rule if demand is not looked at; else the number of values that may come without demand."""
        if self.ahead is None:
            raise SkippedRule("the values are there already, whatever the demand")
        self.needs_values(least + self.ahead)
        return self.ahead

    def needs_repeats(self) -> None:
        """Skip the rule for an Observable with one subscription."""
        if not self.repeatable:
            raise SkippedRule("the Observable is for one subscription only")

    def needs_concurrency(self) -> None:
        """Skip the rule for an Observable with one run at a time."""
        if not self.concurrent:
            raise SkippedRule("the Observable has one run at a time")


LET_GO_TURNS = 100
HOT = "the publisher has begun before its subscribers come"

Check = Callable[[Publisher, DroppedErrors], Coroutine[object, object, None]]


class Rule(NamedTuple):
    """A rule by its number, in words, and its check."""

    number: str
    law: str
    check: Check


async def _to_end(publisher: Publisher, probe: Probe, source: Observable[object] | None = None) -> Probe:
    """Subscribe and wait for the end; an endless run is disposed when nothing more comes."""
    probe.start(publisher.make() if source is None else source)
    if publisher.endless and not probe.over:
        await quiet()
        probe.dispose()
    await probe.end()
    return probe


async def counted(publisher: Publisher, source: Observable[object] | None = None) -> int:
    """The number of values of one run, which must complete."""
    probe = await _to_end(publisher, Probe(), source)
    probe.verify()
    require(probe.completed or publisher.endless, f"{probe.text}, where completion was expected")
    if publisher.count:
        equal(len(probe.values), publisher.count, "the number of values")
    return len(probe.values)


class _Made:
    """A demand and the publisher's run under it, which withholds demand at its first value."""

    def __init__(self, publisher: Publisher) -> None:
        self.demand = Demand(asyncio.get_running_loop())
        self.probe = Probe(demand=self.demand, act=lambda probe: len(probe.values) == 1 and self.demand.withhold())
        self.probe.start(publisher.make())


async def _withheld(publisher: Publisher, dropped: DroppedErrors) -> None:
    ahead = publisher.needs_demand()
    run = _Made(publisher)
    await quiet()
    seen = len(run.probe.values)
    require(seen >= 1, "no value came while demand was ready")
    require(seen <= 1 + ahead, f"{seen - 1} values came while demand was withheld; {ahead} may")
    run.probe.dispose()
    await run.probe.end()
    run.probe.verify()


async def _resumed(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_demand()
    run = _Made(publisher)
    await quiet()
    run.demand.resume()
    await run.probe.end()
    run.probe.verify()
    equal(len(run.probe.values), publisher.count, "the number of values after demand returned")


async def _serial(publisher: Publisher, dropped: DroppedErrors) -> None:
    def cycle(probe: Probe) -> None:
        assert probe.demand is not None
        probe.demand.withhold()
        probe.demand.resume()

    demand = Demand(asyncio.get_running_loop())
    probe = await _to_end(publisher, Probe(demand=demand, act=cycle))
    probe.verify()
    equal(len(probe.values), publisher.count, "the number of values when demand is resumed inside of on_next")


async def _flat(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_values(4)
    demand = Demand(asyncio.get_running_loop())
    probe = await _to_end(publisher, Probe(demand=demand, act=lambda probe: demand.resume()))
    depths = probe.depths
    growing = all(after > before for before, after in pairwise(depths))
    require(not growing, f"the stack grew with each value: {depths[:8]} frames")


async def _fails(publisher: Publisher, dropped: DroppedErrors) -> None:
    if publisher.failing is None:
        raise SkippedRule("no failing publisher was given")
    probe = await Probe().start(publisher.failing()).end()
    await quiet()
    probe.verify()
    require(isinstance(probe.error, Exception), f"{probe.text}, where an error was expected")


async def _final(publisher: Publisher, dropped: DroppedErrors) -> None:
    if publisher.endless:
        raise SkippedRule("the publisher is endless")
    for make in filter(None, (publisher.make, publisher.failing)):
        probe = await Probe().start(make()).end()
        await quiet()
        probe.verify()


async def _shut(publisher: Publisher, dropped: DroppedErrors) -> None:
    if publisher.endless:
        raise SkippedRule("the publisher is endless")
    probe = await Probe(at_end=Probe.dispose).start(publisher.make()).end()
    probe.dispose()
    await quiet()
    probe.verify()


async def _disposed_inside(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_values()
    for at in range(1, publisher.count + 1):
        probe = Probe(act=lambda probe, at=at: len(probe.values) == at and probe.dispose())
        await probe.start(publisher.make()).end()
        await quiet()
        probe.verify()
        require(not probe.over and len(probe.values) == at, f"disposed at value {at}: {probe.text}")


async def _disposed_between(publisher: Publisher, dropped: DroppedErrors) -> None:
    loop = asyncio.get_running_loop()

    def soon(probe: Probe, at: int) -> None:
        if len(probe.values) == at:
            loop.call_soon(probe.dispose)

    for at in range(publisher.count + 1):
        probe = Probe(act=lambda probe, at=at: soon(probe, at)).start(publisher.make())
        if at == 0:
            probe.dispose()
        await probe.end()
        await quiet()
        probe.verify()


async def _from_thread(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_values()
    probe = Probe(bounded=True).start(publisher.make())
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, probe.dispose) for _ in range(2)))
    await quiet()
    await probe.idle()
    probe.verify()


async def _nops(publisher: Publisher, dropped: DroppedErrors) -> None:
    run = _Made(publisher)
    await asyncio.sleep(0)
    run.probe.dispose()
    for _ in range(3):
        run.demand.resume()
        run.demand.withhold()
        run.probe.dispose()
    run.demand.resume()
    await run.probe.end()
    await quiet()
    run.probe.verify()


class _Sink:
    """A sink of the kernel: `calls` in order; `dispose`: it disposes at once."""

    def __init__(self, dispose: bool) -> None:
        self.calls: list[str] = []
        self.upstream: Upstream | None = None
        self._dispose = dispose

    def on_subscribe(self, upstream: Upstream, /) -> None:
        self.calls.append("on_subscribe")
        self.upstream = upstream
        if self._dispose:
            upstream.dispose()

    def on_next(self, value: object, /) -> None:
        self.calls.append("on_next")

    def on_error(self, error: Exception, /) -> None:
        self.calls.append("on_error")

    def on_completed(self) -> None:
        self.calls.append("on_completed")


async def _attached(publisher: Publisher, dropped: DroppedErrors) -> None:
    for make in filter(None, (publisher.make, publisher.failing)):
        for dispose in (False, True):
            sink, scope = _Sink(dispose), Scope.here()
            attach(flow(make()), sink, scope)
            await quiet()
            if sink.upstream is not None:
                sink.upstream.dispose()
            await scope.work.idle()
            require(sink.calls[:1] == ["on_subscribe"], f"the first signals were {sink.calls[:3]}")
            equal(sink.calls.count("on_subscribe"), 1, "the number of on_subscribe signals")
            require(not dispose or len(sink.calls) == 1, f"disposed in on_subscribe, yet {sink.calls[1:4]} followed")


async def _cold(publisher: Publisher, dropped: DroppedErrors) -> None:
    if publisher.hot:
        raise SkippedRule(HOT)
    loop = asyncio.get_running_loop()
    before = _under_way(loop)
    source = publisher.make()
    for _ in range(20):
        await asyncio.sleep(0)
    begun = _under_way(loop) - before
    require(not begun, f"before a subscription there is {', '.join(begun)}")
    await _to_end(publisher, Probe(), source)


def _under_way(loop: asyncio.AbstractEventLoop) -> set[str]:
    return set(loop.pending()) if isinstance(loop, VirtualLoop) else {repr(task) for task in asyncio.all_tasks(loop)}


async def _again(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_repeats()
    source = publisher.make()
    for _ in range(3):
        await counted(publisher, source)


async def _at_once(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_concurrency()
    source = publisher.make()
    await asyncio.gather(*(counted(publisher, source) for _ in range(3)))


async def _left_alone(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_concurrency()
    publisher.needs_values()
    source = publisher.make()
    first = Probe(act=Probe.dispose).start(source)
    await counted(publisher, source)
    await first.end()
    first.verify()


async def _left_loop(publisher: Publisher, dropped: DroppedErrors) -> None:
    publisher.needs_values()
    async with flow(publisher.make()) as values:
        async for _ in values:
            break


async def _subscriber_fails(publisher: Publisher, dropped: DroppedErrors) -> None:
    def fail(probe: Probe) -> None:
        probe.disposed = True
        raise _SubscriberFault("raised by the subscriber")

    if publisher.endless:
        publisher.needs_values()
    # a fault in on_next, then one in the terminal signal
    probes = [Probe(act=fail, bounded=True)] if publisher.count else []
    for probe in [*probes, Probe(at_end=fail, bounded=True)]:
        expected = len(dropped) + 1
        probe.start(publisher.make())
        await quiet()
        await probe.idle()
        if not probe.disposed:
            probe.dispose()
            continue
        probe.verify()
        faults = [error for error in dropped if isinstance(error, _SubscriberFault)]
        require(len(faults) == len(dropped) == expected, f"the dropped errors were {list(dropped)!r:.200}")
    dropped.clear()


class _SubscriberFault(Exception):
    """Raised by a subscriber's callback."""


async def _forgets(publisher: Publisher, dropped: DroppedErrors) -> None:
    # held to the end: the publisher may stay, its subscriber must not
    source = publisher.make()

    async def left(source: Observable[object]) -> ref[Probe]:
        probe = Probe(act=Probe.dispose).start(source)
        await asyncio.sleep(0)
        probe.dispose()
        await probe.end()
        return ref(probe)

    subscriber = await left(source)
    await quiet()
    # eventually: a thread that was abandoned may still be about to let go
    for _ in range(LET_GO_TURNS):
        if not _is_held(subscriber):
            break
        await asyncio.sleep(0)
    require(subscriber() is None, f"the subscriber is still referred to after its disposal, by {source!r:.100}")


def _is_held(subscriber: ref[Probe]) -> bool:
    """True if it is still referred to, a moment later."""
    gc.collect()
    if subscriber() is None:
        return False
    time.sleep(0.01)
    return True


RULES = (
    Rule("1.01", "no more values come than are requested", _withheld),
    Rule("1.03", "signals are serial, also if demand returns inside of on_next (3.02, 3.10, 3.11)", _serial),
    Rule("1.04", "a failure is one on_error with an Exception", _fails),
    Rule("1.06", "the terminal signal ends the subscription; a disposal then does nothing (2.04)", _shut),
    Rule("1.07", "no signal follows a terminal one", _final),
    Rule("1.08", "no signal follows a disposal inside of a signal (2.08, 3.12)", _disposed_inside),
    Rule("1.09", "on_subscribe comes once and first (2.12); after a disposal in it nothing follows", _attached),
    Rule("1.10", "each subscription is a new run of the same Observable", _again),
    Rule("1.11", "subscriptions at the same time each get the whole run", _at_once),
    Rule("2.06", "a loop over the values that is left disposes the run", _left_loop),
    Rule("2.13", "an exception of a subscriber disposes the run and is reported", _subscriber_fails),
    Rule("3.03", "values do not deepen the stack", _flat),
    Rule("3.05", "a disposal from other threads, several at once, ends the run", _from_thread),
    Rule("3.06", "after a disposal demand and another disposal do nothing (3.07, 3.15, 3.16)", _nops),
    Rule("3.08", "demand that returns brings the rest", _resumed),
    Rule("3.12", "no signal follows a disposal between signals, nor one before the first", _disposed_between),
    Rule("3.13", "after a disposal the subscriber is not referred to", _forgets),
    Rule("3.14", "one subscription's disposal leaves the others alone", _left_alone),
    Rule("cold", "nothing runs before a subscription", _cold),
)

NOT_APPLICABLE = {
    "1.02": "a permission",
    "2.01": "demand is ready unless the subscriber withholds it; runs without demand are the other rules' runs (3.17)",
    "2.02": "an obligation of the subscriber",
    "2.03": "stricter here: a terminal signal may dispose, which 1.06 checks",
    "2.05": "a subscription has one publisher",
    "2.07": "dispose() is thread-safe, which 3.05 checks",
    "2.09": "an obligation of the subscriber",
    "2.10": "an obligation of the subscriber",
    "2.11": "signals and their processing are on one thread",
    "3.01": "dispose() may be called anywhere",
    "3.04": "resuming demand calls no subscriber",
    "3.09": "demand has no number",
}
