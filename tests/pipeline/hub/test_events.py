"""`hub.events`: what has happened, in order, for readers that come late, fall behind or fail."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import Msg, MsgHub
from agentscope_rx.events import HubEvent, event_from_json
from agentscope_rx.testing import collect_dropped, run_virtual
from tests.pipeline.hub.parts import SlowMemory, talker, texts


def kinds(events: list[HubEvent]) -> list[tuple[str, str]]:
    return [(each.change, each.member) for each in events]


ALL = [("joined", "Ann"), ("joined", "Bob"), ("announced", ""), ("said", "Ann"), ("left", "Bob"), ("left", "Ann")]


async def history(hub: MsgHub) -> None:
    ann, bob = hub.participants
    async with hub:
        await ann.call()
        hub.delete(bob)


def test_late_and_early_readers_get_the_same():
    async def main() -> None:
        hub = MsgHub([talker("Ann", "a1"), talker("Bob")], "Go!", name="h")
        early: list[HubEvent] = []
        ended: list[bool] = []
        hub.events.subscribe(early.append, on_completed=lambda: ended.append(True))
        await history(hub)
        late = [each async for each in hub.events]
        assert kinds(early) == kinds(late) == ALL
        assert ended == [True]
        assert [each.seq for each in late] == list(range(6))
        assert [each.number for each in late] == [None, None, 0, 1, None, None]
        assert {each.hub for each in late} == {"h"}
        assert [event_from_json(each.to_json()) for each in late] == late

    run_virtual(main())


def test_only_the_last_events_are_kept():
    async def main() -> None:
        hub = MsgHub([talker("Ann", "a1"), talker("Bob")], "Go!", capacity=2)
        await history(hub)
        assert kinds([each async for each in hub.events]) == ALL[-2:]

    run_virtual(main())


def test_a_new_time_in_the_hub_has_new_events():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        hub = MsgHub([ann, bob])
        async with hub:
            await ann.call()
        async with hub:
            pass
        assert kinds([each async for each in hub.events]) == [
            *[("joined", "Ann"), ("joined", "Bob")],
            *[("left", "Ann"), ("left", "Bob")],
        ]

    run_virtual(main())


def test_a_reader_that_pulls_slows_the_speakers():
    async def main() -> None:
        ann, bob = talker("Ann", *[f"a{n}" for n in range(20)]), talker("Bob")
        async with MsgHub([ann, bob], capacity=4) as hub:
            reader = hub.events.buffered(2).__aiter__()
            assert (await reader.__anext__()).change == "joined"
            said = 0

            async def speak() -> None:
                nonlocal said
                for _ in range(20):
                    await ann.call()
                    said += 1

            speaking = asyncio.ensure_future(speak())
            await asyncio.sleep(100)
            stuck = said
            assert stuck < 20
            got = [(await reader.__anext__()).number for _ in range(21)]
            await speaking
            assert got == [None, *range(20)]
            await reader.aclose()

    run_virtual(main())


def test_a_reader_that_leaves_frees_the_speakers():
    async def main() -> None:
        ann, bob = talker("Ann", *[f"a{n}" for n in range(20)]), talker("Bob")
        async with MsgHub([ann, bob], capacity=4) as hub:
            reader = hub.events.buffered(2).__aiter__()
            await reader.__anext__()

            async def speak() -> None:
                for _ in range(20):
                    await ann.call()

            speaking = asyncio.ensure_future(speak())
            await asyncio.sleep(100)
            assert not speaking.done()
            # one that waits can be stopped: the others have heard its message
            await reader.aclose()
            await speaking
        assert len(await texts(bob)) == 20

    run_virtual(main())


def test_a_call_that_waits_for_a_reader_can_be_disposed_of():
    async def main() -> None:
        ann, bob = talker("Ann", *[f"a{n}" for n in range(20)]), talker("Bob")
        async with MsgHub([ann, bob], capacity=2) as hub:
            reader = hub.events.buffered(2).__aiter__()
            await reader.__anext__()
            said = 0
            running = ann.call().as_task()
            while await asyncio.sleep(10, running.done()):
                said += 1
                running = ann.call().as_task()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await ann.idle()
            assert len(await texts(bob)) == said + 1
            await reader.aclose()

    run_virtual(main())


def test_a_throwing_subscriber_disturbs_no_one():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        got: list[HubEvent] = []
        async with MsgHub([ann, bob]) as hub:

            def throw(event: HubEvent) -> None:
                raise ValueError(event.change)

            with collect_dropped() as dropped:
                hub.events.subscribe(throw)
                hub.events.subscribe(got.append)
                await ann.call()
                await ann.call()
        assert [event.change for event in got] == ["joined", "joined", "said", "said", "left", "left"]
        assert [str(each) for each in dropped] == ["joined"]
        assert await texts(bob) == ["Ann: a1", "Ann: a2"]

    run_virtual(main())


def test_a_subscriber_may_change_the_hub():
    async def main() -> None:
        ann, bob, cid = talker("Ann", "a1", "a2"), talker("Bob"), talker("Cid")
        got: list[HubEvent] = []
        async with MsgHub([ann, bob]) as hub:

            def act(event: HubEvent) -> None:
                got.append(event)
                if event.number == 0:
                    hub.add(cid)
                    hub.delete(bob)

            hub.events.subscribe(act)
            await ann.call()
            await ann.call()
        assert kinds(got)[2:6] == [("said", "Ann"), ("joined", "Cid"), ("left", "Bob"), ("said", "Ann")]
        assert await texts(cid) == ["Ann: a2"]

    run_virtual(main())


def test_events_come_in_the_order_in_which_things_happened():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", "b1")
        cid, dan = talker("Cid", memory=SlowMemory(5)), talker("Dan")
        async with MsgHub([ann, bob, cid]) as hub:
            got: list[HubEvent] = []
            hub.events.subscribe(got.append)
            first = ann.call().as_task()
            await asyncio.sleep(1)
            hub.add(dan)
            # known at once, but it has happened behind what Cid is just hearing
            assert len(got) == 3
            await first
        assert kinds(got)[3:5] == [("said", "Ann"), ("joined", "Dan")]

    run_virtual(main())


def test_events_are_read_from_another_loop():
    ann, bob = talker("Ann", "a1"), talker("Bob")
    with MsgHub([ann, bob]) as hub:
        ann.call().run()

        async def read() -> list[HubEvent]:
            found = []
            async for event in hub.events:
                found.append(event)
                if event.number == 0:
                    break
            return found

        assert kinds(asyncio.run(read())) == [("joined", "Ann"), ("joined", "Bob"), ("said", "Ann")]


@pytest.mark.parametrize("outside", [True, False])
def test_what_is_left_when_the_announcement_is_cut_off(outside: bool):
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", memory=SlowMemory(5))
        hub = MsgHub([ann, bob], [Msg.user("One"), Msg.user("Two")])
        entering = hub.enter().as_task() if outside else asyncio.ensure_future(hub.__aenter__())
        await asyncio.sleep(1)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        await asyncio.sleep(10)
        # the first was numbered; nobody is in the hub
        assert await texts(bob) == ["user: One"]
        await ann.call()
        assert await texts(bob) == ["user: One"]
        async with hub:
            pass
        # the announcement that it has heard is no other one
        assert await texts(bob) == ["user: One", "user: Two"]

    run_virtual(main())
