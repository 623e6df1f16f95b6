"""The published JSON Schema of events: all that is written is valid by it, and what is broken is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import EVENTS_VERSION, ContextEvent, Event, PreCallEvent, event_from_dict, events_schema
from agentscope_rx.events.base import kinds_of_events
from tests.events.values import EVENTS, events
from tests.messages.values import messages_with_files

SCHEMA: dict[str, Any] = events_schema()
DEFINED: dict[str, Any] = SCHEMA["$defs"]
VALID = Draft202012Validator(SCHEMA)
PUBLISHED = Path(__file__).parent.parent.parent / "docs" / "events.schema.json"


def test_it_is_a_schema_and_plain_json():
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA == events_schema()
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_kind_is_in_it_with_its_docstring():
    assert [each["$ref"] for each in SCHEMA["oneOf"]] == [f"#/$defs/{kind.__name__}" for kind in kinds_of_events()]
    for kind in kinds_of_events():
        made = DEFINED[kind.__name__]
        assert made["description"] and made["properties"]["type"] == {"const": kind.type}
        assert made["properties"]["v"]["const"] == EVENTS_VERSION
    assert {"Msg", "TextBlock", "ToolUseBlock", "ToolResultBlock", "ChatUsage"} <= set(DEFINED)
    unsaid = {"source", "history", "messages", "options", "schema", "view", "count", "error"}
    said = {kind: unsaid & set(DEFINED[kind.__name__]["properties"]) for kind in kinds_of_events()}
    # that of a step of a compaction is a text
    assert said.pop(ContextEvent) == {"error"} and not any(said.values())


@given(events)
def test_what_is_written_is_valid(event: Event):
    VALID.validate(json.loads(event.to_json()))
    assert set(event.to_dict()) <= set(DEFINED[type(event).__name__]["properties"])


@given(messages_with_files)
def test_messages_with_files_are_valid(message: Any):
    VALID.validate(PreCallEvent(input=(message,)).to_dict())


def test_what_a_later_release_adds_is_valid():
    VALID.validate({**PreCallEvent().to_dict(), "mood": "good"})


BROKEN: list[dict[str, Any]] = [
    {"v": EVENTS_VERSION + 1}, {"type": "dance"}, {"seq": "first"}, {"path": "run"}, {"run_id": 3}, {"input": "hi"},
    {"input": [{"name": "user"}]}, {"pending": [{"id": "1"}]}, {"answers": [{"call_id": 1, "type": "approve"}]},
    {"input": [{"name": "user", "content": [{"type": "smell"}]}]}, {"timestamp": None},
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{broken}"[:40])
def test_what_is_broken_is_not_valid_and_not_read(broken: dict[str, Any]):
    data = {**PreCallEvent().to_dict(), **broken}
    assert not VALID.is_valid(data)
    with pytest.raises(InvalidInputError):
        event_from_dict(data)


@given(st.data())
def test_every_field_of_the_envelope_is_required(data: st.DataObject):
    kind = data.draw(st.sampled_from(sorted(EVENTS, key=lambda kind: kind.type)))
    written = data.draw(EVENTS[kind]).to_dict()
    for name in ("v", "type", "run_id", "agent", "path", "seq", "timestamp"):
        assert not VALID.is_valid({key: value for key, value in written.items() if key != name})


def _wire(schema: dict[str, Any]) -> dict[str, Any]:
    """The names and fixed values of a schema, which do not depend on the version of pydantic."""
    return {
        name: {field: each.get("const") for field, each in made.get("properties", {}).items()} or made.get("enum")
        for name, made in schema["$defs"].items()
    }


def test_the_published_file_is_up_to_date():
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    assert _wire(published) == _wire(SCHEMA), "update it: agentscope-rx events-schema > docs/events.schema.json"
    assert published["oneOf"] == SCHEMA["oneOf"]
