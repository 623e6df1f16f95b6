"""One holder at a time: acquisition, signs of life, release, refusal, and those that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    ConversationLeasedError,
    InvalidInputError,
    LeaseLostError,
    SavedStateError,
)
from agentscope_rx.reactive import Flow, just, then, throw, timer
from agentscope_rx.session import InMemorySession, LeasePolicy, Session, SessionLease
from agentscope_rx.testing import run_virtual
from tests.session.lease.machines import FakeMachine, Store, entry, is_free, lease
from tests.session.stores import STORES


@pytest.fixture(params=STORES)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = STORES[request.param](tmp_path)
    yield store
    store.close().run()


def seconds(count: float) -> Flow[str]:
    return timer(count).pipe(then(lambda: just("done")))


def test_the_token_grows_with_every_acquisition(session: Session):
    async def main() -> None:
        one, other = lease(session, FakeMachine(1)), lease(session, FakeMachine(2))
        assert await one.acquire() == 1 and one.held and one.token == 1
        await one.release()
        assert not one.held and one.token is None and await is_free(session)
        assert await other.acquire() == 2
        await other.release()
        await other.release()
        assert await one.acquire() == 3
        await one.release()
        assert (await entry(session))["token"] == 3

    run_virtual(main())


def test_a_holder_gives_a_sign_of_life_each_third_of_ttl(session: Session):
    async def main() -> None:
        one = lease(session, FakeMachine(), ttl=30)
        await one.acquire()
        beats = []
        for _ in range(7):
            await asyncio.sleep(5)
            beats.append((await entry(session))["beat"])
            if len(beats) == 1:
                await asyncio.sleep(2)
        # at 5, 12, 17, ..., 37 seconds
        assert beats == [0, 1, 1, 2, 2, 3, 3]
        found = await entry(session)
        assert found["uptime"] == pytest.approx(1030, abs=0.1) and found["since"] < found["at"]
        await one.release()

    run_virtual(main())


def test_another_is_refused_and_told_by_whom(session: Session):
    async def main() -> None:
        one, other = lease(session, FakeMachine(7, "alpha")), lease(session, FakeMachine(8, "beta"))
        await one.acquire()
        with pytest.raises(ConversationLeasedError, match="process 7 on alpha") as caught:
            await other.acquire()
        error = caught.value
        assert (error.key, error.host, error.pid) == ("k", "alpha", 7) and error.since.startswith("2026-01-01T00:00")
        assert error.retryable and not other.held
        # another use in the same process is another holder
        with pytest.raises(ConversationLeasedError):
            await lease(session, FakeMachine(7, "alpha")).acquire()
        with pytest.raises(ConversationLeasedError):
            await one.acquire()
        assert one.held
        await one.release()
        assert await other.around(just("x")) == "x" and await is_free(session)

    run_virtual(main())


def test_around_releases_at_every_end(session: Session):
    async def main() -> None:
        one = lease(session, FakeMachine())
        assert await one.around(seconds(5)) == "done"
        with pytest.raises(ValueError, match="broken"):
            await one.around(seconds(5).pipe(then(lambda: throw(ValueError("broken")))))
        task = one.around(seconds(50)).as_task()
        await asyncio.sleep(20)
        assert one.held
        task.cancel()
        await asyncio.sleep(1)
        assert not one.held and await is_free(session) and (await entry(session))["token"] == 3

    run_virtual(main())


def test_those_that_wait_get_it_one_after_the_other(session: Session):
    """No order is promised; each gets it, soon after the one before."""

    async def main() -> None:
        order: list[int] = []
        now = 0

        async def use(number: int) -> None:
            nonlocal now
            one = lease(session, FakeMachine(number), "queue")
            await one.acquire()
            now += 1
            assert now == 1
            await asyncio.sleep(10)
            now -= 1
            order.append(number)
            await one.release()

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(use(number))
        assert sorted(order) == [*range(6)]
        assert asyncio.get_running_loop().time() < 6 * (10 + 1.0)

    run_virtual(main())


def test_a_wait_ends_with_its_subscriber():
    async def main() -> None:
        session = Store()
        one, other = lease(session, FakeMachine(1)), lease(session, FakeMachine(2), "queue")
        await one.acquire()
        waiting = other.acquire().as_task()
        await asyncio.sleep(3)
        assert other.waiting_for is not None and other.waiting_for.pid == 1
        looks = session.operations
        await asyncio.sleep(3)
        assert 2 <= session.operations - looks <= 8, "looks come about each second"
        waiting.cancel()
        await asyncio.sleep(0)
        assert other.waiting_for is None
        operations = session.operations
        await asyncio.sleep(3)
        assert session.operations == operations and one.held
        await one.release()

    run_virtual(main())


def test_other_entries_of_the_session_may_change(session: Session):
    async def main() -> None:
        one = lease(session, FakeMachine(1))
        await one.acquire()
        await session.save("k", "title", "Mine")
        await asyncio.sleep(12)
        assert one.held and (await entry(session))["beat"] == 1
        await session.save("k", "title", "Changed")
        await one.release()
        assert await is_free(session) and await session.load("k", "title") == "Changed"
        # what was known of the lease is looked up anew
        await session.save("k", "title", "Again")
        assert await one.acquire() == 2
        await one.release()

    run_virtual(main())


def test_a_session_that_is_deleted_ends_its_lease(session: Session):
    async def main() -> None:
        one = lease(session, FakeMachine(1))
        task = one.around(seconds(60)).as_task()
        await asyncio.sleep(1)
        await session.delete("k")
        with pytest.raises(LeaseLostError, match="was deleted"):
            await task
        assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.2)
        assert not await session.exists("k")

    run_virtual(main())


def test_a_lease_costs_one_write_to_acquire_and_one_to_release():
    async def main() -> None:
        session = Store()
        one = lease(session, FakeMachine(1))
        await one.around(just(1))
        assert (session.writes, session.operations) == (2, 3)
        await one.around(just(1))
        assert (session.writes, session.operations) == (4, 5), "what it has left itself it need not read"

    run_virtual(main())


def test_a_lease_of_a_newer_release_or_none_is_refused(session: Session):
    async def main() -> None:
        for value, text in (({"version": 9}, "version 9"), ("mine", "not a lease"), ({"token": -1}, "not a lease")):
            await session.save("k", "lease", value)
            with pytest.raises(SavedStateError, match=text):
                await lease(session, FakeMachine(1)).acquire()
        await session.remove("k", "lease")
        assert await lease(session, FakeMachine(1)).around(just(1)) == 1

    run_virtual(main())


def test_wrong_arguments_are_refused():
    for wrong in ({"when_held": "steal"}, {"ttl": 0}, {"ttl": float("inf")}, {"ttl": True}, {"skew": -5}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            LeasePolicy(**wrong)
    with pytest.raises(InvalidInputError):
        SessionLease(InMemorySession(), " ")
    with pytest.raises(ConfigurationError):
        SessionLease(InMemorySession(), "k", "steal")  # type: ignore[arg-type]
    assert "not held" in repr(SessionLease(InMemorySession(), "k", "queue"))


def test_a_guard_without_the_lease_fails():
    with pytest.raises(LeaseLostError, match="not held"):
        run_virtual(SessionLease(InMemorySession(), "k").guard(just(1)))
