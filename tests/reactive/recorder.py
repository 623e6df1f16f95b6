"""A subscriber that writes down what it hears, when, and checks the grammar of signals."""

from __future__ import annotations

import asyncio
from typing import Any

from reactivex import Observable

from agentscope_rx.reactive import Flow, flow


class Recorder:
    """Listens to one run. `heard` is the values, then "|" or the error; `at` the times of the loop's clock."""

    def __init__(self, dispose_at: int | None = None) -> None:
        self.heard: list[Any] = []
        self.at: list[float] = []
        self.over = False
        self.disposed = False
        self.subscription: Any = None
        self._dispose_at = dispose_at
        self._busy = False
        self._ended = asyncio.Event()

    def listen(self, source: Observable[Any]) -> Recorder:
        self.subscription = flow(source).subscribe(self.on_next, self.on_error, self.on_completed)
        if self._dispose_at == 0:
            self.dispose()
        return self

    def dispose(self) -> None:
        self.disposed = True
        self.subscription.dispose()
        self._ended.set()

    async def end(self) -> Recorder:
        await self._ended.wait()
        return self

    def _hear(self, what: Any) -> None:
        assert not self.over, f"{what!r} after the end"
        assert not self.disposed, f"{what!r} after dispose()"
        assert not self._busy, f"{what!r} overlaps another signal"
        self.heard.append(what)
        self.at.append(asyncio.get_running_loop().time())

    def on_next(self, value: Any) -> None:
        self._hear(value)
        if self.subscription is not None and len(self.heard) == self._dispose_at:
            self.dispose()

    def on_error(self, error: Exception) -> None:
        self._hear(error)
        self.over = True
        self._ended.set()

    def on_completed(self) -> None:
        self._hear("|")
        self.over = True
        self._ended.set()

    @property
    def timeline(self) -> list[tuple[float, Any]]:
        return list(zip(self.at, self.heard, strict=True))


async def record(source: Observable[Any], dispose_at: int | None = None) -> Recorder:
    """Listen to the end, or to the n-th value."""
    return await Recorder(dispose_at).listen(source).end()


def after(delay: float, *values: Any, error: Exception | None = None, log: list[str] | None = None) -> Flow[Any]:
    """A task source: waits, emits the values without pause, then completes or fails; logs its start and its end."""
    from agentscope_rx.reactive import from_async_iterable

    async def items() -> Any:
        if log is not None:
            log.append("start")
        try:
            await asyncio.sleep(delay)
            for value in values:
                yield value
            if error is not None:
                raise error
        finally:
            if log is not None:
                log.append("end")

    return from_async_iterable(items)


async def turns(n: int = 5) -> None:
    """Let the loop run what is ready."""
    for _ in range(n):
        await asyncio.sleep(0)
