"""Machines whose clocks and processes the tests set, and stores that are slow or fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agentscope_rx.errors import SessionStorageError
from agentscope_rx.reactive import Flow, defer, never, then, throw, timer
from agentscope_rx.session import InMemorySession, LeasePolicy, Saved, Session, SessionLease
from agentscope_rx.session.lease import Machine, Process, WhenHeld

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class FakeMachine(Machine):
    """One process of a machine: uptime and clock follow the loop; `ahead` is by how much the clock is wrong."""

    def __init__(self, pid: int = 1, host: str = "one", *, dead: set[int] | None = None) -> None:
        super().__init__()
        self.pid, self.host = pid, host
        self.ahead = 0.0
        self.dead: set[int] = set() if dead is None else dead

    def process(self) -> Process:
        return Process(self.host, f"boot of {self.host}", "pids", self.pid, "0")

    def has_ended(self, process: Process) -> bool:
        return process.host == self.host and process.pid in self.dead

    def uptime(self) -> float:
        return 1000.0 + asyncio.get_event_loop().time()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=asyncio.get_event_loop().time() + self.ahead)


def lease(session: Session, machine: Machine, when_held: WhenHeld = "error", **options: Any) -> SessionLease:
    return SessionLease(session, "k", LeasePolicy(when_held, machine=machine, **options))


async def entry(session: Session) -> dict[str, Any]:
    found = await session.load("k", "lease")
    assert isinstance(found, dict)
    return found


async def is_free(session: Session) -> bool:
    return (await entry(session))["holder"] is None


class Store(InMemorySession):
    """Takes `seconds` for each operation; an operation is numbered, and fails or hangs if `fault` says so."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds
        self.operations = 0
        self.writes = 0
        self.fault: Callable[[int], str | None] = lambda number: None

    def save_all(
        self, key: str, values: Mapping[str, object], lists: Mapping[str, Any] | None = None, **options: Any
    ) -> Flow[str | None]:
        saving = super().save_all(key, values, lists, **options)

        def save() -> Flow[str | None]:
            self.writes += 1
            return self._slowly(saving)

        return defer(save)

    def load_all(self, key: str, names: Sequence[str] | None = None) -> Flow[Saved]:
        loading = super().load_all(key, names)
        return defer(lambda: self._slowly(loading))

    def _slowly(self, operation: Flow[Any]) -> Flow[Any]:
        self.operations += 1
        fault = self.fault(self.operations)
        error = SessionStorageError("k", "store", "down")
        if fault == "hang":
            return never()
        if fault == "fail":
            return throw(error)
        if fault == "unsure":
            return operation.pipe(then(lambda: throw(error)))
        return timer(self.seconds).pipe(then(lambda: operation)) if self.seconds else operation
