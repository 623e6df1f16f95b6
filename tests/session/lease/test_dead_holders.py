"""Which holder counts as dead, and that it can neither go on nor save once another has taken over."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx.errors import ConversationLeasedError, LeaseLostError, SessionConflictError, SessionStorageError
from agentscope_rx.reactive import just, then, timer
from agentscope_rx.session import InMemorySession, Session, SessionLease
from agentscope_rx.testing import run_virtual
from tests.session.lease.machines import FakeMachine, Store, entry, lease


def stall(one: SessionLease) -> None:
    """The process stands still: no sign of life comes."""
    held = one._held
    assert held is not None and held.heartbeat is not None
    held.heartbeat.stop()


async def wake(one: SessionLease) -> None:
    """It goes on, with the beat that was due."""
    held = one._held
    assert held is not None and held.heartbeat is not None
    held.heartbeat.disposed = False
    held.heartbeat.begin(0.0)
    await asyncio.sleep(0.01)


async def refused(one: SessionLease) -> bool:
    try:
        await one.acquire()
    except ConversationLeasedError:
        return True
    return False


def test_a_dead_process_of_this_machine_is_replaced_at_once():
    async def main() -> None:
        session, dead = InMemorySession(), set[int]()
        one, other = lease(session, FakeMachine(1, dead=dead)), lease(session, FakeMachine(2, dead=dead))
        await one.acquire()
        stall(one)
        assert await refused(other)
        dead.add(1)
        assert await other.acquire() == 2
        await other.release()

    run_virtual(main())


def test_one_that_waits_replaces_a_dead_process_in_a_second():
    async def main() -> None:
        session, dead = InMemorySession(), set[int]()
        one, other = lease(session, FakeMachine(1, dead=dead)), lease(session, FakeMachine(2, dead=dead), "queue")
        await one.acquire()
        waiting = other.acquire().as_task()
        await asyncio.sleep(100)
        stall(one)
        dead.add(1)
        await waiting
        assert asyncio.get_running_loop().time() < 101.1
        await other.release()

    run_virtual(main())


def test_a_silent_process_of_this_machine_is_dead_after_ttl():
    async def main() -> None:
        session = InMemorySession()
        one, other = lease(session, FakeMachine(1), ttl=30), lease(session, FakeMachine(2), ttl=9)
        await one.acquire()
        stall(one)
        await asyncio.sleep(29.9)
        assert await refused(other), "the time is that which the holder has promised"
        await asyncio.sleep(0.2)
        assert await other.acquire() == 2
        # it notices with its next beat, and nothing of its own is written
        version = (await session.load_all("k")).version
        await wake(one)
        assert not one.held and (await session.load_all("k")).version == version
        await other.release()

    run_virtual(main())


@pytest.mark.parametrize("jump", [-1e6, -3600.0, 3600.0, 1e6])
def test_setting_the_clock_of_the_machine_changes_nothing(jump: float):
    async def main() -> None:
        session = InMemorySession()
        mine, yours = FakeMachine(1), FakeMachine(2)
        one, other = lease(session, mine), lease(session, yours, "queue")
        await one.acquire()
        mine.ahead = yours.ahead = jump
        waiting = other.acquire().as_task()
        await asyncio.sleep(300)
        assert one.held and not other.held
        mine.ahead = yours.ahead = -jump
        await asyncio.sleep(300)
        assert one.held and not other.held
        await one.release()
        await waiting
        await other.release()

    run_virtual(main())


def test_one_of_another_machine_is_watched_for_ttl():
    async def main() -> None:
        session = InMemorySession()
        one, other = lease(session, FakeMachine(1, "alpha")), lease(session, FakeMachine(1, "beta"))
        await one.acquire()
        for _ in range(10):
            await asyncio.sleep(20)
            assert await refused(other), "it gives signs of life"
        stall(one)
        assert await refused(other)
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(29)
        assert await refused(other)
        assert await refused(other)
        await asyncio.sleep(1)
        assert await other.acquire() == 2
        assert asyncio.get_running_loop().time() - begun == 30
        await other.release()

    run_virtual(main())


def test_a_queue_takes_over_from_a_silent_machine_after_ttl():
    async def main() -> None:
        session = InMemorySession()
        one, other = lease(session, FakeMachine(1, "alpha")), lease(session, FakeMachine(1, "beta"), "queue")
        await one.acquire()
        stall(one)
        await other.acquire()
        assert 30 <= asyncio.get_running_loop().time() <= 31.1
        await other.release()

    run_virtual(main())


def test_an_old_lease_of_another_machine_is_dead_at_a_look():
    async def main() -> None:
        session = InMemorySession()
        one, beta = lease(session, FakeMachine(1, "alpha")), FakeMachine(1, "beta")
        await one.acquire()
        stall(one)
        beta.ahead = 329
        assert await refused(lease(session, beta))
        beta.ahead = 331
        assert await refused(lease(session, beta, skew=600))
        # the skew that is allowed for is a part of the taker's policy
        other = lease(session, beta)
        assert await other.acquire() == 2
        await other.release()

    run_virtual(main())


def test_a_wrong_clock_makes_no_two_holders_that_save():
    """The clock of another machine jumps: it takes over from one that is alive, whose next write finds that out."""

    async def main() -> None:
        session = InMemorySession()
        alpha, beta = FakeMachine(1, "alpha"), FakeMachine(1, "beta")
        one, other = lease(session, alpha), lease(session, beta)
        task = one.around(timer(60).pipe(then(lambda: just("done")))).as_task()
        await asyncio.sleep(5)
        known = one.version
        beta.ahead = 86_400
        assert await other.acquire() == 2
        assert one.held, "it does not know yet"
        with pytest.raises(SessionConflictError):
            await session.save_all("k", {"state": "late"}, expected=known)
        with pytest.raises(LeaseLostError, match="process 1 on beta has taken it over") as caught:
            await task
        assert caught.value.by == "process 1 on beta"
        assert asyncio.get_running_loop().time() == 10.0, "at its next beat"
        assert (await entry(session))["holder"]["host"] == "beta" and other.held
        await other.release()

    run_virtual(main())


def test_a_clock_that_is_set_back_delays_no_takeover():
    async def main() -> None:
        session = InMemorySession()
        one, beta = lease(session, FakeMachine(1, "alpha")), FakeMachine(1, "beta")
        await one.acquire()
        stall(one)
        beta.ahead = -1e6
        other = lease(session, beta, "queue")
        await other.acquire()
        assert asyncio.get_running_loop().time() <= 31.1
        await other.release()

    run_virtual(main())


def test_a_holder_that_was_asleep_goes_on_if_no_other_came():
    async def main() -> None:
        session: Session = InMemorySession()
        one = lease(session, FakeMachine(1))
        await one.acquire()
        stall(one)
        await asyncio.sleep(1000)
        await wake(one)
        assert one.held and (await entry(session))["beat"] == 1
        await one.release()

    run_virtual(main())


def test_a_lease_whose_loop_was_closed_is_free():
    session, machine = InMemorySession(), FakeMachine(1)
    one, other = SessionLease(session, "k"), SessionLease(session, "k")
    loop = asyncio.new_event_loop()

    async def acquire() -> None:
        await one.acquire()

    loop.run_until_complete(acquire())
    assert one.held
    loop.close()
    assert not one.held and machine.pid == 1

    async def again() -> None:
        assert await one.acquire() == 2
        assert await refused(other)
        await one.release()

    asyncio.run(again())


def test_a_lease_that_this_process_has_lost_track_of_is_free():
    """An acquisition whose outcome was unknown: it is this process's, but no use of it."""

    async def main() -> None:
        session = Store()
        session.fault = lambda number: "unsure" if number == 2 else None
        with pytest.raises(SessionStorageError):
            await lease(session, FakeMachine(1)).acquire()
        assert (await entry(session))["holder"] is not None
        assert await refused(lease(session, FakeMachine(2)))
        assert await lease(session, FakeMachine(1)).around(just("x")) == "x"

    run_virtual(main())
