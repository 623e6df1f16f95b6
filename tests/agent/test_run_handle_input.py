"""Input to a shared run: from its start to its end, from any thread, and never lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import GracefulShutdown, InMemoryMemory, InMemorySession, ReActAgent, RunHandle
from agentscope_rx.errors import AgentScopeError, AgentShuttingDownError, ModelConnectionError, RunEndedError
from agentscope_rx.events import ErrorEvent, Event, InputEvent, fold
from agentscope_rx.hooks import Hook
from agentscope_rx.reactive import just
from agentscope_rx.testing import Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, remembered


def test_input_right_after_the_start():
    async def main() -> None:
        friday = agent(ScriptedModel("Yes."))
        handle = friday.start("One")
        handle.enqueue("Two")
        await handle.result()
        assert [message.text for message in remembered(friday)] == ["One", "Two", "Yes."]
        events = [event async for event in handle.events()]
        assert fold(events).history == tuple(remembered(friday))
        assert handle.unread == ()

    run_virtual(main())


def test_input_before_the_run_exists():
    # without a loop here, the run begins on the library's loop, later
    enqueued = threading.Event()

    async def first(_: object) -> str:
        await asyncio.to_thread(enqueued.wait, 10)
        return "Yes."

    friday = agent(ScriptedModel(first, "Indeed."))
    handle = friday.start("One")
    handle.enqueue("Two", when="idle")
    enqueued.set()
    assert handle.result().run().text == "Indeed."
    assert [message.text for message in remembered(friday)] == ["One", "Yes.", "Two", "Indeed."]


def test_input_from_a_thread():
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(1), call("weather", city="Rome")], "Sunny."))
        handle = friday.start("One")
        worker = threading.Thread(target=lambda: handle.enqueue("Two"))
        worker.start()
        worker.join()
        await handle.result()
        assert [message.text for message in remembered(friday) if message.text == "Two"]

    run_virtual(main())


def test_input_while_paused():
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(1), "Yes."], "Both."))
        handle = friday.start("One")
        handle.pause()
        handle.enqueue("Two", when="idle")
        handle.resume()
        assert (await handle.result()).text == "Both."
        seen = [event async for event in handle.events().of_type(InputEvent)]
        assert [event.when for event in seen] == ["idle"]

    run_virtual(main())


@pytest.mark.parametrize("way", ["dispose", "interrupt"])
def test_what_a_stopped_run_did_not_take_is_unread(way: str):
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(10), "Yes."]))
        handle = friday.start("One")
        async for _ in handle.events():
            break
        handle.enqueue("Two")
        getattr(handle, way)()
        try:
            await handle.result()
        except AgentScopeError:
            assert way == "dispose"
        await handle.idle()
        assert [message.text for message in handle.unread] == ["Two"]
        assert "Two" not in [message.text for message in remembered(friday)]

    run_virtual(main())


def test_a_further_attempt_takes_the_input_of_the_one_before():
    class Insistent(ReActAgent):
        def stream(self, *args: Any, **options: Any) -> Any:
            return super().stream(*args, **options).pipe(ops.retry(2))

    async def main() -> None:
        friday = Insistent("Friday", ScriptedModel(ModelConnectionError("no"), "Yes.", "Both."))
        handle = friday.start("One")
        handle.enqueue("Two", when="idle")
        await handle.result()
        assert [message.text for message in remembered(friday)] == ["One", "One", "Yes.", "Two", "Both."]
        assert handle.unread == ()

    run_virtual(main())


def test_a_run_refused_at_a_shutdown_takes_no_input():
    async def main() -> None:
        shutdown = GracefulShutdown()
        friday = agent(ScriptedModel("Yes."), shutdown=shutdown)
        await shutdown.begin()
        handle = friday.start("One")
        with pytest.raises(RunEndedError):
            handle.enqueue("Two")
        with pytest.raises(AgentShuttingDownError):
            await handle.result()

    run_virtual(main())


def test_a_call_in_an_error_hook_is_not_the_run():
    class Asks(Hook):
        async def on_error(self, event: ErrorEvent) -> None:
            if event.run_id == handle.id:
                await friday.call("What went wrong?", memory=InMemoryMemory())

    async def main() -> None:
        nonlocal handle
        # bound: the failed run is saved, and so at its end, before its hooks see the error
        await friday.bind(InMemorySession(), "friday")
        handle = friday.start("One")
        handle.enqueue("Two", when="idle")
        with pytest.raises(ModelConnectionError):
            await handle.result()
        assert [message.text for message in handle.unread] == ["Two"]
        run = handle.stats().run
        assert run is not None and run.run_id == handle.id

    friday = agent(ScriptedModel(ModelConnectionError("no"), "The model."), hooks=[Asks()])
    handle = RunHandle(just(Event()))
    run_virtual(main())


def test_input_after_the_end():
    async def main() -> None:
        friday = agent(ScriptedModel("Yes."))
        handle = friday.start("One")
        await handle.result()
        with pytest.raises(RunEndedError, match="takes no more input"):
            handle.enqueue("Two")

    run_virtual(main())


def test_a_handle_of_plain_events_takes_none():
    async def main() -> None:
        handle = RunHandle(just(Event())).begin()
        with pytest.raises(RunEndedError):
            handle.enqueue("Two")
        await handle.idle()

    run_virtual(main())


def test_a_reader_that_leaves_a_stopped_run_drops_nothing():
    async def main() -> None:
        friday = agent(ScriptedModel(["one ", Delay(10), "Yes."]))
        handle = friday.start("One")
        async with handle.events().buffered(64) as events:
            async for _ in events:
                handle.dispose()
                # its error is in the buffer by now
                await handle.idle()
                break

    with collect_dropped() as dropped:
        run_virtual(main())
    assert not dropped
