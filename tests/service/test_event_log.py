"""A run is logged as events: each with its JSON, without its surroundings, and an error at the end of a failed run."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from hypothesis import given
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.agent.handle.event_log import EventRecorder, LoggedEvent
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import InvalidInputError, ModelConnectionError
from agentscope_rx.events import ErrorEvent, Event, PostCallEvent, PreReasoningEvent, event_from_json
from agentscope_rx.events.base import EventSource, stamp
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import just, never, throw
from agentscope_rx.service import Runs
from agentscope_rx.service.protocols import sse_format
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent, events_of
from tests.events.values import events as any_events


def recorded(source: Observable[Event]) -> tuple[list[LoggedEvent], str]:
    """The log of a run, and the name of the error that it ends with."""
    logged: list[LoggedEvent] = []

    async def main() -> str:
        try:
            async for each in EventRecorder(LoggedEvent.of).recorded(source):
                logged.append(each)
        except Exception as error:
            return type(error).__name__
        return ""

    return logged, run_virtual(main())


@given(any_events)
def test_a_logged_event_equals_the_event_and_its_json(event: Event):
    logged = LoggedEvent.of(event)
    assert logged.event == event and logged.seq == event.seq and b"\n" not in logged.json
    assert event_from_json(logged.json) == event_from_json(event.to_json())


class Session:
    """An object of the caller in the context of a call."""


def test_a_log_keeps_no_object_of_the_caller():
    async def main() -> None:
        session, history = Session(), (Msg.user("before"),)
        context = RuntimeContext(session)
        event = PreReasoningEvent(source=EventSource("r", "Friday", context=context), history=history, messages=history)
        logged = LoggedEvent.of(event)
        assert logged.event == event and logged.event.source.context is None
        assert isinstance(logged.event, PreReasoningEvent)
        assert (logged.event.history, logged.event.messages) == ((), ())
        error = LoggedEvent.of(stamp(ErrorEvent.of(ValueError("over")), event.source, 4, 0.0)).event
        assert isinstance(error, ErrorEvent) and (error.error, error.seq, error.run_id) == (None, 4, "r")

    run_virtual(main())


def test_the_context_of_an_ended_run_is_released():
    async def main() -> None:
        session = Session()
        alive = weakref.ref(session)
        async with Runs() as runs:
            events = agent(ScriptedModel("fine")).stream("hi", context=RuntimeContext(session))
            run = runs.add(events, on_disconnect="continue")
            reader = run.follow()
            assert [each async for each in reader]
            await run.leave(reader)
            await run.idle()
            assert runs.statistics().kept == 1
            del session, events
            gc.collect()
            assert alive() is None

    run_virtual(main())


def test_all_clients_of_a_run_share_the_json_of_an_event(monkeypatch: pytest.MonkeyPatch):
    written: list[int] = []
    to_json = Event.to_json

    def counted(event: Event) -> str:
        written.append(event.seq)
        return to_json(event)

    monkeypatch.setattr(Event, "to_json", counted)

    async def main() -> None:
        async with Runs() as runs:
            run = runs.add(agent(ScriptedModel(["It ", "is ", "fine."])).stream("hi"), on_disconnect="continue")
            readers = [run.follow() for _ in range(3)]
            bodies = [b"".join([chunk async for chunk in sse_format.body(reader)]) for reader in readers]
            assert len(set(bodies)) == 1 and bodies[0]
            for reader in readers:
                await run.leave(reader)
            assert written == list(range(run.statistics().received))

    run_virtual(main())


# --- the end of a run -------------------------------------------------------------------------------------------------


def test_a_whole_run_is_recorded_as_it_was_emitted():
    run = asyncio.run(events_of(agent(ScriptedModel(["It is ", "sunny."])), "Weather?"))
    logged, failed = recorded(just(*run))
    assert [each.event for each in logged] == run and not failed


def test_a_failed_run_ends_with_its_own_error_event():
    friday = agent(ScriptedModel(ModelConnectionError("broken pipe")))
    logged, failed = recorded(friday.stream("hi"))
    kinds = [each.event.type for each in logged]
    assert kinds[-1] == "error" and kinds.count("error") == 1 and failed == "ModelConnectionError"


def test_an_error_behind_the_run_becomes_an_error_event():
    friday = agent(ScriptedModel("fine"))

    def refuse(event: Event) -> Event:
        if isinstance(event, PostCallEvent):
            raise ZeroDivisionError("mine")
        return event

    (*_, before, last), failed = recorded(friday.stream("hi").pipe(ops.map(refuse)))
    assert failed == "ZeroDivisionError"
    event = last.event
    assert isinstance(event, ErrorEvent) and (event.error_type, event.error_text) == ("ZeroDivisionError", "mine")
    assert (event.agent, event.run_id, event.seq) == ("Friday", before.event.run_id, before.seq + 1)


def test_an_unserializable_event_ends_the_stream_and_the_run():
    friday = agent(ScriptedModel("fine"))
    stopped: list[bool] = []

    def spoil(event):
        return event.replace(message=Msg("a", "b", metadata={"x": object()})) if event.type == "post_call" else event

    source = friday.stream("hi").pipe(
        ops.map(spoil), ops.concat(never()), ops.finally_action(lambda: stopped.append(1))
    )
    (*_, last), failed = recorded(source)
    assert failed == "InvalidInputError"
    assert last.event.type == "error" and b"cannot be written as JSON" in last.json and stopped == [1]


def test_a_failure_without_any_event_stays_an_error():
    assert recorded(throw(InvalidInputError("nothing was started"))) == ([], "InvalidInputError")
