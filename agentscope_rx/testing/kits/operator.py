"""`check_operator`: an operator over a source that waits, one that does not, and one that is no Flow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar, cast

import reactivex
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import Demand, Flow, flow, from_async_iterable, from_iterable
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, SkippedRule, equal, quiet, require
from agentscope_rx.testing.record import DroppedErrors

A = TypeVar("A")
B = TypeVar("B")

AnyOperator = Callable[[Observable[object]], Observable[object]]
VALUES = (1, 2, 3, 4, 5)


def check_operator(
    operator: Callable[[Observable[A]], Observable[B]],
    *,
    values: Sequence[A] | None = None,
    expected: Sequence[B] | None = None,
    ahead: int | None = 0,
    catches: bool = False,
    name: str | None = None,
) -> KitReport:
    """Check an operator, also as a publisher, over sources of `values`, by default of 1 to 5.

    `expected` are the values that it must emit for them. `ahead` is the number of values that it may emit, and read
    from its source, after demand is withheld; None if it needs all of the source at once. An operator that `catches`
    keeps the error of its source to itself.
    """
    if not callable(operator):
        raise ConfigurationError(f"check_operator takes an operator, such as ops.scan(...), not {operator!r:.60}.")
    kit = Kit(name or _name_of(operator))
    taken: tuple[object, ...] = VALUES if values is None else tuple(values)
    applied = cast("AnyOperator", operator)
    case = _Case(applied, taken, None if expected is None else list[object](expected), ahead, catches)
    for law in LAWS:
        kit.check(law[0], law[1], partial(law[2], case))
    failing = None if catches else (lambda: applied(_Source(case.values[:2], _SourceFault()).waiting()))
    apply_rules(kit, Publisher(lambda: applied(_Source(case.values).waiting()), failing, ahead), "waiting ")
    apply_rules(kit, Publisher(lambda: applied(_Source(case.values).immediate()), ahead=ahead), "immediate ")
    return kit.report()


def _name_of(operator: object) -> str:
    # of the function that returned it: `concat_map.<locals>.<lambda>` is `concat_map`
    name = getattr(operator, "__qualname__", repr(operator))
    return str(name).partition(".<locals>")[0]


class _SourceFault(Exception):
    """The error of a failing source."""


class _Source:
    """A source that counts its subscriptions and reads, and notes that it was closed."""

    def __init__(self, values: Sequence[object], error: Exception | None = None) -> None:
        self.subscribed = 0
        self.read = 0
        self.open = 0
        self._values = values
        self._error = error

    def waiting(self) -> Flow[object]:
        """The values, a second apart."""
        return from_async_iterable(self._wait)

    def immediate(self) -> Flow[object]:
        """The values, synchronously while there is demand."""
        return from_iterable(_Fresh(self._items))

    def foreign(self) -> Observable[object]:
        """The values from an Observable that is no Flow."""
        return reactivex.defer(lambda scheduler: reactivex.from_iterable(_Fresh(self._items)))

    def _items(self) -> Iterator[object]:
        self._begin()
        try:
            for value in self._values:
                self.read += 1
                yield value
            if self._error is not None:
                raise self._error
        finally:
            self.open -= 1

    async def _wait(self) -> AsyncIterator[object]:
        self._begin()
        try:
            for value in self._values:
                await asyncio.sleep(1)
                self.read += 1
                yield value
            if self._error is not None:
                raise self._error
        finally:
            self.open -= 1

    def _begin(self) -> None:
        self.subscribed += 1
        self.open += 1


class _Fresh:
    """An iterable with a new generator for each iteration."""

    def __init__(self, make: Callable[[], Iterator[object]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[object]:
        return self._make()


class _Case:
    """The operator and what is known of it."""

    def __init__(
        self,
        operator: AnyOperator,
        values: tuple[object, ...],
        expected: list[object] | None,
        ahead: int | None,
        catches: bool,
    ) -> None:
        self.operator = operator
        self.values = values
        self.expected = expected
        self.ahead = ahead
        self.catches = catches


async def _cold(case: _Case, dropped: DroppedErrors) -> None:
    source = _Source(case.values)
    made = case.operator(source.waiting())
    await quiet()
    equal(source.subscribed, 0, "the number of subscriptions to the source before any to the operator")
    probe = await Probe().start(made).end()
    equal(source.subscribed, 1, "the number of subscriptions to the source for one to the operator")
    equal(source.open, 0, "the number of open sources at the end")
    probe.verify()


async def _values(case: _Case, dropped: DroppedErrors) -> None:
    for make in (_Source.waiting, _Source.immediate, _Source.foreign):
        expected = case.expected
        for number in range(2):
            probe = await Probe().start(case.operator(make(_Source(case.values)))).end()
            probe.verify()
            require(probe.completed, f"{probe.text}, over a source of kind {make.__name__}")
            if number or expected is not None:
                equal(probe.values, expected, f"the values over a source of kind {make.__name__}")
            # the state of an operator belongs to a subscription
            expected = probe.values


async def _errors(case: _Case, dropped: DroppedErrors) -> None:
    if case.catches:
        raise SkippedRule("the operator catches errors")
    for make in (_Source.waiting, _Source.immediate, _Source.foreign):
        error = _SourceFault("raised by the source")
        probe = await Probe().start(case.operator(make(_Source(case.values[:2], error)))).end()
        probe.verify()
        require(probe.error is error, f"{probe.text}, where the source's own error was expected ({make.__name__})")


async def _disposed(case: _Case, dropped: DroppedErrors) -> None:
    total = await Probe().start(case.operator(_Source(case.values).waiting())).end()
    for at in range(len(total.values) + 1):
        source = _Source(case.values)
        probe = Probe(act=lambda probe, at=at: len(probe.values) == at and probe.dispose())
        probe.start(case.operator(source.waiting()))
        if at == 0:
            await asyncio.sleep(0.5)
            probe.dispose()
        await probe.end()
        read = source.read
        await quiet()
        probe.verify()
        equal(source.open, 0, f"the number of open sources after a disposal at value {at}")
        equal(source.read, read, f"the number of reads after a disposal at value {at}")


async def _taken(case: _Case, dropped: DroppedErrors) -> None:
    for make in (_Source.waiting, _Source.immediate):
        source = _Source(case.values)
        probe = await Probe().start(flow(case.operator(make(source))).pipe(ops.take(1))).end()
        await quiet()
        probe.verify()
        equal(source.open, 0, "the number of open sources behind a take(1)")


async def _demand(case: _Case, dropped: DroppedErrors) -> None:
    if case.ahead is None:
        raise SkippedRule("the operator needs the whole source")
    for make in (_Source.waiting, _Source.immediate):
        demand, source = Demand(asyncio.get_running_loop()), _Source(case.values)
        reads: list[int] = []

        def hold(probe: Probe, demand: Demand = demand, source: _Source = source, reads: list[int] = reads) -> None:
            if not reads:
                reads.append(source.read)
                demand.withhold()

        probe = Probe(demand=demand, act=hold).start(case.operator(make(source)))
        await quiet()
        if reads:
            most = reads[0] + case.ahead
            require(source.read <= most, f"{source.read} values were read while demand was withheld; {most} may")
        demand.resume()
        await probe.end()
        probe.verify()
        require(probe.completed, f"{probe.text} after demand had returned")


LAWS = (
    ("cold", "the source is subscribed to with the operator, once, and closed at the end", _cold),
    ("values", "it emits what is expected, or else the same in each run, over a source of any kind", _values),
    ("errors", "the error of the source reaches the subscriber", _errors),
    ("disposal", "a disposal at any point closes the source, and nothing more is read", _disposed),
    ("early end", "a subscriber that has enough closes the source", _taken),
    ("demand", "while demand is withheld the source is not read on", _demand),
)
