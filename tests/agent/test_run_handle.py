"""A run that begins by itself, is kept until its end, and has subscribers that come late, leave and return."""

from __future__ import annotations

import asyncio
import gc
import re
from typing import Any
from weakref import ref

import pytest
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, ReActAgent, RunHandle, StreamOptions
from agentscope_rx.agent import HandleState
from agentscope_rx.errors import (
    AgentBusyError,
    ConfigurationError,
    EventsGoneError,
    InvalidInputError,
    ModelConnectionError,
    RunStoppedError,
)
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent, PreCallEvent, ReasoningChunkEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import SourceCancelledError, concat, just, never, throw
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, types


def weatherman(**options: Any) -> ReActAgent:
    """An agent whose run takes two rounds, a tool and three seconds."""
    script = ["Let me ", Delay(1), "see.", call("weather", city="Oslo")], ["It ", Delay(2), "is ", "sunny."]
    return agent(ScriptedModel(*script), **options)


async def seen(handle: RunHandle, from_seq: int = 0) -> list[Event]:
    return [event async for event in handle.events(from_seq)]


# --- its life ---------------------------------------------------------------------------------------------------------


def test_it_begins_without_a_subscriber_and_ends() -> None:
    async def main() -> None:
        friday = weatherman()
        handle = friday.start("hi")
        assert handle.state is HandleState.WAITING and friday.runs[0].id == handle.id
        with pytest.raises(AgentBusyError, match=handle.id):
            await friday.call("and me?")
        await asyncio.sleep(0.5)
        assert handle.state is HandleState.RUNNING and f"{handle.id}, running" in repr(handle)
        await asyncio.sleep(3)
        assert handle.state is HandleState.ENDED and not friday.running
        assert (await handle.result()).text == "It is sunny."
        assert_whole(friday)

    run_virtual(main())


def test_it_shows_the_events_of_a_stream_at_any_time() -> None:
    async def main() -> None:
        expected = types(await events_of(weatherman(), "hi"))
        handle = weatherman().start("hi")
        plain: list[Event] = []
        handle.events().subscribe(plain.append)
        assert not plain, "no signal before subscribe has returned"
        await asyncio.sleep(1.5)
        live = await seen(handle)
        later = await seen(handle)
        assert types(live) == expected and live == later == plain
        assert [event.seq for event in live] == list(range(len(live)))
        assert {event.run_id for event in live} == {handle.id}
        assert await seen(handle, 4) == live[4:] and await seen(handle, len(live)) == []
        text = "".join([part async for part in handle.events().text()])
        assert text == "Let me see.\nIt is sunny."
        chunks = [event.accumulated for event in live if isinstance(event, ReasoningChunkEvent)]
        assert chunks[1] is not None and chunks[1].text == "Let me see."  # pyright: ignore

    run_virtual(main())


def test_the_result_comes_to_each_who_waits_and_later() -> None:
    async def main() -> None:
        handle = weatherman().start("hi", StreamOptions(kinds=[PreCallEvent]))
        first = handle.result()
        early = [handle.result().as_task() for _ in range(3)]
        replies = [*await asyncio.gather(*early), await first, await first]
        assert {reply.text for reply in replies} == {"It is sunny."}
        assert types(await seen(handle)) == ["pre_call"]

    run_virtual(main())


def test_it_takes_the_options_of_a_stream() -> None:
    async def main() -> None:
        friday, elsewhere = agent(ScriptedModel("fine")), InMemoryMemory()
        with pytest.raises(InvalidInputError):
            friday.start(3)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="options"):
            friday.start("hi", 3)  # type: ignore[arg-type]
        await friday.start("hi", memory=elsewhere).result()
        assert len(elsewhere.messages) == 2 and not friday.memory.messages  # type: ignore[attr-defined]

    run_virtual(main())


def test_the_events_of_a_subclass_are_shown() -> None:
    class Louder(ReActAgent):
        def stream(self, *args: Any, **options: Any) -> Any:
            def louder(event: Event) -> Event:
                if isinstance(event, PostCallEvent):
                    return event.replace(message=event.message.replace(content=event.message.text.upper()))
                return event

            return super().stream(*args, **options).pipe(ops.map(louder))

    async def main() -> None:
        handle = Louder("Friday", ScriptedModel(["fine", Delay(1)])).start("hi")
        await asyncio.sleep(0.5)
        assert handle.stats().run is not None
        assert (await handle.result()).text == "FINE"
        assert {event.run_id for event in await seen(handle)} == {handle.id}

    run_virtual(main())


