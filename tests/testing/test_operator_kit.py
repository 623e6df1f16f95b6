"""`check_operator` rejects what breaks a law: one fault for each law, so that none is vacuous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.reactive import Flow, Scope, concat_map, flat_map, just
from agentscope_rx.reactive.kernel.observer import OperatorSink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow
from agentscope_rx.testing import check_operator
from agentscope_rx.testing.kits import publisher_rules
from tests.testing.faults import broken


class Passing(OperatorSink):
    """Passes everything on; the base of the faulty ones."""

    def __init__(self, sink: Any, scope: Scope) -> None:
        super().__init__()
        self.sink = sink
        self.scope = scope

    def on_next(self, value: Any) -> None:
        self.sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self.sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self.sink.on_completed()


class Rewrites(Passing):
    def on_error(self, error: Exception) -> None:
        super().on_error(ValueError("another"))


class OneState(Passing):
    """Keeps a state of its own for all subscriptions."""

    count = 0

    def on_next(self, value: Any) -> None:
        type(self).count += 1
        self.sink.on_next(type(self).count)


class Deaf(Passing):
    def dispose(self) -> None:
        self.disposed = True


class Late(Passing):
    """Goes on behind a disposal while a value is under way."""

    def on_next(self, value: Any) -> None:
        self.sink.on_next(value)
        if self.disposed:
            self.sink.on_next(value)


def over(link: Any) -> Callable[[Any], Any]:
    return partial(OperatorFlow, link)


class Eager(Flow[Any]):
    """Subscribes as it is made."""

    def __init__(self, source: Observable[Any]) -> None:
        super().__init__(lambda sink, scope: attach(source, sink, scope))
        if asyncio._get_running_loop() is not None:
            source.subscribe(lambda value: None, lambda error: None)


def undemanding(source: Observable[Any]) -> Observable[Any]:
    return Flow(lambda sink, scope: attach(source, sink, Scope(scope.loop, scope.context, None, scope.work)))


def twice(source: Observable[Any]) -> Observable[Any]:
    return just(1).pipe(concat_map(lambda _: source), flat_map(just)).pipe(ops.merge(source.pipe(ops.filter(bool))))


OPERATORS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "subscribes at once": (Eager, "cold", {}),
    "subscribes twice": (twice, "cold", {}),
    "wrong values": (over(Passing), "values", {"expected": [1, 2]}),
    "one state for all runs": (over(OneState), "values", {}),
    "another error": (over(Rewrites), "errors", {}),
    "keeps its source open": (over(Deaf), "disposal", {}),
    "a value after disposal": (over(Late), "disposal", {}),
    "has no demand": (undemanding, "demand", {}),
}


@pytest.mark.parametrize("fault", OPERATORS)
def test_a_fault_of_an_operator_is_found(fault: str):
    operator, rule, given = OPERATORS[fault]
    broken(lambda: check_operator(operator, name=fault, **given), rule)


def test_an_operator_that_cannot_end_early_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publisher_rules, "LET_GO_TURNS", 1)

    class Stubborn(Passing):
        """Hears a disposal in a later turn only."""

        def dispose(self) -> None:
            first, self.disposed = not self.disposed, True
            if first and self.scope.demand is None and self.seen > 1:
                super().dispose()

        seen = 0

        def on_next(self, value: Any) -> None:
            self.seen += 1
            if not self.disposed:
                self.sink.on_next(value)

    broken(lambda: check_operator(over(Stubborn)), "disposal")
    # the laws of a publisher are checked of an operator too
    broken(lambda: check_operator(over(lambda sink, scope: Keeps(sink, scope))), "waiting 3.13")


class Keeps(Passing):
    kept: list[object] = []

    def __init__(self, sink: Any, scope: Scope) -> None:
        super().__init__(sink, scope)
        self.kept.append(sink)


def test_a_good_operator_passes_and_its_report_says_what_ran():
    report = check_operator(over(Passing), expected=[1, 2, 3, 4, 5], name="passing")
    assert report.checked[:6] == ("cold", "values", "errors", "disposal", "early end", "demand")
    assert {"waiting 1.04", "immediate 3.13", "waiting loops, second"} <= set(report.checked)


def test_a_dropped_error_is_named_where_a_rule_does_not_end():
    class Raises(Passing):
        def on_next(self, value: Any) -> None:
            raise LookupError("no such value")

    error = broken(lambda: check_operator(over(Raises)), "cold")
    assert "had not ended" in error.seen and "no such value" in error.seen
