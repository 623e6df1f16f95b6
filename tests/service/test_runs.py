"""A run is owned from its beginning to its end: followed, left, taken up again, forgotten, stopped."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ReActAgent
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import AgentBusyError, ConfigurationError, InvalidInputError
from agentscope_rx.events import ErrorEvent, PostCallEvent, event_from_json
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import never
from agentscope_rx.service import (
    EventsGoneError,
    LiveRun,
    OnDisconnect,
    Runs,
    RunStoppedError,
    ServiceStoppingError,
    UnknownRunError,
)
from agentscope_rx.service.protocols.sse_format import frame
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole
from tests.service.test_sse_format import decoded


def weatherman(**options):
    """An agent whose run takes two rounds, a tool and a few seconds."""
    script = ["Let me ", Delay(1), "see.", call("weather", city="Oslo")], ["It ", Delay(2), "is ", "sunny."]
    return agent(ScriptedModel(*script), **options)


def event(logged: LoggedEvent):
    """The event as a client reads it."""
    (sent,) = decoded(frame(logged))
    return event_from_json(sent.data)


async def rest(reader) -> list[LoggedEvent]:
    return [each async for each in reader]


async def whole_run() -> int:
    """How many events the weatherman's run has."""
    return len([each async for each in weatherman().stream("hi")])


EVENTS = run_virtual(whole_run())


# --- following and leaving --------------------------------------------------------------------------------------------


def test_nothing_begins_before_it_is_followed():
    async def main():
        async with Runs() as runs:
            friday = weatherman()
            run = runs.add(friday.stream("hi"), agent=friday)
            await asyncio.sleep(5)
            assert (run.id, friday.running, run.opened.fired) == (None, False, False)
            assert runs.statistics() == (0, 0, 0) and run.statistics().received == 0
            await run.stop()

    run_virtual(main())


def test_a_run_that_stops_with_its_last_client():
    async def main():
        friday = weatherman()
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), on_disconnect="stop")
            first, second = run.follow(), run.follow()
            first_event = await anext(first)
            assert runs.find(first_event.event.run_id) is run
            await run.leave(first)
            assert friday.running and not run.ended.fired
            await run.leave(second)
            assert run.ended.fired and run.gone.fired and not friday.running
            with pytest.raises(UnknownRunError):
                runs.find(first_event.event.run_id)
            assert runs.statistics() == (0, 0, 0)
        assert_whole(friday)

    run_virtual(main())


def test_a_run_goes_on_without_clients_and_is_forgotten():
    async def main():
        friday = weatherman()
        clock = asyncio.get_running_loop().time
        async with Runs(keep_seconds=60) as runs:
            run = runs.add(friday.stream("hi"), on_disconnect="continue")
            reader = run.follow()
            id = (await anext(reader)).event.run_id
            await run.leave(reader)
            assert friday.running and runs.statistics() == (1, 0, 0)
            await asyncio.sleep(3.5)
            assert run.ended.fired and not friday.running and clock() == 3.5
            assert runs.statistics() == (0, 1, 0)
            await asyncio.sleep(59.4)
            again = runs.find(id).follow()
            assert isinstance(event((await rest(again))[-1]), PostCallEvent)
            await run.leave(again)
            await asyncio.sleep(0.2)
            with pytest.raises(UnknownRunError, match=id):
                runs.find(id)
            assert runs.statistics() == (0, 0, 0)

    run_virtual(main())


@given(st.integers(0, EVENTS), st.integers(0, EVENTS), st.booleans())
def test_two_cuts_anywhere_lose_and_repeat_nothing(one: int, two: int, pause: bool):
    async def main():
        async with Runs() as runs:
            run = runs.add(weatherman().stream("hi"), on_disconnect="continue")
            events: list[LoggedEvent] = []
            for cut in sorted([one, two]):
                reader = run.follow(events[-1].seq if events else None)
                while len(events) < cut:
                    events.append(await anext(reader))
                await run.leave(reader)
                await asyncio.sleep(0.7 if pause else 0)
            reader = run.follow(events[-1].seq if events else None)
            events += await rest(reader)
            await run.leave(reader)
            assert [each.seq for each in events] == list(range(EVENTS))
            assert len({each.event.run_id for each in events}) == 1
            assert events[-1].event.type == "post_call"

    run_virtual(main())


@pytest.mark.parametrize("cut", range(EVENTS))
def test_a_cut_at_every_event_loses_and_repeats_nothing(cut: int):
    test_two_cuts_anywhere_lose_and_repeat_nothing.hypothesis.inner_test(cut, EVENTS, True)


