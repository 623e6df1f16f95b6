"""pytest: tests in virtual time, and fixtures that fail a test for leaks. Enable it in a `conftest.py`:

    pytest_plugins = ["agentscope_rx.testing.pytest_plugin"]

| name                   | gives                                                                                  |
|------------------------|----------------------------------------------------------------------------------------|
| `@pytest.mark.virtual` | an `async def` test, also a property test of hypothesis, runs in virtual time          |
| `virtual`              | runs a coroutine or a flow from a plain test, and returns its (last) value             |
| `dropped_errors`       | the errors that were dropped; those that the test leaves in the list fail it           |

The mark takes `limit` and `patience`, as `run_virtual` does. Both ways of running fail a test that leaves a task, a
timer or a worker job.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from typing import Protocol, TypeVar, cast

import pytest
from reactivex import Observable

from agentscope_rx.testing.record import DroppedErrors, collect_dropped
from agentscope_rx.testing.virtual_time import DAY, run_virtual

T = TypeVar("T")


_Test = Callable[..., Coroutine[object, object, object]]


class _Property(Protocol):
    """The attribute that hypothesis sets on a test."""

    inner_test: Callable[..., object]


class RunVirtual(Protocol):
    """The fixture `virtual`; see `run_virtual`."""

    def __call__(
        self, main: Coroutine[object, object, T] | Observable[T], *, limit: float = DAY, patience: float = 20.0
    ) -> T: ...


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", "virtual(limit, patience): run this async test on a loop in virtual time")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test; leave others to pytest."""
    mark = pyfuncitem.get_closest_marker("virtual")
    if mark is None:
        return None
    function = cast("_Test", pyfuncitem.obj)
    options = cast("dict[str, float]", mark.kwargs)
    property_test = cast("_Property | None", getattr(function, "hypothesis", None))
    if property_test is not None:
        if inspect.iscoroutinefunction(property_test.inner_test):
            property_test.inner_test = _virtual(property_test.inner_test, options)
        return None
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    _virtual(function, options)(**{name: value for name, value in pyfuncitem.funcargs.items() if name in names})
    return True


def _virtual(function: _Test, options: dict[str, float]) -> Callable[..., object]:
    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        return run_virtual(function(*args, **kwargs), **options)

    # with `__wrapped__`, inspect would take it for a coroutine function
    del run.__wrapped__
    return run


@pytest.fixture
def virtual() -> RunVirtual:
    """Runs a coroutine or a flow in virtual time."""
    return run_virtual


@pytest.fixture
def dropped_errors() -> Generator[DroppedErrors]:
    """The errors dropped by the test; remove the expected ones (`clear`, `remove`)."""
    with collect_dropped() as errors:
        yield errors
    if errors:
        pytest.fail("\n".join(f"dropped: {error!r}" for error in errors), pytrace=False)
