"""One run of a verifier's script: the subscription, the signals it has received, and the steps so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from types import AsyncGeneratorType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, cast

from reactivex import Observable

from agentscope_rx.reactive import Demand, Scope
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.testing.record import RecordedSignal, Recording

T = TypeVar("T")

SAME_TIME = 1e-9
"""Times that differ by less are equal, because sums of seconds are rounded."""


class Step(NamedTuple):
    """A step of a script: its text for messages, and its action."""

    text: str
    act: Callable[[ScriptRunner], object]


class ScriptRunner:
    """Subscribes to a flow and checks its signals in order, each once."""

    def __init__(self, source: Observable[Any], within: float, demand: int | None) -> None:
        self.record: Recording[Any] = Recording()
        self._source = source
        self._within = within
        self._checked = 0
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._more: asyncio.Future[None] | None = None
        self._requested = demand
        self._demand: Demand | None = None if demand is None else Demand(self._loop)
        self._scope = Scope.here(self._demand)
        self._subscription: Subscription[Any] = Subscription(self._scope, self._next, self._error, self._completed)
        self._open_before = set(map(id, _open_generators(self._loop)))

    async def play(self, steps: Sequence[Step]) -> Recording[Any]:
        """Subscribe, take the steps, wait for the clean-up, and check that nothing is left."""
        self.request(0)
        self._subscription.start(self._source)
        try:
            for number, (text, act) in enumerate(steps, 1):
                await self._take(f"step {number}, {text}", act)
        finally:
            self._subscription.dispose()
            idle = await self._idle()
        if not idle:
            raise AssertionError(f"the run's work had not ended {self._within:g} s later\n{self.record.as_text()}")
        self._check_generators()
        return self.record

    async def _take(self, step: str, act: Callable[[ScriptRunner], object]) -> None:
        try:
            done = act(self)
            if isawaitable(done):
                await done
        except _Mismatch as mismatch:
            shown = self.record.as_text(mismatch.index)
            raise AssertionError(f"{step}: {mismatch}\n{shown}") from mismatch.__cause__
        except Exception as failure:
            failure.add_note(f"in {step}\n{self.record.as_text()}")
            raise

    # --- steps -----------------------------------------------------------------------------------------------------

    def fail(self, text: str, index: int | None = None) -> NoReturn:
        """Fail the step, at the signal of this index."""
        raise _Mismatch(text, index)

    async def expect_value(self, matches: Callable[[Any], object]) -> None:
        """The next signal is a value that matches."""
        signal = await self._take_signal("next")
        if not matches(signal.value):
            self.fail(f"{signal}", self._checked - 1)

    async def expect_values(self, count: int) -> None:
        """The next `count` signals are values."""
        for _ in range(count):
            await self._take_signal("next")

    async def expect_eventually(self, matches: Callable[[Any], object]) -> None:
        """A value that matches comes before the end."""
        while not matches((await self._take_signal("next")).value):
            pass

    async def expect_end(self, kind: Literal["completed", "error"], matches: Callable[[RecordedSignal], bool]) -> None:
        """The next signal is this end of the flow, and it matches."""
        signal = await self._take_signal(kind)
        if not matches(signal):
            cause = signal.value if isinstance(signal.value, Exception) else None
            raise _Mismatch(f"{signal}", self._checked - 1) from cause

    async def expect_at(
        self, at: float, kind: Literal["next", "completed", "error"], matches: Callable[[RecordedSignal], object]
    ) -> None:
        """The next signal is of this kind, comes at this time after the subscription, and matches."""
        signal = await self._take_signal(kind)
        if abs(signal.at - at) > SAME_TIME or not matches(signal):
            self.fail(f"{signal}", self._checked - 1)

    async def expect_silence(self, seconds: float) -> None:
        """No signal comes within so many seconds."""
        until = self._loop.time() + seconds
        if self._checked < len(self.record.signals) or await self._wait_for_signal(seconds):
            signal = self.record.signals[self._checked]
            if signal.at < until - self._began - SAME_TIME:
                self.fail(f"{signal}", self._checked)
        await asyncio.sleep(until - self._loop.time())

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def call(self, action: Callable[[], object]) -> None:
        """Call a function of the test; its result is awaited if possible."""
        answer = action()
        if isawaitable(answer):
            await answer

    def request(self, count: int) -> None:
        """Request more values."""
        if self._demand is not None and self._requested is not None:
            self._requested += count
            if self._requested > 0:
                self._demand.resume()
            else:
                self._demand.withhold()

    def dispose(self) -> None:
        """Dispose the subscription, which must not have ended."""
        if self.record.signals and self.record.signals[-1].signal != "next":
            self.fail("the flow had ended", len(self.record.signals) - 1)
        self._subscription.dispose()

    # --- signals --------------------------------------------------------------------------------------------------

    async def _take_signal(self, wanted: Literal["next", "error", "completed"]) -> RecordedSignal:
        """The next signal, which must be of this kind."""
        if self._checked == len(self.record.signals) and not await self._wait_for_signal(self._within):
            self.fail(f"nothing came within {self._within:g} s")
        signal = self.record.signals[self._checked]
        self._checked += 1
        if signal.signal != wanted:
            cause = signal.value if isinstance(signal.value, Exception) and signal.signal == "error" else None
            raise _Mismatch(f"{signal}", self._checked - 1) from cause
        return signal

    async def _wait_for_signal(self, seconds: float) -> bool:
        """True if a signal comes within so many seconds."""
        self._more = self._loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._more
        except TimeoutError:
            return False
        finally:
            self._more = None
        return True

    def _next(self, value: object) -> None:
        self.record.values.append(value)
        self.request(-1)
        self._record(RecordedSignal(self._now(), "next", value))

    def _error(self, error: Exception) -> None:
        self._record(RecordedSignal(self._now(), "error", error))

    def _completed(self) -> None:
        self._record(RecordedSignal(self._now(), "completed"))

    def _record(self, signal: RecordedSignal) -> None:
        self.record.signals.append(signal)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _now(self) -> float:
        return self._loop.time() - self._began

    # --- clean-up -------------------------------------------------------------------------------------------------

    async def _idle(self) -> bool:
        """True if the work of the run ends in time."""
        try:
            async with asyncio.timeout(self._within):
                await self._scope.work.idle()
        except TimeoutError:
            return False
        return True

    def _check_generators(self) -> None:
        held = [each for each in _open_generators(self._loop) if id(each) not in self._open_before]
        if held:
            names = ", ".join(each.__qualname__ for each in held)
            raise AssertionError(f"left open, such as a response: {names}\n{self.record.as_text()}")


class _Mismatch(Exception):
    """A step failed; `index` is that of the signal that it failed at."""

    def __init__(self, text: str, index: int | None) -> None:
        super().__init__(text)
        self.index = index


def _open_generators(loop: asyncio.AbstractEventLoop) -> list[AsyncGeneratorType[object, None]]:
    """Async generators that have begun on this loop and not ended, such as streams that are being read."""
    begun = cast("Iterable[AsyncGeneratorType[object, None]]", getattr(loop, "_asyncgens", ()))
    # the library's own generator ends with the loop, to close what the loop still holds
    return [
        each
        for each in tuple(begun)
        if cast("object", each.ag_frame) is not None and each.__qualname__ != "Runtime._until_shutdown"
    ]
