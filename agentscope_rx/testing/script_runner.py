"""One performance of a verifier's script: a subscription, what was heard of it, and how far the steps have got."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from inspect import isawaitable
from types import AsyncGeneratorType
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, cast

from reactivex import Observable

from agentscope_rx.reactive import Demand, Scope
from agentscope_rx.reactive.kernel.subscription import Subscription
from agentscope_rx.testing.record import Heard, Record

T = TypeVar("T")

JUST_THEN = 1e-9
"""Times nearer than this are the same: sums of seconds differ in their last digits."""


class Step(NamedTuple):
    """What a script says, and what is done for it."""

    text: str
    act: Callable[[Playing], object]


class Playing:
    """Listens to a flow and checks its signals, each once, in order."""

    def __init__(self, source: Observable[Any], within: float, demand: int | None) -> None:
        self.record: Record[Any] = Record()
        self._source = source
        self._within = within
        self._checked = 0
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._more: asyncio.Future[None] | None = None
        self._asked_for = demand
        self._demand: Demand | None = None if demand is None else Demand(self._loop)
        self._scope = Scope.here(self._demand)
        self._subscription: Subscription[Any] = Subscription(self._scope, self._next, self._error, self._completed)
        self._open_before = set(map(id, _open_generators(self._loop)))

    async def play(self, steps: Sequence[Step]) -> Record[Any]:
        """Subscribe, take the steps, wait for the clean-up, look for what is left."""
        self.request(0)
        self._subscription.start(self._source)
        try:
            for number, (text, act) in enumerate(steps, 1):
                await self._take(f"step {number}, {text}", act)
        finally:
            self._subscription.dispose()
            idle = await self._idle()
        if not idle:
            raise AssertionError(f"the run's work was still going on {self._within:g} s later\n{self.record.told()}")
        self._check_generators()
        return self.record

    async def _take(self, step: str, act: Callable[[Playing], object]) -> None:
        try:
            done = act(self)
            if isawaitable(done):
                await done
        except _Mismatch as mismatch:
            told = self.record.told(mismatch.here)
            raise AssertionError(f"{step}: {mismatch}\n{told}") from mismatch.__cause__
        except Exception as failure:
            failure.add_note(f"in {step}\n{self.record.told()}")
            raise

    # --- what steps do --------------------------------------------------------------------------------------------

    def fail(self, text: str, here: int | None = None) -> NoReturn:
        """The step does not hold."""
        raise _Mismatch(text, here)

    async def expect_value(self, matches: Callable[[Any], object]) -> None:
        """The next signal is a value that matches."""
        heard = await self._heard("next")
        if not matches(heard.value):
            self.fail(f"{heard}", self._checked - 1)

    async def expect_values(self, count: int) -> None:
        """The next signals are so many values."""
        for _ in range(count):
            await self._heard("next")

    async def expect_eventually(self, matches: Callable[[Any], object]) -> None:
        """A value that matches comes before the end."""
        while not matches((await self._heard("next")).value):
            pass

    async def expect_end(self, signal: Literal["completed", "error"], matches: Callable[[Heard], bool]) -> None:
        """The next signal is this end."""
        heard = await self._heard(signal)
        if not matches(heard):
            cause = heard.value if isinstance(heard.value, Exception) else None
            raise _Mismatch(f"{heard}", self._checked - 1) from cause

    async def expect_silence(self, seconds: float) -> None:
        """No signal comes before the seconds have passed."""
        until = self._loop.time() + seconds
        if self._checked < len(self.record.signals) or await self._come(seconds):
            heard = self.record.signals[self._checked]
            if heard.at < until - self._began - JUST_THEN:
                self.fail(f"{heard}", self._checked)
        await asyncio.sleep(until - self._loop.time())

    async def wait(self, seconds: float) -> None:
        """Time passes."""
        await asyncio.sleep(seconds)

    async def call(self, action: Callable[[], object]) -> None:
        """Somebody does something."""
        answer = action()
        if isawaitable(answer):
            await answer

    def request(self, count: int) -> None:
        """The consumer wants so many values more."""
        if self._demand is not None and self._asked_for is not None:
            self._asked_for += count
            if self._asked_for > 0:
                self._demand.resume()
            else:
                self._demand.withhold()

    def dispose(self) -> None:
        """The subscriber leaves."""
        if self.record.signals and self.record.signals[-1].signal != "next":
            self.fail("the flow had ended", len(self.record.signals) - 1)
        self._subscription.dispose()

    # --- listening ------------------------------------------------------------------------------------------------

    async def _heard(self, wanted: Literal["next", "error", "completed"]) -> Heard:
        """The next signal, of this kind."""
        if self._checked == len(self.record.signals) and not await self._come(self._within):
            self.fail(f"nothing came within {self._within:g} s")
        heard = self.record.signals[self._checked]
        self._checked += 1
        if heard.signal != wanted:
            cause = heard.value if isinstance(heard.value, Exception) and heard.signal == "error" else None
            raise _Mismatch(f"{heard}", self._checked - 1) from cause
        return heard

    async def _come(self, seconds: float) -> bool:
        """Whether a signal comes before the seconds have passed."""
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
        self._hear(Heard(self._now(), "next", value))

    def _error(self, error: Exception) -> None:
        self._hear(Heard(self._now(), "error", error))

    def _completed(self) -> None:
        self._hear(Heard(self._now(), "completed"))

    def _hear(self, heard: Heard) -> None:
        self.record.signals.append(heard)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _now(self) -> float:
        return self._loop.time() - self._began

    # --- what is left ---------------------------------------------------------------------------------------------

    async def _idle(self) -> bool:
        """Whether what is under way comes to its end."""
        idle: asyncio.Future[None] = self._loop.create_future()
        forget = self._scope.work.when_idle(lambda: idle.done() or idle.set_result(None))
        try:
            async with asyncio.timeout(self._within):
                await idle
        except TimeoutError:
            return False
        finally:
            forget()
        return True

    def _check_generators(self) -> None:
        held = [each for each in _open_generators(self._loop) if id(each) not in self._open_before]
        if held:
            names = ", ".join(each.__qualname__ for each in held)
            raise AssertionError(f"left open, as a response that nobody closes: {names}\n{self.record.told()}")


class _Mismatch(Exception):
    """A step does not hold; `here` is the index of the signal that says so."""

    def __init__(self, text: str, here: int | None) -> None:
        super().__init__(text)
        self.here = here


def _open_generators(loop: asyncio.AbstractEventLoop) -> list[AsyncGeneratorType[object, None]]:
    """Async generators that have begun on this loop and not ended; a stream that is being read is one."""
    begun = cast("Iterable[AsyncGeneratorType[object, None]]", getattr(loop, "_asyncgens", ()))
    # (one of ours lasts as long as its loop, to close what the loop has kept)
    return [
        each
        for each in tuple(begun)
        if cast("object", each.ag_frame) is not None and each.__qualname__ != "Runtime._until_shutdown"
    ]