def test_runs_within_it_are_not_its_own() -> None:
    async def main() -> None:
        helper = ReActAgent("Helper", ScriptedModel(["One ", Delay(2), "two"]))
        boss = agent(ScriptedModel(call("call_helper", message="go"), "Done."), tools=[helper.as_tool()])
        handle = boss.start("hi")
        await asyncio.sleep(1)
        assert helper.runs[0].id != handle.id == boss.runs[0].id
        inner = next(event for event in await seen(handle) if event.depth)
        assert inner.run_id != handle.id and handle.id in inner.path

    run_virtual(main())


# --- lifetime ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits_for", ["events", "result"])
def test_with_linger_0_it_ends_with_its_last_subscriber(waits_for: str) -> None:
    async def main() -> None:
        friday = weatherman()
        handle = friday.start("hi", linger=0)
        await asyncio.sleep(0.5)
        assert friday.running, "it waits for the first subscriber"
        source: Any = handle.events() if waits_for == "events" else handle.result()
        first, second = source.subscribe(on_error=print), source.subscribe(on_error=print)
        await asyncio.sleep(0.1)
        first.dispose()
        await asyncio.sleep(0.1)
        assert friday.running
        second.dispose()
        await handle.idle()
        assert asyncio.get_running_loop().time() == pytest.approx(0.7) and not friday.running
        with pytest.raises(RunStoppedError, match="last subscriber left"):
            await handle.result()
        assert_whole(friday)

    run_virtual(main())


def test_the_end_of_a_block_waits_for_the_clean_up() -> None:
    async def main() -> None:
        friday = weatherman()
        async with friday.start("hi", linger=0).events() as events:
            await anext(events)
        assert not friday.running

    run_virtual(main())


def test_a_grace_period_begins_anew_with_each_departure() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One moment", HANG]))
        handle = friday.start("hi", linger=5)
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(100)
        assert friday.running
        for stay in (1, 2):
            subscription = handle.events().subscribe()
            await asyncio.sleep(stay)
            subscription.dispose()
            await asyncio.sleep(4)
            assert friday.running
        subscription = handle.events().subscribe(on_error=lambda error: None)
        waiting = handle.idle().as_task()
        await asyncio.sleep(10)
        subscription.dispose()
        at = clock()
        await waiting
        assert clock() == at + 5 and not friday.running

    run_virtual(main())


def test_a_run_that_ends_in_its_grace_period_leaves_no_timer() -> None:
    async def main() -> float:
        handle = weatherman().start("hi", linger=1000)
        handle.events().subscribe().dispose()
        await handle.result()
        await handle.idle()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3


def test_a_kept_run_outlives_its_handle() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One moment", HANG]))
        friday.start("hi")
        await asyncio.sleep(1)
        gc.collect()
        assert friday.running and friday.interrupt("enough")
        await friday.idle()
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.parametrize("how", ["reply", "dispose", "interrupt"])
def test_an_ended_run_and_its_handle_are_freed_at_once(how: str) -> None:
    async def main() -> None:
        friday = weatherman()
        handle = friday.start("hi")
        handle.events().subscribe(on_error=lambda error: None)
        await asyncio.sleep(0.5)
        run, freed = ref(friday.runs[0]), ref(handle)
        if how == "dispose":
            handle.dispose()
        elif how == "interrupt":
            handle.interrupt()
        await handle.idle()
        if how == "dispose":
            # a stage that was cut off is a cycle
            gc.collect()
        stats = handle.stats().run
        assert run() is None and stats is not None and stats.run_id == handle.id
        del handle
        assert freed() is None

    gc.disable()
    try:
        run_virtual(main())
    finally:
        gc.enable()


