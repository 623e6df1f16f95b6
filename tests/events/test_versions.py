"""The version of the events' JSON: it is in every event, older versions are read, newer ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from agentscope_rx.errors import EventVersionError, InvalidInputError
from agentscope_rx.events import EVENTS_VERSION, Event, PreCallEvent, event_from_dict, event_from_json
from agentscope_rx.events.base import kinds_of_events
from agentscope_rx.events.versions import _STEPS
from tests.events.values import events

LOGS = sorted((Path(__file__).parent / "logs").glob("version_*.jsonl"))


@given(events)
def test_every_event_has_the_version_first(event: Event):
    assert next(iter(event.to_dict().items())) == ("v", EVENTS_VERSION)
    assert event.to_json().startswith(f'{{"v":{EVENTS_VERSION},"type":"{event.type}"')


def test_every_older_version_has_a_step_and_a_log():
    assert sorted(_STEPS) == list(range(EVENTS_VERSION))
    assert [log.name for log in LOGS] == [f"version_{number}.jsonl" for number in range(EVENTS_VERSION)]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_every_kind_of_an_older_version_is_read(log: Path):
    lines = log.read_text(encoding="utf-8").splitlines()
    read = [event_from_json(line) for line in lines]
    # kinds that came with later versions are not in it
    assert {type(event) for event in read} <= set(kinds_of_events()) and len(read) > 20
    for event in read:
        assert event_from_json(event.to_json()) == event


def test_version_0_had_the_same_fields_without_a_version():
    for line in LOGS[0].read_text(encoding="utf-8").splitlines():
        old = json.loads(line)
        now = event_from_json(line).to_dict()
        assert now.pop("v") == EVENTS_VERSION
        # a lone surrogate in the text of an error is replaced when it is read
        assert now == json.loads(line.replace("\\ud800", "\\ufffd")) and "v" not in old


@given(events)
def test_an_event_without_a_version_is_of_version_0(event: Event):
    data = event.to_dict()
    del data["v"]
    assert event_from_dict(data) == event_from_dict({**data, "v": 0}) == event
    assert "type" in data and "v" not in data, "the caller's dict stays as it is"


def test_a_newer_version_says_to_update():
    with pytest.raises(EventVersionError, match="newer release: update agentscope-rx") as caught:
        event_from_dict({**PreCallEvent().to_dict(), "v": EVENTS_VERSION + 1, "type": "not yet known"})
    assert (caught.value.version, caught.value.newest) == (EVENTS_VERSION + 1, EVENTS_VERSION)


@pytest.mark.parametrize("version", [-1, 1.0, True, None, "1", [1]])
def test_a_version_is_a_whole_number(version: object):
    with pytest.raises(InvalidInputError, match="'v', must be a whole number"):
        event_from_dict({**PreCallEvent().to_dict(), "v": version})
