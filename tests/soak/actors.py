"""What the users of a soak do with their agents: calls that end in every way, shared runs, input, queues, handovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import NamedTuple

from agentscope_rx import Approve, InMemoryMemory, Msg, ReActAgent, Reject, RunHandle
from agentscope_rx.errors import AgentScopeError, EventsGoneError, RunEndedError
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent, coalesce_chunks, fold
from agentscope_rx.messages import ApprovalAnswer
from agentscope_rx.reactive import Overflow
from tests.soak.world import World, messages_in
from tests.support.assertions import results_in


class Place(NamedTuple):
    """An actor: its agent, its chance, and the world around it."""

    world: World
    agent: ReActAgent
    random: Random
    accepted: list[str]
    """The input that the run in progress has accepted."""

    async def wait(self, upto: float) -> None:
        """Let a random time pass, at most so many paces."""
        await asyncio.sleep(self.random.random() * upto * self.world.pace)


Action = Callable[[Place], Awaitable[None]]


async def live(place: Place, actions: Sequence[Action], until: float) -> None:
    """Act until the loop's clock has come so far; check the conversation after each action."""
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        await place.wait(2)
        action = place.random.choice(actions)
        try:
            await action(place)
            await check(place)
        except Exception as error:
            error.add_note(f"{place.agent.name} after {action.__name__} at {loop.time():.3f}")
            raise
        place.world.note(action.__name__)


async def check(place: Place) -> None:
    """What holds after every end: the agent is free and its memory whole."""
    agent = place.agent
    await agent.idle()
    assert not agent.running
    pending = [call.id for call in await agent.pending_calls()]
    assert_whole(messages_in(agent.memory), pending)
    if len(messages_in(agent.memory)) > 300:
        agent.memory = InMemoryMemory()


def assert_whole(messages: Sequence[Msg], pending: Sequence[str]) -> None:
    """Each call has one result behind it, but for those that are pending.

    Calls that have waited for an answer get their results later than the other calls of their message.
    """
    called: set[str] = set()
    for message in messages:
        assert {result.id for result in message.tool_results} <= called
        called.update(call.id for call in message.tool_calls)
    assert called - set(results_in(messages)) == set(pending)


async def _input(place: Place) -> str | list[ApprovalAnswer] | None:
    """New words; or, if calls are pending, their answers, or none."""
    pending = [call.id for call in await place.agent.pending_calls()]
    if pending and place.random.random() < 0.7:
        if place.random.random() < 0.3:
            return None
        return [Approve(id) if place.random.random() < 0.7 else Reject(id, "no") for id in pending]
    return "Go on."


async def _ended(place: Place, run: Awaitable[object]) -> None:
    """Wait for the end of a run, which may fail as its model does."""
    try:
        await run
        place.world.note("completed")
    except AgentScopeError as error:
        place.world.note(type(error).__name__)


# --- calls that end in every way ----------------------------------------------------------------------------------


async def call_to_the_end(place: Place) -> None:
    await _ended(place, place.agent.call(await _input(place)))


async def stream_to_the_end(place: Place) -> None:
    before = tuple(messages_in(place.agent.memory))
    events: list[Event] = []
    try:
        async for event in place.agent.stream(await _input(place)):
            events.append(event)
    except AgentScopeError as error:
        place.world.note(type(error).__name__)
    _assert_folded(events, before, place)


def _assert_folded(events: Sequence[Event], before: Sequence[Msg], place: Place) -> None:
    """The events amount to what memory has got."""
    folded = fold(events)
    after = messages_in(place.agent.memory)
    assert tuple(after[len(before) :]) == folded.history
    if events and isinstance(events[-1], PostCallEvent):
        assert folded.message == events[-1].message


async def dispose(place: Place) -> None:
    subscription = place.agent.stream(await _input(place)).subscribe(lambda event: None, lambda error: None)
    await place.wait(4)
    subscription.dispose()


async def cancel(place: Place) -> None:
    task = place.agent.call(await _input(place)).as_task()
    await place.wait(4)
    task.cancel()
    try:
        await _ended(place, task)
    except asyncio.CancelledError:
        place.world.note("cancelled")


async def leave(place: Place) -> None:
    left = place.random.randrange(40)
    try:
        async with place.agent.stream(await _input(place)) as events:
            async for _ in events:
                left -= 1
                if left < 0:
                    break
    except AgentScopeError as error:
        place.world.note(type(error).__name__)


async def interrupt(place: Place) -> None:
    task = place.agent.call(await _input(place)).as_task()
    await place.wait(4)
    place.agent.interrupt("Stop." if place.random.random() < 0.5 else None)
    await _ended(place, task)


async def read_slowly(place: Place) -> None:
    overflow = place.random.choice((Overflow.WAIT, Overflow.DROP_OLDEST, Overflow.DROP_NEWEST, None))
    stream = place.agent.stream(await _input(place))
    merge = coalesce_chunks if overflow is None else None
    try:
        async with stream.buffered(4, overflow, coalesce=merge) as events:
            async for _ in events:
                await place.wait(0.1)
    except AgentScopeError as error:
        place.world.note(type(error).__name__)


CALLS: tuple[Action, ...] = (
    call_to_the_end,
    stream_to_the_end,
    dispose,
    cancel,
    leave,
    interrupt,
    read_slowly,
)


# --- shared runs --------------------------------------------------------------------------------------------------