def test_what_the_log_no_longer_has_is_said():
    async def main():
        async with Runs() as runs:
            run = runs.add(weatherman().stream("hi"), on_disconnect="continue", capacity=4)
            reader = run.follow()
            await anext(reader)
            await run.leave(reader)
            await asyncio.sleep(10)
            oldest = EVENTS - 4
            for after in (None, 0, oldest - 2):
                with pytest.raises(EventsGoneError, match=f"the oldest event kept is {oldest}") as gone:
                    run.follow(after)
                assert (gone.value.run_id, gone.value.after, gone.value.first) == (run.id, after, oldest)
            reader = run.follow(oldest - 1)
            assert [each.seq for each in await rest(reader)] == [oldest, oldest + 1, oldest + 2, oldest + 3]
            await run.leave(reader)
            with pytest.raises(InvalidInputError, match=f"no event {EVENTS}; its last one is {EVENTS - 1}"):
                run.follow(EVENTS)
            assert run.ended_at(EVENTS - 1) and not run.ended_at(EVENTS - 2) and not run.ended_at(None)
            assert await rest(run.follow(EVENTS - 1)) == []

    run_virtual(main())


def test_a_slow_client_slows_the_run_and_one_that_left_does_not():
    async def main():
        friday = agent(ScriptedModel([f"{i} " for i in range(200)]))
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), on_disconnect="continue", capacity=16)
            reader = run.follow()
            await anext(reader)
            await asyncio.sleep(100)
            told = run.statistics()
            assert told.withheld and told.behind == 16 and told.received == 17 and told.readers == 1
            await run.leave(reader)
            await asyncio.sleep(0.1)
            assert run.ended.fired and run.statistics().kept == 16 and not run.statistics().withheld

    run_virtual(main())


# --- ends -------------------------------------------------------------------------------------------------------------


def test_a_stopped_run_says_so_to_those_who_follow():
    async def main():
        friday = agent(ScriptedModel(["One moment", HANG]))
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), on_disconnect="continue")
            reader = run.follow()
            id = (await anext(reader)).event.run_id
            await runs.stop(id)
            assert not friday.running and run.gone.fired
            events = await rest(reader)
            last = event(events[-1])
            assert isinstance(last, ErrorEvent) and last.error_type == "RunStoppedError"
            assert [each.seq for each in events] == list(range(1, len(events) + 1))
            with pytest.raises(UnknownRunError):
                await runs.stop(id)
            await run.stop()
        assert_whole(friday)

    run_virtual(main())


def test_a_run_stopped_before_its_first_event_is_an_error():
    async def main():
        async with Runs() as runs:
            run = runs.add(never())
            with pytest.raises(InvalidInputError, match="no event 0 to resume after"):
                LiveRun(never()).follow(0)
            reader = run.follow()
            await asyncio.sleep(1)
            waiting = asyncio.ensure_future(anext(reader))
            await run.stop("So it is.")
            with pytest.raises(RunStoppedError, match="So it is"):
                await waiting
            await run.leave(reader)
            alone = runs.add(never())
            await alone.leave(alone.follow())
            assert alone.ended.fired

    run_virtual(main())


def test_a_busy_agent_fails_before_any_event():
    async def main():
        friday = agent(ScriptedModel(["One moment", HANG]))
        async with Runs() as runs:
            first = runs.add(friday.stream("hi"))
            reader = first.follow()
            await anext(reader)
            second = runs.add(friday.stream("hi"), on_disconnect="continue")
            refused = second.follow()
            with pytest.raises(AgentBusyError):
                await anext(refused)
            await second.leave(refused)
            assert runs.statistics() == (1, 0, 1)
            await first.leave(reader)

    run_virtual(main())


@pytest.mark.parametrize("stop", ["interrupt", "stop", "leave"])
def test_a_client_that_stalls_is_no_obstacle_to_the_end(stop: str):
    async def main():
        friday = agent(ScriptedModel([f"{i} " for i in range(200)]))
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), agent=friday)
            reader = run.follow()
            await anext(reader)
            await asyncio.sleep(1)
            assert run.statistics().withheld
            if stop == "interrupt":
                assert run.interrupt("enough")
            elif stop == "stop":
                await run.stop()
            else:
                await run.leave(reader)
            await asyncio.sleep(1)
            assert run.gone.fired and not friday.running
            if stop != "leave":
                events = await rest(reader)
                assert len(events) >= 64 and events[-1].event.type == ("post_call" if stop == "interrupt" else "error")
                await run.leave(reader)
        assert_whole(friday)

    run_virtual(main())


