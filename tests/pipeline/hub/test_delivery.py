"""How messages get to the members: in one order, whatever members and speakers do meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
from reactivex import operators as ops

from agentscope_rx import Agent, InMemoryMemory, MsgHub, ReActAgent, UsageLimits, hook
from agentscope_rx.errors import DeadlineError, RunDeadlineError, UnheardMessageError
from agentscope_rx.events import ErrorEvent, Event, HubEvent, PreObserveEvent
from agentscope_rx.testing import Delay, ScriptedModel, collect_dropped, run_virtual
from tests.pipeline.hub.parts import BrokenMemory, SlowMemory, talker, texts


def task(agent: Agent) -> asyncio.Task[object]:
    return agent.call().as_task()


def test_all_hear_in_one_order_when_several_speak_at_once():
    async def main() -> None:
        slow = [talker(f"L{n}", memory=SlowMemory(n)) for n in range(4)]
        speakers = [talker(f"S{n}", *[[Delay(n % 3), f"s{n}-{k}"] for k in range(3)]) for n in range(6)]
        async with MsgHub([*slow, *speakers]) as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)

            async def speak(agent: Agent) -> None:
                for _ in range(3):
                    await agent.call()

            await asyncio.gather(*(speak(each) for each in speakers))
        said = [f"{each.member}: {each.message.text}" for each in events if each.message is not None]
        numbers = [each.number for each in events if each.message is not None]
        assert numbers == list(range(18))
        for listener in slow:
            assert await texts(listener) == said
        for speaker in speakers:
            heard = [text for text in await texts(speaker) if not text.startswith(speaker.name)]
            assert heard == [text for text in said if not text.startswith(speaker.name)]

    run_virtual(main())


def test_a_slow_member_delays_the_call_and_no_other_member():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        cid = talker("Cid", memory=SlowMemory(10))
        loop = asyncio.get_running_loop()
        async with MsgHub([ann, cid, bob]):
            began = loop.time()
            running = task(ann)
            await asyncio.sleep(1)
            assert await texts(bob) == ["Ann: a1"]
            await running
            assert loop.time() - began == 10

    run_virtual(main())


def test_one_that_cannot_hear_keeps_no_other_from_it():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        deaf = talker("Deaf", memory=BrokenMemory("a1"))
        async with MsgHub([ann, deaf, bob], name="h") as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)
            with collect_dropped() as dropped:
                reply = await ann.call()
                assert reply.text == "a1"
            assert [type(each) for each in dropped] == [OSError]
            # it can take what it has missed: as input, or in a further broadcast
            await ann.call()
            assert await texts(deaf) == ["Ann: a2"]
            deaf.memory.word = "nothing"
            await hub.broadcast(reply)
        assert await texts(deaf) == ["Ann: a2", "Ann: a1"]
        assert await texts(bob) == ["Ann: a1", "Ann: a2"]
        missed = next(each for each in events if each.missed_by)
        assert (missed.heard_by, missed.missed_by) == (("Bob",), ("Deaf",))
        assert missed.error_text == "OSError: no space for 'a1'"

    run_virtual(main())


def test_a_raising_hook_of_a_listener_is_its_own_matter():
    @hook(PreObserveEvent)
    def refuse(event: PreObserveEvent) -> None:
        raise ValueError("not now")

    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob")
        deaf = talker("Deaf", hooks=[refuse])
        async with MsgHub([ann, deaf, bob]):
            with collect_dropped() as dropped:
                events = [each async for each in ann.stream() if isinstance(each, HubEvent)]
            assert [str(each) for each in dropped] == ["not now"]
        assert [(each.heard_by, each.missed_by) for each in events] == [(("Bob",), ("Deaf",))]

    run_virtual(main())


def test_a_call_fails_by_option_if_a_member_misses_it():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        deaf = talker("Deaf", memory=BrokenMemory("a1"))
        async with MsgHub([ann, deaf, bob], name="h", on_missed="fail"):
            events: list[Event] = []
            stream = ann.stream().pipe(ops.do_action(events.append))
            with pytest.raises(UnheardMessageError, match="'Deaf'") as caught:
                await stream
            assert (caught.value.hub, caught.value.members) == ("h", ("Deaf",))
            assert [type(each) for each in events[-2:]] == [HubEvent, ErrorEvent]
            # all others have heard it, and the speaker goes on
            assert await texts(bob) == await texts(ann) == ["Ann: a1"]
            assert (await ann.call()).text == "a2"

    run_virtual(main())


def test_one_that_hangs_misses_it_after_the_timeout():
    async def main() -> None:
        ann, bob = talker("Ann", "a1", "a2"), talker("Bob")
        stuck = talker("Stuck", memory=SlowMemory(1e6))
        loop = asyncio.get_running_loop()
        async with MsgHub([ann, stuck, bob], timeout=5):
            with collect_dropped() as dropped:
                await asyncio.gather(task(ann))
                assert loop.time() < 6
                stuck.memory.seconds = 1
                await ann.call()
            assert [type(each) for each in dropped] == [DeadlineError]
            assert "Member 'Stuck'" in str(dropped[0])
        assert await texts(stuck) == ["Ann: a2"]

    run_virtual(main())


@pytest.mark.parametrize("seconds", [0.5, 3.0, 7.0])
def test_disposal_leaves_no_member_behind(seconds: float):
    """The reply comes after 1 s, the listeners take 2 s and 5 s: before its number none hears it, after it all do."""

    async def main() -> None:
        ann, bob = talker("Ann", [Delay(1), "a1"], "a2"), talker("Bob", memory=SlowMemory(2))
        cid = talker("Cid", memory=SlowMemory(5))
        async with MsgHub([ann, bob, cid]) as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)
            running = task(ann)
            await asyncio.sleep(seconds)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await ann.idle()
            first = [] if seconds < 1 else ["Ann: a1"]
            assert await texts(bob) == await texts(cid) == first
            assert not ann.running
            await ann.call()
            assert (await texts(bob))[len(first) :] == (await texts(cid))[len(first) :] != []
        said = [each for each in events if each.change == "said"]
        assert all(each.heard_by == ("Bob", "Cid") for each in said)

    run_virtual(main())


def test_a_deadline_cuts_the_call_and_not_the_delivery():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", memory=SlowMemory(5))
        async with MsgHub([ann, bob]):
            with pytest.raises(RunDeadlineError):
                await ann.call(limits=UsageLimits(deadline=2))
            await ann.idle()
            assert await texts(bob) == ["Ann: a1"]

    run_virtual(main())


def test_an_interruption_during_the_delivery_changes_nothing():
    async def main() -> None:
        ann, bob = talker("Ann", "a1"), talker("Bob", memory=SlowMemory(5))
        async with MsgHub([ann, bob]):
            running = task(ann)
            await asyncio.sleep(1)
            ann.interrupt()
            assert (await running).text == "a1"  # type: ignore[attr-defined]
        assert await texts(bob) == ["Ann: a1"]

    run_virtual(main())


def answering(name: str, answer: Callable[[], object], *replies: str) -> ReActAgent:
    """An agent that calls another one while it observes the first message."""
    calls = 0

    @hook(PreObserveEvent)
    async def first(event: PreObserveEvent) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await answer()

    return talker(name, *replies, hooks=[first])


def test_a_call_within_an_observation_does_not_wait_for_itself():
    async def main() -> None:
        ann, cid = talker("Ann", "a1", "a2"), talker("Cid", "c1")
        bob = answering("Bob", lambda: cid.call())
        async with MsgHub([ann, bob, cid]) as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)
            await ann.call()
            await ann.call()
        # Bob hears Cid's reply behind the one that he was observing
        assert await texts(bob) == ["Ann: a1", "Cid: c1", "Ann: a2"]
        assert await texts(ann) == ["Ann: a1", "Cid: c1", "Ann: a2"]
        said = [(each.member, set(each.heard_by)) for each in events if each.change == "said"]
        assert said == [("Ann", {"Bob", "Cid"}), ("Cid", {"Ann", "Bob"}), ("Ann", {"Bob", "Cid"})]

    run_virtual(main())


def test_two_that_answer_within_observations_end():
    async def main() -> None:
        ann = talker("Ann", "a1")
        bob = answering("Bob", lambda: cid.call(), "b1")
        cid = answering("Cid", lambda: bob.call(), "c1")
        async with MsgHub([ann, bob, cid]) as hub:
            events: list[HubEvent] = []
            hub.events.subscribe(events.append)
            await asyncio.wait_for(task(ann), 60)
            # what waits behind these observations
            await asyncio.sleep(1)
        said = [each.member for each in events if each.change == "said"]
        assert sorted(said) == ["Ann", "Bob", "Cid"]
        for agent in (ann, bob, cid):
            heard = [text for text in await texts(agent) if not text.startswith(agent.name)]
            assert [text.split(":")[0] for text in heard] == [name for name in said if name != agent.name]

    run_virtual(main())


@hook(PreObserveEvent)
async def _slowly(event: PreObserveEvent) -> None:
    await asyncio.sleep(1)


def test_what_follows_a_call_is_no_part_of_an_observation():
    async def main() -> None:
        ann, cid = talker("Ann", "a1"), talker("Cid", "c1")
        bob = talker("Bob", hooks=[_slowly])
        async with MsgHub([ann, cid, bob]):
            done = asyncio.get_running_loop().create_future()
            # subscribed to where Ann's call has completed, which is where Bob has observed it
            follow = lambda: cid.call().subscribe(on_completed=lambda: done.set_result(None))  # noqa: E731
            ann.call().subscribe(on_completed=follow)
            await done
            assert await texts(bob) == ["Ann: a1", "Cid: c1"]

    run_virtual(main())


def test_members_speak_on_threads_and_loops_of_their_own():
    listeners = [talker(f"L{n}", memory=InMemoryMemory()) for n in range(3)]
    speakers = [ReActAgent(f"S{n}", ScriptedModel(*[f"s{n}-{k}" for k in range(10)])) for n in range(4)]
    with MsgHub([*listeners, *speakers]) as hub:
        events: list[HubEvent] = []
        over = threading.Event()
        hub.events.subscribe(events.append, on_completed=over.set)

        def with_run(agent: ReActAgent) -> None:
            for _ in range(10):
                agent.call().run()

        def with_loop(agent: ReActAgent) -> None:
            async def speak() -> None:
                for _ in range(10):
                    await agent.call()

            asyncio.run(speak())

        ways = [with_run, with_loop, with_run, with_loop]
        threads = [threading.Thread(target=way, args=(agent,)) for way, agent in zip(ways, speakers, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert over.wait(10)
    said = [f"{each.member}: {each.message.text}" for each in events if each.message is not None]
    assert len(said) == 40
    assert [each.number for each in events if each.message is not None] == list(range(40))
    for listener in listeners:
        assert [f"{each.name}: {each.text}" for each in listener.memory.get().run()] == said
