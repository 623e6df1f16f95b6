"""What happens to an agent with many hooks: runs that end in every way, compactions, processes that end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agentscope_rx import InMemorySession
from agentscope_rx.errors import AgentScopeError
from agentscope_rx.events import Event
from agentscope_rx.knowledge.citing.numbers import known
from agentscope_rx.reactive import Overflow
from agentscope_rx.tracing import instrument, uninstrument
from tests.agent.combined import REFUSED, Combined
from tests.agent.working import Working
from tests.tracing.trees import Spans


async def ended(world: Combined, run: object) -> None:
    try:
        await run
        world.ended.append("completed")
    except AgentScopeError as error:
        world.ended.append(type(error).__name__)


async def to_the_end(world: Combined) -> None:
    before = list(world.agent.memory.messages)
    events: list[Event] = []
    given = await world.input()
    output = {"output": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}}
    options = output if world.random.random() < 0.2 and not isinstance(given, list) else {}
    try:
        async for event in world.agent.stream(given, **options):
            events.append(event)
            if world.random.random() < 0.02:
                await asyncio.sleep(0.5)
        world.ended.append("completed")
    except AgentScopeError as error:
        world.ended.append(type(error).__name__)
    world.check_folded(events, before)


async def dispose(world: Combined) -> None:
    events: list[Event] = []
    left = world.agent.stream(await world.input()).subscribe(events.append, lambda error: None)
    await asyncio.sleep(world.random.random() * 4)
    left.dispose()
    world.check_shown(events)


async def interrupt(world: Combined) -> None:
    before = list(world.agent.memory.messages)
    handle = world.agent.start(await world.input())
    await asyncio.sleep(world.random.random() * 4)
    handle.interrupt()
    await ended(world, handle.result())
    await handle.idle()
    events: list[Event] = []
    try:
        async for event in handle.events():
            events.append(event)
    except AgentScopeError:
        pass
    world.check_folded(events, before)


async def share(world: Combined) -> None:
    before = list(world.agent.memory.messages)
    handle = world.agent.start(await world.input())

    async def read(delay: float) -> list[Event]:
        seen: list[Event] = []
        try:
            async for event in handle.events():
                seen.append(event)
                await asyncio.sleep(delay)
        except AgentScopeError:
            pass
        return seen

    readers = [asyncio.ensure_future(read(delay)) for delay in (0.0, 0.05)]
    await asyncio.sleep(world.random.random() * 2)
    with suppress(AgentScopeError):
        handle.enqueue(world.random.choice(("And this.", f"And a {REFUSED}.")))
    await ended(world, handle.result())
    await handle.idle()
    for seen in await asyncio.gather(*readers):
        world.check_folded(seen, before)


async def compact(world: Combined) -> None:
    await ended(world, world.agent.compact())


async def compact_while_busy(world: Combined) -> None:
    run = world.agent.call(await world.input()).as_task()
    await asyncio.sleep(world.random.random() * 2)
    making = world.agent.compact().as_task()
    await asyncio.sleep(world.random.random())
    if world.random.random() < 0.3:
        making.cancel()
    for each in (run, making):
        try:
            await ended(world, each)
        except asyncio.CancelledError:
            world.ended.append("cancelled")


async def kill(world: Combined) -> None:
    """The process ends at some moment; the next one goes on."""
    run = world.agent.call(await world.input()).as_task()
    await asyncio.sleep(world.random.random() * 4)
    left = InMemorySession()
    left._sessions = dict(world.session._sessions)
    run.cancel()
    with suppress(asyncio.CancelledError):
        await ended(world, run)
    await world.agent.idle()
    await world.settle()
    world.session, world.agent = left, world.make()
    world.originals.clear()
    await world.begin()
    if world.random.random() < 0.3:
        await ended(world, world.agent.compact())
    if world.agent.conversation().unfinished is not None:
        await ended(world, world.agent.call())


async def reload(world: Combined) -> None:
    """Another agent with the same state has the same conversation."""
    await world.settle()
    old = world.agent
    pending = await old.pending_calls()
    saved = await world.session.load_all("k")
    world.agent = world.make()
    await world.begin()
    assert list(world.agent.memory.messages) == list(old.memory.messages)
    assert await world.agent.pending_calls() == pending
    assert known(world.agent.conversation()) == known(old.conversation())
    if saved is not None:
        assert await world.session.load_all("k") == saved


async def fail_to_read(world: Combined) -> None:
    """A subscriber raises at some event."""
    left = world.random.randrange(1, 40)
    ended = asyncio.Event()

    def take(event: Event) -> None:
        nonlocal left
        left -= 1
        if not left:
            ended.set()
            raise KeyError("the subscriber fails")

    world.agent.stream(await world.input()).subscribe(take, lambda error: ended.set(), ended.set)
    await ended.wait()


async def read_slowly(world: Combined) -> None:
    before = list(world.agent.memory.messages)
    events: list[Event] = []
    try:
        async with world.agent.stream(await world.input()).buffered(2, Overflow.WAIT) as stream:
            async for event in stream:
                events.append(event)
                await asyncio.sleep(world.random.choice((0, 0.3)))
    except AgentScopeError as error:
        world.ended.append(type(error).__name__)
    world.check_folded(events, before)


async def between(world: Combined) -> None:
    """Time passes; the program stops what goes on, or waits for it."""
    await asyncio.sleep(world.random.random() * 4)
    jobs = world.agent.background()
    kind = world.random.random()
    if kind < 0.3:
        jobs.stop()
    elif kind < 0.6:
        await jobs.wait(until=world.random.choice(("any", "all")), timeout=world.random.random() * 4)


ACTIONS = (to_the_end, to_the_end, dispose, interrupt, share, compact, compact_while_busy, kill)
WORKING_ACTIONS = (*ACTIONS, to_the_end, reload, fail_to_read, read_slowly, between)


async def live(seed: int, steps: int, folder: Path) -> list[str]:
    """Let one conversation go through so many ends; its laws hold after each. Gives how they ended."""
    return await _live(Combined(seed, folder), ACTIONS, steps)


async def live_working(seed: int, steps: int, folder: Path) -> list[str]:
    """As `live`, with background work and sub-agents, with spans on half of the lives."""
    if seed % 2:
        return await _live(Working(seed, folder), WORKING_ACTIONS, steps)
    spans = Spans()
    instrument(tracer_provider=spans.provider)
    try:
        ended = await _live(Working(seed, folder), WORKING_ACTIONS, steps)
    finally:
        uninstrument()
    spans.assert_whole(nested=False)
    return ended


async def _live(world: Combined, actions: Sequence[Callable[[Combined], Awaitable[None]]], steps: int) -> list[str]:
    await world.begin()
    for step in range(steps):
        action = world.random.choice(actions)
        try:
            await action(world)
            await world.check()
        except BaseException as error:
            error.add_note(f"seed {world.seed}, step {step}: {action.__name__}")
            raise
    await world.settle()
    world.reading.check_idle()
    return world.ended
