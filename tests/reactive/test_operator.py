"""The base of sources and operators: what each of them does with the sink that it is attached to."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable

import agentscope_rx.reactive
from agentscope_rx.reactive import (
    Flow,
    OneShotEvent,
    Rate,
    RetryPolicy,
    Scope,
    Semaphore,
    admitted,
    append_if_missing,
    catch,
    concat,
    concat_map,
    concat_map_type,
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
    merge_ordered,
    next_turn,
    on_worker,
    recurse,
    retry,
    shield,
    take_until,
    then,
    throw,
    timeout,
    timer,
    transform_type,
    using,
)
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow, Producer
from agentscope_rx.testing import run_virtual
from tests.reactive.recorder import record, turns


async def one() -> int:
    return 1


async def items() -> AsyncIterator[int]:
    yield 1


SOURCES: dict[str, Callable[[], Flow[Any]]] = {
    "just": lambda: just(1),
    "just several": lambda: just(1, 2),
    "from_iterable": lambda: from_iterable([1]),
    "empty": empty,
    "throw": lambda: throw(ValueError("x")),
    "defer": lambda: defer(lambda: just(1)),
    "timer": lambda: timer(1),
    "from_callable": lambda: from_callable(one),
    "from_awaitable": lambda: from_awaitable(one()),
    "from_async_iterable": lambda: from_async_iterable(items),
    "on_worker": lambda: on_worker(lambda: 1),
    "iterate_on_worker": lambda: iterate_on_worker(lambda: [1]),
}
OPERATORS: dict[str, Callable[[Flow[Any]], Flow[Any]]] = {
    "admitted": lambda source: admitted((Semaphore(1), Rate(1, per=1).limiter()), lambda waited: source),
    "append_if_missing": append_if_missing(str, str),
    "catch": catch(lambda error: just(1)),
    "concat": lambda source: concat(source, just(1)),
    "concat_map": concat_map(lambda value: value),
    "concat_map(prefetch)": concat_map(lambda value: value, prefetch=1),
    "concat_map_type": concat_map_type(int, just),
    "flat_map": flat_map(just),
    "flat_map_iterable": flat_map_iterable(lambda value: [value]),
    "hedge": hedge(1, shows=lambda value: True),
    "merge_ordered": lambda source: merge_ordered([source, just(1)]),
    "next_turn": next_turn,
    "recurse": lambda source: recurse(lambda: source),
    "retry": retry(RetryPolicy()),
    "semaphore": Semaphore(1).around,
    "shield": shield,
    "take_until": take_until(OneShotEvent()),
    "take_until(grace)": take_until(OneShotEvent(), grace=1),
    "then": then(lambda: just(1)),
    "timeout": timeout(first=1, idle=1, total=1),
    "timeout(total)": timeout(total=1),
    "transform_type": transform_type(int, lambda values: values),
    "using": lambda source: using(lambda: just(1), lambda resource: source, lambda resource, outcome: None),
}


class Probe:
    """A sink that keeps all calls and can dispose as soon as it has a disposable."""

    def __init__(self, dispose: bool = False) -> None:
        self.calls: list[str] = []
        self._dispose = dispose

    def on_subscribe(self, upstream: Any) -> None:
        self.calls.append("subscribe")
        if self._dispose:
            upstream.dispose()
            upstream.dispose()

    def on_next(self, value: object) -> None:
        self.calls.append("next")

    def on_error(self, error: Exception) -> None:
        self.calls.append("error")

    def on_completed(self) -> None:
        self.calls.append("completed")


async def settle() -> None:
    await timer(5)
    await turns()


FLOWS = {
    **SOURCES,
    **{name: lambda operator=operator: operator(timer(1)) for name, operator in OPERATORS.items()},
}


@pytest.mark.parametrize("make", FLOWS.values(), ids=FLOWS)
def test_the_disposable_comes_first_and_once(make: Callable[[], Flow[Any]]) -> None:
    async def main() -> None:
        probe = Probe()
        attach(make(), probe, Scope.here())
        await settle()
        assert probe.calls[0] == "subscribe" and probe.calls.count("subscribe") == 1
        assert probe.calls[-1] in ("completed", "error")
        assert probe.calls.count("completed") + probe.calls.count("error") == 1

    run_virtual(main())


@pytest.mark.parametrize("make", FLOWS.values(), ids=FLOWS)
def test_nothing_follows_a_disposal_at_the_start(make: Callable[[], Flow[Any]]) -> None:
    async def main() -> None:
        probe = Probe(dispose=True)
        attach(make(), probe, Scope.here())
        await settle()
        assert probe.calls == ["subscribe"]

    run_virtual(main())


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_a_source_is_not_attached_after_disposal(operator: Callable[[Flow[Any]], Flow[Any]]) -> None:
    async def main() -> None:
        attached: list[int] = []
        attach(operator(defer(lambda: just(attached.append(1)))), Probe(dispose=True), Scope.here())
        await settle()
        assert attached == []

    run_virtual(main())


class _Every(OperatorSink):
    def __init__(self, n: int, sink: Sink[Any], scope: Scope) -> None:
        super().__init__()
        self._n = n
        self._seen = 0
        self._sink = sink

    def on_next(self, value: object) -> None:
        self._seen += 1
        if self._seen % self._n == 0:
            self._sink.on_next(value)

    def on_error(self, error: Exception) -> None:
        self._upstream = None
        self._sink.on_error(error)

    def on_completed(self) -> None:
        self._upstream = None
        self._sink.on_completed()


def every(n: int) -> Callable[[Observable[int]], Flow[int]]:
    return partial(OperatorFlow, partial(_Every, n))


def test_each_subscription_has_a_link_of_its_own() -> None:
    async def main() -> None:
        second = just(1, 2, 3).pipe(every(2))
        assert (await record(second)).heard == [2, "|"]
        assert (await record(second)).heard == [2, "|"]
        assert repr((await record(throw(ValueError("x")).pipe(every(2)))).heard) == "[ValueError('x')]"

    run_virtual(main())


def test_a_producer_starts_with_what_it_was_made_of() -> None:
    class Countdown:
        disposed = False

        def __init__(self, sink: Sink[int], scope: Scope) -> None:
            self._sink = sink

        def start(self, count: int) -> None:
            for value in range(count, 0, -1):
                if not self.disposed:
                    self._sink.on_next(value)
            self._sink.on_completed()

        def dispose(self) -> None:
            self.disposed = True

    async def main() -> None:
        assert (await record(Producer(Countdown, 3))).heard == [3, 2, 1, "|"]

    run_virtual(main())


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports, also for types."""
    tree = ast.parse(path.read_text())
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def test_modules_import_each_other_in_one_direction() -> None:
    root = Path(agentscope_rx.reactive.__file__).parent
    base = root.parent.parent
    modules = {
        ".".join(path.relative_to(base).with_suffix("").parts): path
        for path in root.rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {name: imports_of(path) & modules.keys() for name, path in modules.items()}
    bridge, kernel_flow = (f"agentscope_rx.reactive.kernel.{name}" for name in ("bridge", "flow"))
    # `await flow` and `async for` are methods of Flow, and the bridge is what they do
    graph[kernel_flow] -= {bridge}
    while leaves := [name for name, needs in graph.items() if not needs]:
        for name in leaves:
            del graph[name]
        for needs in graph.values():
            needs.difference_update(leaves)
    assert not graph, f"these import each other: {sorted(graph)}"


def test_flow_accepts_an_operator_s_result() -> None:
    made = just(1).pipe(every(1))
    assert flow(made) is made