def test_a_loop_that_shuts_down_ends_a_kept_run() -> None:
    friday = agent(ScriptedModel(["One moment", HANG]))

    async def main() -> RunHandle:
        handle = friday.start("hi")
        await asyncio.sleep(0.01)
        return handle

    handle = asyncio.run(main())
    assert not friday.running
    with pytest.raises(SourceCancelledError):
        handle.result().run()
    events: list[Event] = []
    with pytest.raises(SourceCancelledError):
        handle.events().pipe(ops.do_action(events.append)).run()
    assert types(events)[0] == "pre_call" and len(events) == handle.stats().log.received
    assert_whole(friday)


def test_a_kept_run_that_is_cut_off_unheard_is_reported() -> None:
    async def main() -> None:
        agent(Pushing()).start("hi")
        await asyncio.sleep(0.01)

    with collect_dropped() as dropped:
        asyncio.run(main())
        gc.collect()
    assert ["shut down before the run had ended" in str(error) for error in dropped] == [True]


class Pushing(ScriptedModel):
    """Waits for no task, which a loop that shuts down would cancel."""

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:
        return never()


def test_a_later_call_in_its_context_is_not_its_own() -> None:
    async def main() -> None:
        later: list[asyncio.Task[Any]] = []

        async def leave() -> str:
            """Leaves a task behind."""

            async def go_on() -> None:
                await asyncio.sleep(1)
                await friday.call("again")

            later.append(asyncio.ensure_future(go_on()))
            return "left"

        friday = ReActAgent("Friday", ScriptedModel(call("leave"), "one", ["two", HANG]), tools=[leave])
        handle = friday.start("hi")
        await handle.idle()
        await asyncio.sleep(2)
        stats = handle.stats().run
        assert friday.running and stats is not None and stats.run_id == handle.id
        assert friday.interrupt()
        await asyncio.gather(*later)

    run_virtual(main())


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_stop_ends_the_events_with_an_error() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One moment", HANG]))
        handle = friday.start("hi")
        heard: list[object] = []
        handle.events().subscribe(heard.append, heard.append)
        await asyncio.sleep(1)
        handle.dispose("So it is.")
        handle.dispose("Twice.")
        await handle.idle()
        event, error = heard[-2:]
        assert isinstance(event, ErrorEvent) and (event.error_type, event.run_id) == ("RunStoppedError", handle.id)
        assert isinstance(error, RunStoppedError) and "So it is." in str(error)
        with pytest.raises(RunStoppedError, match="So it is"):
            await handle.result()
        assert not handle.interrupt("too late") and handle.state is HandleState.ENDED
        assert_whole(friday)

    run_virtual(main())


def test_a_stop_before_the_first_turn_has_no_effect_on_memory() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel("fine"))
        handle = friday.start("hi")
        handle.dispose()
        with pytest.raises(RunStoppedError, match="A stop was requested"):
            await handle.events()
        assert not friday.running and not friday.memory.messages  # type: ignore[attr-defined]

    run_virtual(main())


def test_a_run_that_was_stopped_never_begins() -> None:
    async def main() -> None:
        handle = RunHandle(agent(ScriptedModel("fine")).stream("hi"))
        handle.dispose("Not needed.")
        await handle.idle()
        assert handle.begin().state is HandleState.ENDED and handle.id == ""
        with pytest.raises(RunStoppedError, match="Not needed"):
            await handle.result()

    run_virtual(main())


def test_an_interruption_ends_it_with_a_reply() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One moment", HANG], [Delay(1), "again"]))
        handle = friday.start("hi")
        assert handle.interrupt("enough")
        reply = await handle.result()
        assert (reply.text, reply.generate_reason) == ("enough", GenerateReason.INTERRUPTED)
        other = friday.start("go on")
        assert not handle.interrupt("too late")
        with pytest.raises(InvalidInputError, match="takes a Msg or a str"):
            other.interrupt(3)  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert other.interrupt() and (await other.result()).generate_reason is GenerateReason.INTERRUPTED

    run_virtual(main())


