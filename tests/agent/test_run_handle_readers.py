"""Each subscriber of a shared run has its own pace and its own policy; a pause withholds demand for all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import ReActAgent, RunHandle, UsageLimits
from agentscope_rx.agent import HandleState
from agentscope_rx.errors import AgentScopeError, ChannelFullError, RunDeadlineError, RunStoppedError
from agentscope_rx.events import Event, ReasoningChunkEvent, coalesce_chunks
from agentscope_rx.messages import GenerateReason, TextBlock
from agentscope_rx.models import ChatResponse
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Overflow, concat_map, from_async_iterable, timer
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, types


class Talker(ScriptedModel):
    """Speaks many words, one in each turn of the loop, and counts how many were read."""

    def __init__(self, words: int, *, pause: float = 0) -> None:
        super().__init__()
        self.words = words
        self.read = 0
        self.pause = pause

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        async def speak() -> Any:
            for number in range(self.words):
                await asyncio.sleep(self.pause)
                self.read += 1
                yield ChatResponse((TextBlock(f"{number} "),))

        return from_async_iterable(speak)


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, ReasoningChunkEvent))


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_reader_that_waits_slows_the_run_others_do_not() -> None:
    async def main() -> None:
        model = Talker(300)
        handle = agent(model).start("hi")
        plain: list[Event] = []
        handle.events().subscribe(plain.append)
        fast = asyncio.ensure_future(_drain(handle.events().buffered(8)))
        dropping = handle.events().buffered(4, Overflow.DROP_OLDEST)
        first = [await anext(dropping)]
        slow = handle.events().buffered(16)
        await anext(slow)
        await asyncio.sleep(1)
        # what the slow one has taken, its buffer, and the item that was under way
        assert 10 <= model.read <= 20 and handle.stats().log.withheld
        assert len(plain) == handle.stats().log.received, "a plain subscriber has all of it"
        assert max(handle.stats().behind) >= 16 and handle.stats().log.readers == 4
        for _ in range(50):
            await anext(slow)
            await asyncio.sleep(0.1)
        assert 55 <= model.read <= 75
        await slow.aclose()
        assert [event.seq for event in await fast] == list(range(len(plain))) and model.read == 300
        rest = [*first, *[event async for event in dropping]]
        assert len(rest) == 5 and rest[-1].type == "post_call" and dropping.statistics().dropped > 200

    async def _drain(events: Any) -> list[Event]:
        return [event async for event in events]

    run_virtual(main())


def test_a_reader_that_fails_when_full_fails_alone() -> None:
    async def main() -> None:
        handle = agent(Talker(100)).start("hi")
        failing = handle.events().buffered(4, Overflow.FAIL)
        await anext(failing)
        assert (await handle.result()).text.endswith("99 ")
        with pytest.raises(ChannelFullError):
            async for _ in failing:
                pass

    run_virtual(main())


def test_a_reader_may_merge_what_it_is_behind() -> None:
    async def main() -> None:
        handle = agent(Talker(100)).start("hi")
        merging = handle.events().buffered(4, coalesce=coalesce_chunks)
        seen = [await anext(merging)]
        await asyncio.sleep(1)
        seen += [event async for event in merging]
        assert text_of(seen) == "".join(f"{number} " for number in range(100)) and len(seen) < 10

    run_virtual(main())


def test_an_operator_that_withholds_demand_slows_the_run() -> None:
    async def main() -> None:
        model = Talker(200)
        handle = agent(model).start("hi")
        slowly = concat_map(lambda event: timer(1).pipe(ops.map(lambda _: event)), prefetch=4)
        waiting = handle.events().pipe(slowly).as_task()
        await asyncio.sleep(10)
        assert model.read < 20
        waiting.cancel()
        await handle.result()

    run_virtual(main())


def test_a_late_reader_gets_what_is_kept_at_its_own_pace() -> None:
    async def main() -> None:
        handle = agent(Talker(100, pause=1)).start("hi")
        await asyncio.sleep(50.5)
        before = handle.stats().log.received
        seen: list[int] = []
        async with handle.events().buffered(4) as events:
            async for event in events:
                seen.append(event.seq)
                if event.seq < before:
                    await asyncio.sleep(0.01)
        assert seen == list(range(handle.stats().log.received)) and before > 40

    run_virtual(main())


def test_a_subscriber_that_raises_harms_no_other() -> None:
    async def main() -> None:
        friday = agent(Talker(10))
        handle = friday.start("hi")

        def fail(event: Event) -> None:
            raise ZeroDivisionError("mine")

        heard: list[Event] = []
        handle.events().subscribe(fail)
        handle.events().pipe(ops.map(fail)).subscribe(on_error=lambda error: None)
        handle.events().subscribe(heard.append)
        assert len((await handle.result()).text.split()) == 10 and len(heard) == handle.stats().log.received
        assert_whole(friday)

    with collect_dropped() as dropped:
        run_virtual(main())
    assert [str(error) for error in dropped] == ["mine"]


def test_a_subscriber_that_exits_harms_no_other() -> None:
    handles: list[RunHandle] = []

    async def main() -> None:
        handle = agent(Talker(10)).start("hi")
        handles.append(handle)

        def leave(event: Event) -> None:
            raise SystemExit(3)

        heard: list[Event] = []
        handle.events().subscribe(leave)
        handle.events().subscribe(heard.append, lambda error: None)
        await handle.result()

    with pytest.raises(SystemExit):
        asyncio.run(main())
    # the loop was ended by it; the run was cut off as any, not by an exception inside of it
    assert handles[0].state is HandleState.ENDED


def test_a_callback_may_use_the_handle() -> None:
    async def main() -> None:
        handle = agent(Talker(50)).start("hi")
        nested: list[int] = []
        order: list[int] = []

        def act(event: Event) -> None:
            order.append(event.seq)
            if event.seq == 5:
                handle.pause()
                handle.events().subscribe(lambda event: nested.append(event.seq), lambda error: None)
                handle.resume()
            elif event.seq == 20:
                handle.dispose()

        handle.events().subscribe(act, lambda error: None)
        await handle.idle()
        assert order == nested == list(range(22))

    run_virtual(main())


# --- pause ------------------------------------------------------------------------------------------------------------


def test_a_pause_stops_the_reading_of_the_model() -> None:
    async def main() -> None:
        model = Talker(20, pause=1)
        handle = agent(model).start("hi")
        await asyncio.sleep(5.5)
        handle.pause()
        handle.pause()
        assert handle.state is HandleState.PAUSED
        await asyncio.sleep(100)
        assert model.read <= 7
        handle.resume()
        handle.resume()
        assert handle.state is HandleState.RUNNING and len((await handle.result()).text.split()) == 20

    run_virtual(main())


def test_tools_under_way_finish_while_paused() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel([call("slow", seconds=5), call("weather", city="Oslo")], ["It ", "is."]))
        handle = friday.start("hi")
        await asyncio.sleep(1)
        handle.pause()
        await asyncio.sleep(10)
        paused = [event async for event in handle.events().pipe(ops.take(handle.stats().log.received))]
        assert types(paused).count("post_acting") == 2 and "post_call" not in types(paused)
        handle.resume()
        assert (await handle.result()).text == "It is."
        assert_whole(friday)

    run_virtual(main())


def test_paused_time_does_not_count_for_the_models_deadlines() -> None:
    async def main(pauses: bool) -> str:
        config = ExecutionConfig(idle_timeout=3, max_attempts=1)
        # (the pause begins between two reads: one that is under way has its deadline)
        model = ScriptedModel(["One ", Delay(2), "two ", Delay(2), "three"], execution_config=config)
        handle = agent(model).start("hi")
        if pauses:
            subscription = handle.events().subscribe(
                lambda event: handle.pause() if event.type == "reasoning_chunk" else None
            )
            for _ in range(3):
                await asyncio.sleep(60)
                handle.resume()
            subscription.dispose()
        return (await handle.result()).text

    assert run_virtual(main(False)) == run_virtual(main(True)) == "One two three"


@pytest.mark.parametrize("how", ["interrupt", "dispose"])
@pytest.mark.parametrize("at", [0.5, 1.5, 2.5])
def test_a_paused_run_can_be_ended(how: str, at: float) -> None:
    async def main() -> None:
        script = ["One ", Delay(1), "moment", call("slow", seconds=1)], ["It ", Delay(1), "is"]
        friday = agent(ScriptedModel(*script))
        handle = friday.start("hi")
        await asyncio.sleep(at)
        handle.pause()
        if how == "interrupt":
            assert handle.interrupt("enough")
            assert (await handle.result()).text == "enough"
        else:
            handle.dispose("enough")
            with pytest.raises(RunStoppedError, match="enough"):
                await handle.result()
        await handle.idle()
        assert handle.state is HandleState.ENDED and not friday.running
        assert_whole(friday)
        friday.model = ScriptedModel("fine")
        assert (await friday.call("and now?")).text == "fine"

    run_virtual(main())


def test_the_deadline_of_a_run_runs_on_while_it_is_paused() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One ", *[Delay(1), "and "] * 20]))
        handle = friday.start("hi", limits=UsageLimits(deadline=5))
        await asyncio.sleep(1)
        handle.pause()
        with pytest.raises(RunDeadlineError):
            await handle.result()
        assert asyncio.get_running_loop().time() == 5 and not friday.running
        assert_whole(friday)

    run_virtual(main())


def test_one_who_gives_up_waiting_leaves_the_run_alone() -> None:
    async def main() -> None:
        handle = agent(ScriptedModel(["One ", Delay(10), "two"])).start("hi")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await handle.result()
        assert handle.stats().log.readers == 0
        assert (await handle.result()).text == "One two"

    run_virtual(main())


def test_a_reader_that_stalls_is_no_obstacle_to_the_end() -> None:
    async def main() -> None:
        friday = agent(Talker(500))
        handle = friday.start("hi")
        stalled = handle.events().buffered(4)
        await anext(stalled)
        await asyncio.sleep(1)
        assert handle.stats().log.withheld and handle.interrupt("enough")
        await handle.idle()
        assert not friday.running
        rest = [event async for event in stalled]
        assert rest[-1].type == "post_call" and [event.seq for event in rest] == list(range(1, len(rest) + 1))
        assert_whole(friday)

    run_virtual(main())


def test_a_pause_before_the_beginning_holds() -> None:
    async def main() -> None:
        model = Talker(5)
        handle = agent(model).start("hi")
        handle.pause()
        await asyncio.sleep(10)
        assert model.read <= 1
        handle.resume()
        await handle.result()

    run_virtual(main())


# --- at random --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Visit:
    """After some eighths of a second: read so many events by this policy, pausing after each, and leave."""

    after: int
    events: int
    pause: int
    policy: str
    capacity: int


VISIT = st.builds(
    Visit,
    st.integers(0, 20),
    st.sampled_from([0, 1, 3, 100]),
    st.sampled_from([0, 0, 1, 4]),
    st.sampled_from(["wait", "plain", "each"]),
    st.sampled_from([1, 2, 8]),
)
CLIENTS = st.lists(st.lists(VISIT, min_size=1, max_size=3), min_size=1, max_size=4)
WAYS = st.sampled_from(["", "", "dispose", "interrupt", "pause", "fail"])


class Down(AgentScopeError):
    """The model fails."""


def scripted(fails: bool) -> ReActAgent:
    piece = [Delay(0.25), "and "]
    end: list[Any] = [Down("down")] if fails else []
    return agent(ScriptedModel(["Well ", *piece * 3, call("count", upto=3)], ["So ", *piece * 4, "on", *end], "Fine."))


class Client:
    """Reads a run in several visits; what it reads has no gap and nothing twice."""

    def __init__(self, handle: RunHandle) -> None:
        self.handle = handle
        self.next = 0

    async def visit(self, visits: list[Visit]) -> None:
        for visit in visits:
            await asyncio.sleep(visit.after / 8)
            try:
                await (self._plain(visit) if visit.policy == "plain" else self._pulled(visit))
            except (Down, RunStoppedError):
                continue

    def _take(self, event: Event) -> None:
        assert event.seq == self.next, f"{event.seq} instead of {self.next}"
        self.next += 1

    async def _plain(self, visit: Visit) -> None:
        subscription = self.handle.events(self.next).subscribe(self._take, lambda error: None)
        await asyncio.sleep(visit.pause)
        subscription.dispose()

    async def _pulled(self, visit: Visit) -> None:
        events = self.handle.events(self.next)
        async with events.buffered(visit.capacity) if visit.policy == "wait" else events.buffered() as each:
            for _ in range(visit.events):
                try:
                    self._take(await anext(each))
                except StopAsyncIteration:
                    return
                await asyncio.sleep(visit.pause / 8)


@given(CLIENTS, WAYS, st.integers(0, 30), st.sampled_from([None, 0, 0.5]))
def test_readers_that_come_and_go_at_random(
    clients: list[list[Visit]], way: str, at: int, linger: float | None
) -> None:
    async def main() -> None:
        friday = scripted(way == "fail")
        handle = friday.start("hi", linger=linger)
        readers = [Client(handle) for _ in clients]
        visits = asyncio.gather(*(reader.visit(each) for reader, each in zip(readers, clients, strict=True)))
        await asyncio.wait([visits], timeout=at / 8 + 0.01)
        if way == "pause":
            handle.pause()
            await asyncio.wait([visits], timeout=3)
            handle.resume()
        elif way == "dispose":
            handle.dispose()
        elif way == "interrupt":
            handle.interrupt()
        await asyncio.wait_for(visits, 1000)
        try:
            await handle.result()
        except (Down, RunStoppedError) as error:
            stopped = isinstance(error, RunStoppedError)
            assert way == "dispose" or linger is not None if stopped else way == "fail"
        await handle.idle()
        assert not friday.running and handle.stats().log.readers == 0
        events: list[int] = []
        await handle.events().pipe(
            ops.do_action(lambda event: events.append(event.seq)), ops.catch(lambda error, source: timer(0))
        )
        assert events == list(range(handle.stats().log.received))
        assert_whole(friday)
        friday.model = ScriptedModel("Fine.")
        assert (await friday.call("And now?")).text == "Fine."

    with collect_dropped() as dropped:
        run_virtual(main())
    # a reader may leave before it has read the error
    assert set(dropped.where) <= {"a stream left before its error was read"}


def test_readers_of_an_error_leave_nothing_in_it() -> None:
    async def main() -> None:
        handle = agent(ScriptedModel(Down("down"))).start("hi")
        frames: list[int] = []
        for _ in range(10):
            with pytest.raises(Down) as caught:
                await handle.result()
            frames.append(len(list(walk_tb(caught.value.__traceback__))))
            with pytest.raises(Down):
                async for _ in handle.events():
                    pass
        assert len(set(frames)) == 1

    run_virtual(main())


def test_a_hanging_run_has_an_interruptible_reply() -> None:
    async def main() -> None:
        handle = agent(ScriptedModel(["One ", HANG])).start("hi")
        await asyncio.sleep(1)
        handle.interrupt()
        assert (await handle.result()).generate_reason is GenerateReason.INTERRUPTED

    run_virtual(main())
