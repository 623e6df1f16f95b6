"""A store that fails, hangs or is slow at any operation; subscribers that leave at any moment."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx.errors import ConversationLeasedError, LeaseLostError, SessionStorageError
from agentscope_rx.reactive import Flow, just, then, timer
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.session.lease.machines import FakeMachine, Store, entry, is_free, lease

DONE = just("done")


def seconds(count: float) -> Flow[str]:
    return timer(count).pipe(then(lambda: DONE))


def test_an_acquisition_that_fails_holds_nothing():
    async def main() -> None:
        for number in (1, 2):
            session = Store()
            session.fault = lambda at, number=number: "fail" if at == number else None
            one = lease(session, FakeMachine())
            with pytest.raises(SessionStorageError):
                await one.around(DONE)
            assert not one.held
            assert await one.around(DONE) == "done" and await is_free(session)

    run_virtual(main())


def test_an_acquisition_of_unknown_outcome_ends_by_itself():
    async def main() -> None:
        session = Store()
        session.fault = lambda number: "unsure" if number == 2 else None
        one, other = lease(session, FakeMachine(1)), lease(session, FakeMachine(2), "queue")
        with pytest.raises(SessionStorageError):
            await one.around(DONE)
        await other.acquire()
        assert 30 <= asyncio.get_running_loop().time() <= 31.1
        await other.release()

    run_virtual(main())


@pytest.mark.parametrize("fault", ["fail", "hang", "unsure"])
def test_signs_of_life_that_fail_are_repeated(fault: str):
    async def main() -> None:
        session = Store()
        one, loop = lease(session, FakeMachine()), asyncio.get_running_loop()
        await one.acquire()
        session.fault = lambda number: fault if 5 < loop.time() < 19 else None
        await asyncio.sleep(40)
        assert one.held and (await entry(session))["beat"] >= 2
        await one.release()
        assert await is_free(session)

    run_virtual(main())


@pytest.mark.parametrize("fault", ["fail", "hang"])
def test_a_store_that_is_down_for_ttl_ends_the_use(fault: str):
    async def main() -> None:
        session = Store()
        one, loop = lease(session, FakeMachine(), ttl=30), asyncio.get_running_loop()
        task = one.around(seconds(1000)).as_task()
        await asyncio.sleep(15)
        session.fault = lambda number: fault
        with pytest.raises(LeaseLostError, match="could not be reached for 30 s") as caught:
            await task
        # the last sign of life came at 10 s
        assert loop.time() == pytest.approx(40, abs=0.01)
        assert caught.value.__cause__ is not None and caught.value.by is None and not one.held
        writes = session.writes
        await asyncio.sleep(100)
        assert session.writes == writes, "it does not try for ever"
        session.fault = lambda number: None
        assert await one.around(DONE) == "done", "its own lease, which no use of it has"

    run_virtual(main())


def test_a_release_that_fails_is_an_error_of_the_release():
    async def main() -> None:
        session = Store()
        one, other = lease(session, FakeMachine(1)), lease(session, FakeMachine(2))
        await one.acquire()
        session.fault = lambda number: "fail"
        with pytest.raises(SessionStorageError):
            await one.release()
        assert not one.held
        session.fault = lambda number: None
        with pytest.raises(ConversationLeasedError):
            await other.acquire()
        await asyncio.sleep(31)
        assert await other.around(DONE) == "done"

    run_virtual(main())


def test_a_use_keeps_its_value_if_the_release_fails():
    async def main() -> None:
        session = Store()
        session.fault = lambda number: "fail" if number == 3 else None
        with collect_dropped() as dropped:
            assert await lease(session, FakeMachine()).around(DONE) == "done"
        assert [type(error) for error in dropped] == [SessionStorageError]

    run_virtual(main())


def test_a_release_of_unknown_outcome_is_no_loss():
    async def main() -> None:
        session = Store()
        session.fault = lambda number: "unsure" if number == 3 else None
        one = lease(session, FakeMachine())
        with collect_dropped() as dropped:
            await one.around(DONE)
        assert len(dropped) == 1 and await is_free(session)
        assert await one.around(DONE) == "done"

    run_virtual(main())


@pytest.mark.parametrize("tenths", range(0, 60, 5))
def test_disposal_at_each_point_leaves_the_lease_free(tenths: int):
    """Each operation takes a second: the look, the write, 2 s of use with a beat, the release."""

    async def main() -> None:
        session = Store(1.0)
        one = lease(session, FakeMachine(), ttl=6)
        task = one.around(seconds(2)).as_task()
        await asyncio.sleep(tenths / 10 + 0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(5)
        found = await session.load("k", "lease")
        assert not one.held and (found is None or await is_free(session))
        assert await one.around(DONE) == "done"

    run_virtual(main())


def test_a_beat_under_way_at_the_release_does_not_come_after_it():
    async def main() -> None:
        session = Store(1.0)
        one = lease(session, FakeMachine(), ttl=30)
        await one.acquire()
        await asyncio.sleep(9.5)
        await one.release()
        assert await is_free(session) and (await entry(session))["token"] == 1
        await asyncio.sleep(20)
        assert await is_free(session)

    run_virtual(main())


def test_two_that_try_at_the_same_moment_get_it_one_by_one():
    async def main() -> None:
        session = Store(0.5)
        tries = [lease(session, FakeMachine(number)) for number in range(5)]
        found = await asyncio.gather(*(each.acquire().as_task() for each in tries), return_exceptions=True)
        assert sorted(str(each) for each in found if isinstance(each, int)) == ["1"]
        assert sum(isinstance(each, ConversationLeasedError) for each in found) == 4
        for each in tries:
            await each.release()
        assert await is_free(session)

    run_virtual(main())


def test_a_slow_or_failing_subscriber_does_not_keep_the_lease():
    async def main() -> None:
        session = Store()
        one = lease(session, FakeMachine())

        async def slow() -> None:
            async for _ in one.around(DONE):
                await asyncio.sleep(100)

        await slow()
        assert await is_free(session)

        def broken(value: str) -> None:
            raise ValueError(value)

        with pytest.raises(ValueError, match="done"):
            await one.around(seconds(1)).pipe(_each(broken))
        await asyncio.sleep(0.1)
        assert await is_free(session) and not one.held

    run_virtual(main())


def _each(function):
    from reactivex import operators as ops

    return ops.do_action(function)