def test_a_failure_reaches_every_subscriber() -> None:
    async def main() -> None:
        friday = agent(ScriptedModel(["One ", Delay(1), ModelConnectionError("broken pipe")]))
        handle = friday.start("hi")
        waiting = [handle.result().as_task(), handle.events().as_task()]
        late = asyncio.gather(*waiting, return_exceptions=True)
        errors: list[object] = [*await late]
        for source in (handle.result(), handle.events(), handle.events(2)):
            with pytest.raises(ModelConnectionError) as failed:
                await source
            errors.append(failed.value)
        assert len(errors) == 5 and len({id(error) for error in errors}) == 1
        assert_whole(friday)

    run_virtual(main())


def test_a_refused_run_fails_without_an_event() -> None:
    async def main() -> None:
        friday = weatherman()
        running, refused = friday.start("hi"), friday.start("me, too")
        for source in (refused.events(), refused.result()):
            with pytest.raises(AgentBusyError, match=running.id):
                await source
        assert (await running.result()).text == "It is sunny."

    run_virtual(main())


@pytest.mark.parametrize("heard", [False, True])
def test_an_error_that_no_subscriber_had_is_reported(heard: bool) -> None:
    async def main() -> None:
        handle = agent(ScriptedModel(ModelConnectionError("broken pipe"))).start("hi")
        await handle.idle()
        await asyncio.sleep(5)
        assert not dropped
        if heard:
            with pytest.raises(ModelConnectionError):
                await handle.result()

    with collect_dropped() as dropped:
        run_virtual(main())
        gc.collect()
    assert [str(error) for error in dropped] == ([] if heard else ["broken pipe"])
    assert all(re.search(r"run \w{32} of agent 'Friday', which had no reader", where) for where in dropped.where)


def test_a_stopped_run_is_no_unheard_error() -> None:
    async def main() -> None:
        agent(ScriptedModel(["One moment", HANG])).start("hi").dispose()

    run_virtual(main())
    gc.collect()


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_events_that_are_gone_or_to_come_are_refused() -> None:
    async def main() -> None:
        handle = weatherman().start("hi", capacity=4)
        await handle.result()
        count = handle.stats().log.received
        for start in (0, 1, count - 5):
            with pytest.raises(EventsGoneError, match=f"the oldest event kept is {count - 4}") as gone:
                await handle.events(start)
            assert (gone.value.run_id, gone.value.first) == (handle.id, count - 4)
        assert [event.seq for event in await seen(handle, count - 4)] == list(range(count - 4, count))
        with pytest.raises(InvalidInputError, match=f"no event {count}; its last one is {count - 1}"):
            await handle.events(count + 1)
        with pytest.raises(InvalidInputError, match="from_seq"):
            handle.events(-1)

    run_virtual(main())


@pytest.mark.parametrize(
    "options", [{"capacity": 0}, {"max_bytes": 0}, {"max_bytes": 1.5}, {"linger": -1}, {"linger": "stop"}]
)
def test_bad_bounds_are_refused(options: dict[str, Any]) -> None:
    friday = agent(ScriptedModel("fine"))
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        friday.start("hi", **options)
    assert not friday.running


def test_the_log_is_bounded_in_bytes_and_counts_its_overshoot() -> None:
    async def main() -> None:
        handle = agent(ScriptedModel(["x" * 10_000] * 50)).start("hi", max_bytes=100_000)
        reader = handle.read()
        await asyncio.sleep(1)
        log = handle.stats().log
        # one chunk was under way as demand was withheld
        assert log.withheld and 0 < log.overshoot.bytes < 25_000 and log.bytes == 100_000 + log.overshoot.bytes
        while await reader.wait():
            reader.take()
        reader.close()
        await handle.result()
        # the reply is one event, five times as large as the log
        log = handle.stats().log
        assert log.bytes <= 100_000 and log.kept <= 1 and log.overshoot.bytes > 400_000

    run_virtual(main())


def test_events_of_no_agent_are_shared_too() -> None:
    async def main() -> None:
        handle = RunHandle(concat(just(PreCallEvent(seq=0)), never())).begin()
        assert (handle.id, handle.interrupt()) == ("", False)
        assert handle.stats().run is None
        subscription = handle.events().subscribe(on_error=lambda error: None)
        handle.dispose()
        await handle.idle()
        subscription.dispose()
        failed = RunHandle(throw(ValueError("nothing"))).begin()
        with pytest.raises(ValueError, match="nothing"):
            await failed.result()

    run_virtual(main())
