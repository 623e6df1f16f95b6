"""One call of a script: how it is subscribed to, how it is ended, and what was seen of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reactivex import operators as ops

from agentscope_rx import Msg
from agentscope_rx.agent import InterruptSource
from agentscope_rx.errors import AgentBusyError, AgentShuttingDownError
from agentscope_rx.events import Event, PostCallEvent, coalesce_chunks
from tests.support.scripts.checks import State
from tests.support.scripts.parts import StoreDown
from tests.support.scripts.steps import Call, Meanwhile

if TYPE_CHECKING:
    from agentscope_rx.memory import InMemoryMemory
    from tests.support.scripts.world import World

OWN = "a subscriber's own"
READERS: dict[str, Any] = {"slow": None, "buffered": None, "coalesced": coalesce_chunks, "stalled": None}
"""How a reader pulls who takes their time, and what may be merged for them."""
LONG = 1000.0
"""Virtual seconds after which a run that has not ended never will."""


@dataclass
class Outcome:
    """What became of a call."""

    step: Call
    given: Any
    before: State
    begun: Counter[str] = field(default_factory=Counter[str])
    """What had begun before."""
    after: State = field(default_factory=State)
    seen: list[Event] = field(default_factory=list[Event])
    error: BaseException | None = None
    completed: bool = False
    raised: bool = False
    """True if the subscriber has thrown something."""

    @property
    def reply(self) -> Msg | None:
        last = self.seen[-1] if self.seen else None
        return last.message if self.completed and isinstance(last, PostCallEvent) else None

    @property
    def admitted(self) -> bool:
        """True if the run has taken its input."""
        return any(event.type != "error" for event in self.seen)

    @property
    def left(self) -> bool:
        """True if the end was not awaited."""
        return not self.completed and self.error is None

    def told(self) -> tuple[object, ...]:
        """The outcome without ids and times."""
        reply = self.reply
        how = type(self.error).__name__ if self.error else "left" if reply is None else reply.generate_reason
        pending = self.after.pending
        return how, None if reply is None else reply.content, None if pending is None else sorted(pending)


async def play_call(world: World, step: Call) -> Outcome:
    """Make the call and end it as the step says; returns when the agent is idle."""
    memory = world.memories[step.conversation]
    given = world.given(step.given, memory)
    outcome = Outcome(step, given, world.state(memory), world.ledger.begun.copy())
    running = _Running(world, outcome, memory)
    meanwhile = asyncio.ensure_future(running.meanwhile(step.meanwhile)) if step.meanwhile else None
    await asyncio.wait_for(running.play(), LONG)
    heard = len(outcome.seen)
    await world.friday.idle(memory=memory)
    if meanwhile is not None:
        await meanwhile
        await world.friday.idle(memory=memory)
    assert len(outcome.seen) == heard, "an event after the end"
    outcome.raised = running.raised
    outcome.after = world.state(memory)
    return outcome


class _Running:
    def __init__(self, world: World, outcome: Outcome, memory: InMemoryMemory) -> None:
        self.world = world
        self.friday = world.friday
        self.outcome = outcome
        self.memory = memory
        self.over = asyncio.Event()
        self.raised = False
        self.flow = world.friday.stream(outcome.given, **world.options(outcome.step))

    async def play(self) -> None:
        way, read = self.outcome.step.end.way, self.outcome.step.end.read
        if read:
            await self._pulled(way, read)
        elif way == "cancel":
            await self._cancelled()
        elif way == "leave_at":
            await self._left()
        else:
            await self._subscribed(way)

    async def meanwhile(self, what: Meanwhile) -> None:
        await asyncio.sleep(what.at * 0.25 + 2 * self.world.apart)
        if what.what != "call":
            try:
                await self.world.observe(what.what, self.memory)
            except StoreDown:
                assert self.world.faulty.failed == "add"
            return
        gate = self.friday.conversation(self.memory).flag
        if gate.interruptible:
            # (the error comes a turn later, in which the run that is there may remember something)
            before = self._said_too()
            try:
                await self.friday.call("me, too", memory=self.memory)
            except (AgentBusyError, AgentShuttingDownError):
                assert self._said_too() == before
            else:
                raise AssertionError("two runs at once")

    def _said_too(self) -> int:
        return sum(message.text == "me, too" for message in self.memory.messages)

    # --- ways to hear and to end a run ----------------------------------------------------------------------------

    async def _subscribed(self, way: str) -> None:
        end = self.outcome.step.end
        holder: list[Any] = []
        on_next = self._next(way, lambda: holder and holder[0].dispose())
        subscription = self.flow.subscribe(on_next, self._failed, self._completed)
        holder.append(subscription)
        if way == "dispose_at" and len(self.outcome.seen) > end.at:
            # (it could not be disposed of while subscribe() had not returned)
            subscription.dispose()
        if way in ("dispose", "interrupt", "interrupt_with", "interrupt_tool", "shutdown"):
            await self._wait(end.at * 0.25 + self.world.apart)
            await self._end(way, subscription)
        else:
            await self.over.wait()

    async def _end(self, way: str, subscription: Any) -> None:
        if way == "shutdown":
            await self.world.shutdown.begin()
        elif way == "dispose":
            subscription.dispose()
            return
        elif not self.over.is_set():
            self._interrupt(way)
        await self.over.wait()

    def _interrupt(self, way: str) -> None:
        message = "stop it" if way == "interrupt_with" else None
        source = InterruptSource.TOOL if way == "interrupt_tool" else InterruptSource.USER
        self.friday.interrupt(message, source, memory=self.memory)

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.over.wait(), seconds)
        except TimeoutError:
            return

    def _next(self, way: str, dispose: Callable[[], object]) -> Callable[[Event], None]:
        index = self.outcome.step.end.at

        def on_next(event: Event) -> None:
            self._hear(event)
            if len(self.outcome.seen) != index + 1:
                return
            if way == "raise_at":
                self.raised = True
                self.over.set()
                raise RuntimeError(OWN)
            if way == "interrupt_at":
                self.friday.interrupt(memory=self.memory)
            if way == "dispose_at":
                self.over.set()
                dispose()

        return on_next

    def _hear(self, event: Event) -> None:
        assert not self.outcome.completed and self.outcome.error is None, "an event after the end"
        self.outcome.seen.append(event)

    def _free(self) -> None:
        conversation = self.friday.conversation(self.memory)
        assert not conversation.runs, "told of the end, and it still runs"
        assert conversation.flags == (conversation.flag,)

    def _failed(self, error: Exception) -> None:
        self._free()
        self.outcome.error = error
        self.over.set()

    def _completed(self) -> None:
        self._free()
        self.outcome.completed = True
        self.over.set()

    async def _cancelled(self) -> None:
        task = self.flow.pipe(ops.do_action(self._hear)).as_task()
        await asyncio.wait([task], timeout=self.outcome.step.end.at * 0.25 + self.world.apart)
        task.cancel()
        try:
            await task
            self.outcome.completed = True
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self.outcome.error = error

    async def _left(self) -> None:
        try:
            async with self.flow as events:
                async for event in events:
                    self._hear(event)
                    if len(self.outcome.seen) > self.outcome.step.end.at:
                        return
        except Exception as error:
            self.outcome.error = error
        else:
            self.outcome.completed = True

    async def _pulled(self, way: str, read: str) -> None:
        task = asyncio.ensure_future(self._read(read))
        if way != "itself":
            await asyncio.wait([task], timeout=self.outcome.step.end.at * 0.25 + self.world.apart)
        if way in ("dispose", "cancel"):
            task.cancel()
        elif way == "shutdown":
            await self.world.shutdown.begin()
        elif way != "itself" and not task.done():
            self._interrupt(way)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def _read(self, read: str) -> None:
        events = self.flow if read == "slow" else self.flow.buffered(1, coalesce=READERS[read])
        try:
            async with events as pulled:
                async for event in pulled:
                    self._hear(event)
                    if read != "stalled":
                        await asyncio.sleep(0.1)
                    elif len(self.outcome.seen) == self.outcome.step.end.at + 1:
                        # (once, for long)
                        await asyncio.sleep(20.0)
        except Exception as error:
            self.outcome.error = error
        else:
            self.outcome.completed = True