async def _follow(place: Place, handle: RunHandle, from_seq: int = 0) -> None:
    """Subscribe in a random way, perhaps leave and come back: the numbers go on without a gap or a repeat."""
    random = place.random
    policy = random.choice((None, Overflow.WAIT, Overflow.DROP_OLDEST, Overflow.DROP_NEWEST))
    expected = from_seq
    stream = handle.events(from_seq)
    try:
        # a reader that is left but not closed would hold the run back
        async with stream if policy is None else stream.buffered(4, policy) as events:
            async for event in events:
                if policy in (None, Overflow.WAIT):
                    assert event.seq == expected, f"event {event.seq}, not {expected}"
                expected = event.seq + 1
                if random.random() < 0.1:
                    await place.wait(0.5)
                if random.random() < 0.03:
                    break
    except EventsGoneError:
        place.world.note("events gone")
        return
    except AgentScopeError as error:
        place.world.note(type(error).__name__)
    if random.random() < 0.5:
        await place.wait(1)
        await _follow(place, handle, expected)


async def share(place: Place) -> None:
    """A shared run with several subscribers, while it is steered, paused, interrupted or stopped."""
    random = place.random
    before = tuple(messages_in(place.agent.memory))
    linger = random.choice((None, None, 0, place.world.pace))
    handle = place.agent.start(await _input(place), linger=linger)
    async with asyncio.TaskGroup() as group:
        for _ in range(random.randrange(4)):
            group.create_task(_follow(place, handle))
        for _ in range(random.randrange(4)):
            await place.wait(1)
            await _steer(place, handle)
        handle.resume()
        group.create_task(_ended(place, handle.result()))
    await handle.idle()
    _assert_taken_or_unread(place, handle, messages_in(place.agent.memory)[len(before) :])
    events = [event async for event in _quiet(handle)]
    # a stopped run repairs its memory without a subscriber for events
    if not (events and isinstance(events[-1], ErrorEvent) and events[-1].error_type == "RunStoppedError"):
        _assert_folded(events, before, place)


def _assert_taken_or_unread(place: Place, handle: RunHandle, messages: Sequence[Msg]) -> None:
    """Each accepted input is in memory or unread, once."""
    found = [message.text for message in (*messages, *handle.unread)]
    assert all(found.count(text) == 1 for text in place.accepted), f"accepted {place.accepted}, found {found}"
    place.accepted.clear()


async def _quiet(handle: RunHandle) -> AsyncIterator[Event]:
    """The events of a run that has ended, without its error."""
    try:
        async for event in handle.events():
            yield event
    except AgentScopeError:
        return


async def _steer(place: Place, handle: RunHandle) -> None:
    random = place.random
    kind = random.randrange(10)
    if kind < 4:
        try:
            text = f"And this: {next(place.world.ids)}."
            handle.enqueue(text, when=random.choice(("next_round", "idle")))
            place.accepted.append(text)
        except RunEndedError:
            place.world.note("input too late")
    elif kind < 6:
        handle.pause()
    elif kind < 8:
        handle.resume()
    elif kind < 9:
        handle.interrupt()
    else:
        handle.dispose()


async def crowd(place: Place) -> None:
    """Several calls at once, which wait for each other or take each other's place."""
    random = place.random
    calls = [
        place.agent.call("Me first.", when_busy=random.choice(("queue", "queue", "replace", "error"))).as_task()
        for _ in range(random.randrange(2, 5))
    ]
    await place.wait(3)
    chosen = random.choice(calls)
    kind = random.randrange(3)
    if kind == 0:
        chosen.cancel()
    elif kind == 1:
        place.agent.interrupt()
    for each in calls:
        try:
            await _ended(place, each)
        except asyncio.CancelledError:
            place.world.note("cancelled")


SHARED: tuple[Action, ...] = (share, share, crowd)


# --- conversations of many users ----------------------------------------------------------------------------------


async def hand_over(place: Place) -> None:
    """A conversation goes from one pool to another, through the session: none of its messages is lost on the way."""
    world, random = place.world, place.random
    user = f"user{random.randrange(10)}"
    async with world.users[user]:
        if len(world.remembered.get(user, ())) > 100:
            # a new conversation, as a load costs the length of the old one
            del world.remembered[user]
            world.sessions[user] += 1
        session_id = f"s{world.sessions[user]}"
        for pool in random.sample(world.pools, 2):
            kept = world.remembered.get(user, ())
            async with pool.conversation(user, session_id) as conversation:
                assert tuple(messages_in(conversation.memory)[: len(kept)]) == kept
            handle = pool.start(user, session_id, "Go on.", linger=random.choice((None, 0)))
            async with asyncio.TaskGroup() as group:
                if random.random() < 0.5:
                    group.create_task(_follow(place, handle))
                group.create_task(_ended(place, handle.result()))
                await place.wait(1)
                await _steer(place, handle)
                handle.resume()
            await handle.idle()
            async with pool.conversation(user, session_id) as conversation:
                _assert_taken_or_unread(place, handle, messages_in(conversation.memory))
                pending = [call.id for call in await pool.pending_calls(user, session_id)]
                assert_whole(messages_in(conversation.memory), pending)
                world.remembered[user] = tuple(messages_in(conversation.memory))
            # the other pool loads what this one has saved; it may have gone already to make room
            await pool.evict(user, session_id)


USERS: tuple[Action, ...] = (hand_over,)