def test_interruption_is_the_agents_and_ends_the_run_normally():
    async def main():
        friday = agent(ScriptedModel(["One moment", HANG], [Delay(1), "again"]))
        async with Runs() as runs:
            run = runs.add(friday.stream("hi"), agent=friday)
            assert not run.interrupt("too early")
            reader = run.follow()
            await anext(reader)
            await asyncio.sleep(1)
            assert run.interrupt("enough")
            last = event((await rest(reader))[-1])
            assert isinstance(last, PostCallEvent) and last.message.text == "enough"
            assert last.message.generate_reason is GenerateReason.INTERRUPTED
            # the agent's next run is none of this one's business
            other = friday.call("go on").as_task()
            await asyncio.sleep(0.5)
            assert friday.running and not run.interrupt("too late")
            assert (await other).text == "again"
            await run.leave(reader)
            nobody = runs.add(agent(ScriptedModel("x")).stream("hi"))
            reader = nobody.follow()
            await anext(reader)
            assert not nobody.interrupt()
            await nobody.leave(reader)

    run_virtual(main())


def test_closing_stops_and_awaits_runs_and_begins_none():
    async def main():
        agents = [agent(ScriptedModel(["One moment", HANG])) for _ in range(3)]
        runs = Runs()
        async with runs:
            followed = runs.add(agents[0].stream("hi"))
            reader = followed.follow()
            detached = runs.add(agents[1].stream("hi"), on_disconnect="continue")
            await detached.leave(detached.follow())
            closing = runs.add(agents[2].stream("hi"))
            late = runs.add(agents[2].stream("hi"))
            left = asyncio.ensure_future(closing.leave(closing.follow()))
            await asyncio.sleep(1)
            assert runs.statistics().live == 2
        assert runs.statistics() == (0, 0, 1) or runs.statistics() == (0, 0, 0)
        assert not any(each.running for each in agents)
        assert (await rest(reader))[-1].event.type == "error"
        await followed.leave(reader)
        await left
        with pytest.raises(ServiceStoppingError):
            runs.add(never())
        for _ in range(2):
            # (refused once, it is not let in by asking again)
            with pytest.raises(ServiceStoppingError):
                late.follow()
        assert not late.opened.fired
        async with runs:
            runs.add(never())

    run_virtual(main())


def test_a_cleanup_under_way_is_waited_for_at_the_close():
    async def main():
        finished: list[float] = []

        async def slowly():
            try:
                yield "first"
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(3)
                finished.append(asyncio.get_running_loop().time())

        friday = agent(_Closing(slowly))
        runs = Runs()
        run = runs.add(friday.stream("hi"))
        reader = run.follow()
        while (await anext(reader)).event.type != "reasoning_chunk":
            pass
        leaving = asyncio.ensure_future(run.leave(reader))
        await asyncio.sleep(1)
        assert run.ended.fired and not run.gone.fired and runs.statistics().live == 1
        await runs.aclose()
        assert finished == [3] and not friday.running
        await leaving

    run_virtual(main())


class _Closing(ScriptedModel):
    def __init__(self, speak):
        super().__init__()
        self.speak = speak

    def do_stream(self, messages, tools, options):
        from agentscope_rx.messages import TextBlock
        from agentscope_rx.models import ChatResponse
        from agentscope_rx.reactive import from_async_iterable

        async def chunks():
            async for word in self.speak():
                yield ChatResponse((TextBlock(word),))

        return from_async_iterable(chunks)


def test_misuse_is_said():
    with pytest.raises(ConfigurationError, match="'stop' or 'continue'"):
        LiveRun(never(), on_disconnect="sometimes")  # pyright: ignore
    with pytest.raises(ConfigurationError, match="at least 1"):
        LiveRun(never(), capacity=0)
    assert LiveRun(never(), on_disconnect="continue").on_disconnect is OnDisconnect.CONTINUE


def test_a_run_is_known_by_the_outermost_agents_events():
    """A sub-agent's are among them; a run that is stopped in the middle of one is still told of as its own."""

    async def main() -> None:
        helper = ReActAgent("Helper", ScriptedModel(["One ", HANG]))
        boss = agent(ScriptedModel(call("call_helper", message="go")), tools=[helper.as_tool()])
        async with Runs() as runs:
            run = runs.add(boss.stream("hi"), on_disconnect="continue", agent=boss)
            reader = run.follow()
            await asyncio.sleep(1)
            id = run.id
            assert runs.find(id) is run and boss.runs[0].id == id
            await run.stop()
            events = await rest(reader)
            assert any(each.event.run_id != id for each in events)
            last = event(events[-1])
            assert isinstance(last, ErrorEvent) and (last.run_id, last.depth) == (id, 0)
        assert_whole(boss)

    run_virtual(main())
