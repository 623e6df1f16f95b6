"""A run is followed, interrupted and stopped from another process, by what its own process writes to a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentscope_rx import InMemorySession, ReActAgent
from agentscope_rx.errors import ConfigurationError, EventsGoneError
from agentscope_rx.events import Event
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatModel
from agentscope_rx.service import AgentHost, LiveRun, RunElsewhereError, RunLostError, RunRelay, UnknownRunError
from agentscope_rx.service.runs.relayed_run import RelayedRun
from agentscope_rx.session import Session
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual

WORDS = [TextBlock("One "), Delay(1), TextBlock("two "), Delay(1), TextBlock("three")]


class Two:
    """Two processes of a service: two hosts that share nothing but a store."""

    def __init__(self, model: ChatModel, session: Session, **options: Any) -> None:
        self.session = session
        self.relays = [RunRelay(session, **options) for _ in range(2)]
        self.hosts = [
            AgentHost(ReActAgent("friday", model), relay=relay, on_disconnect="continue") for relay in self.relays
        ]

    async def begin(self, session_id: str | None = "s1") -> LiveRun:
        """A run at the first, without a client."""
        live = self.hosts[0].begin(None, "hi", session_id=session_id)
        reader = live.follow()
        await reader.wait()
        await live.leave(reader)
        return live

    async def elsewhere(self, live: LiveRun) -> RelayedRun:
        """The run as the second process finds it."""
        await asyncio.sleep(0.2)
        found = await self.hosts[1].finder.find(live.id or "")
        assert isinstance(found, RelayedRun)
        return found


def both(
    test: Callable[[Two], Coroutine[Any, Any, None]], model: ChatModel, session: Session | None = None, **options: Any
) -> Session:
    """Run the test with both hosts, in virtual time."""
    store = session or InMemorySession()

    async def main() -> None:
        two = Two(model, store, **options)
        async with two.hosts[0], two.hosts[1]:
            await test(two)

    run_virtual(main())
    return store


async def read(run: LiveRun | RelayedRun, after: int | None = None) -> list[Event]:
    """The events that a client reads."""
    reader = run.follow(after)
    events = []
    while await reader.wait():
        events.append(reader.take().event)
    await run.leave(reader)  # type: ignore[arg-type]
    return events


def kept(events: list[Event]) -> list[str]:
    return [event.to_json() for event in events]


def test_a_run_is_followed_elsewhere():
    async def test(two: Two) -> None:
        live = await two.begin()
        far = await two.elsewhere(live)
        near, there = await asyncio.gather(read(live), read(far))
        assert kept(there) == kept(near) and there[-1].type == "post_call"
        # and after its end
        ended = await two.elsewhere(live)
        assert kept(await read(ended)) == kept(near) and ended.ended_at(near[-1].seq)
        assert kept(await read(ended, 3)) == [each.to_json() for each in near if each.seq > 3]

    both(test, ScriptedModel(WORDS))


def test_a_client_comes_back_to_another_process():
    """It has read a part from the first, up to an event that is not yet in the store."""

    async def test(two: Two) -> None:
        live = await two.begin()
        far = await two.elsewhere(live)
        reader = live.follow()
        seen: list[Event] = []
        while len(seen) < 6:
            assert await reader.wait()
            seen.append(reader.take().event)
        await live.leave(reader)
        rest = await read(far, seen[-1].seq)
        assert kept(seen + rest) == kept(await read(live))

    both(test, ScriptedModel(WORDS))


def test_a_run_is_interrupted_from_elsewhere():
    async def test(two: Two) -> None:
        live = await two.begin()
        assert (await two.hosts[1].find_live(None, "anyone", "s1")).id == live.id  # type: ignore[union-attr]
        far = await two.elsewhere(live)
        finder = two.hosts[1].finder
        with pytest.raises(RunElsewhereError):
            await finder.enqueue(far.id, "more", "next_round")
        assert await finder.interrupt(far.id, "enough")
        assert live.handle is not None
        assert (await live.handle.result()).text == "enough"
        assert (await read(far))[-1].type == "post_call"
        await asyncio.sleep(0.2)
        assert not await finder.interrupt(far.id)
        assert await two.hosts[1].find_live(None, "anyone", "s1") is None

    both(test, ScriptedModel([TextBlock("One "), HANG]))


def test_a_run_is_stopped_from_elsewhere():
    async def test(two: Two) -> None:
        live = await two.begin()
        far = await two.elsewhere(live)
        await two.hosts[1].finder.stop(far.id)
        assert live.ended.fired
        assert (await read(far))[-1].type == "error"

    both(test, ScriptedModel([TextBlock("One "), HANG]))


def test_a_failed_run_ends_elsewhere_with_its_error():
    async def test(two: Two) -> None:
        far = await two.elsewhere(await two.begin())
        events = await read(far)
        assert (events[-1].type, getattr(events[-1], "error_text", "")) == ("error", "lost")

    both(test, ScriptedModel([TextBlock("One "), Delay(1), RuntimeError("lost")]))


def test_readers_of_a_process_that_is_gone_are_told():
    """Its last sign of life is `ttl` seconds ago."""

    async def test(two: Two) -> None:
        live = await two.begin()
        far = await two.elsewhere(live)
        # what a killed process leaves: nothing is written any more
        two.relays[0].session = InMemorySession()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(RunLostError):
            await read(far)
        assert 15 < asyncio.get_running_loop().time() - begun < 17
        with pytest.raises(RunLostError):
            await two.hosts[1].finder.interrupt(far.id)
        assert not (await two.session.load_all("requests")).values
        live.dispose("the test has ended")

    both(test, ScriptedModel([TextBlock("One "), HANG]))


def test_what_is_too_old_is_dropped():
    words = [each for n in range(200) for each in (TextBlock(f"word {n} "), Delay(0.05))]

    async def test(two: Two) -> None:
        live = await two.begin()
        far = await two.elsewhere(live)
        near = await read(live)
        await asyncio.sleep(0.5)
        with pytest.raises(EventsGoneError):
            await read(far)
        ended = await two.elsewhere(live)
        with pytest.raises(EventsGoneError):
            ended.follow()
        saved = await two.session.load_all(f"run/{live.id}")
        assert sum(len(text) for name, page in saved.values.items() if name != "head" for _, text in page) < 30_000
        assert kept(await read(ended, near[-3].seq)) == kept(near[-2:])

    both(test, ScriptedModel(words), max_bytes=20_000)


def test_a_failing_store_does_not_end_the_run(caplog: pytest.LogCaptureFixture):
    class Broken(InMemorySession):
        broken = False

        def save_all(self, key: str, *args: Any, **options: Any) -> Any:
            if self.broken and key.startswith("run/"):
                raise OSError("the disk is full")
            return super().save_all(key, *args, **options)

    store = Broken()

    async def test(two: Two) -> None:
        live = await two.begin()
        await asyncio.sleep(0.5)
        store.broken = True
        assert live.handle is not None
        assert (await live.handle.result()).text == "One two three"

    both(test, ScriptedModel(WORDS), store)
    assert "cannot be followed from other processes" in caplog.text


def test_nothing_is_left_in_the_store():
    async def test(two: Two) -> None:
        live = await two.begin()
        await read(live)
        await asyncio.sleep(400)
        assert await two.session.keys() == []
        with pytest.raises(UnknownRunError):
            await two.hosts[1].finder.find(live.id or "")

    both(test, ScriptedModel(WORDS))


def test_what_a_killed_process_left_is_swept():
    store = InMemorySession()

    async def leave() -> None:
        head = {"conversation": "c", "first": 0, "next": 0, "dropped": -1, "last": -1, "ended": False, "beat": 1}
        await store.save("run/old", "head", {**head, "at": 1.0})
        await store.save("conversation/c", "run", "old")

    async def test(two: Two) -> None:
        assert await two.session.keys() == []

    run_virtual(leave())
    both(test, ScriptedModel(), store)


def test_a_run_that_stops_with_its_client_is_not_written():
    async def main() -> None:
        store = InMemorySession()
        async with AgentHost(ReActAgent("friday", ScriptedModel(WORDS)), relay=RunRelay(store)) as host:
            live = host.begin(None, "hi")
            assert (await read(live))[-1].type == "post_call"
            assert await store.keys() == []

    run_virtual(main())


def test_without_a_relay_the_error_says_so():
    async def main() -> None:
        host = AgentHost(ReActAgent("friday", ScriptedModel()), sessions=InMemorySession(), lease="error")
        async with host:
            with pytest.raises(UnknownRunError, match="another process"):
                await host.finder.find("elsewhere")

    run_virtual(main())


def test_the_times_are_checked():
    with pytest.raises(ConfigurationError, match="interval"):
        RunRelay(InMemorySession(), interval=20)
