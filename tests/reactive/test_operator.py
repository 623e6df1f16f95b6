"""The base of sources and operators: what each of them does with the sink that it is attached to."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable

import agentscope_rx.reactive
from agentscope_rx.reactive import Flow, Scope, defer, flow, just, shield, throw, timer
from agentscope_rx.reactive.kernel.observer import OperatorSink, Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow, Producer
from agentscope_rx.testing import run_virtual
from tests.reactive.catalogue import OPERATORS
from tests.reactive.recorder import record, turns


class Disposing:
    """A sink that disposes as soon as it has a disposable."""

    def on_subscribe(self, upstream: Any) -> None:
        upstream.dispose()

    def on_next(self, value: object) -> None:
        raise AssertionError("on_next after a disposal")

    def on_error(self, error: Exception) -> None:
        raise AssertionError("on_error after a disposal")

    def on_completed(self) -> None:
        raise AssertionError("on_completed after a disposal")


# (that the disposable comes first and once, and nothing after a disposal, are rules of `check_publisher`)
# (`onward` evaluates its source when it is made)
@pytest.mark.parametrize("name", sorted({*OPERATORS, "shield"} - {"onward"}))
def test_a_source_is_not_attached_after_disposal(name: str) -> None:
    operator = shield if name == "shield" else OPERATORS[name][0]

    async def main() -> None:
        attached: list[int] = []
        attach(operator(defer(lambda: just(attached.append(1)))), Disposing(), Scope.here())
        await timer(5)
        await turns()
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
