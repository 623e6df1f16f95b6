"""The log of a shared run estimates the size of an event, and writes its JSON when it is asked for."""

from __future__ import annotations

from hypothesis import given

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.events import Event, event_from_json, event_size
from tests.events.values import events as any_events


@given(any_events)
def test_every_event_has_a_size_and_json_on_demand(event: Event) -> None:
    logged = LoggedEvent(event)
    assert logged.event is event and logged.size == event_size(event)
    assert logged.json is logged.json and event_from_json(logged.json) == event_from_json(event.to_json())
    assert LoggedEvent.of(event).size == len(logged.json)
