"""`events_schema`: the JSON Schema of an event, made from the classes.

    {"$schema": ..., "oneOf": [{"$ref": "#/$defs/PreCallEvent"}, ...], "$defs": {"PreCallEvent": ..., "Msg": ...}}

It describes what this release writes. Fields that may be added later are allowed, as readers skip them.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import fields
from typing import Any, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning

from agentscope_rx.events.base import Event, kinds_of_events
from agentscope_rx.events.versions import EVENTS_VERSION

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_DESCRIPTION = (
    "An event of a run of agentscope-rx, as one line of a log or one server-sent event. Readers skip fields that they "
    "do not know."
)

_ENVELOPE: dict[str, dict[str, object]] = {
    "v": {"const": EVENTS_VERSION, "description": "The version of this schema."},
    "type": {},
    "run_id": {"type": "string", "description": "The id of the run."},
    "agent": {"type": "string", "description": "The name of the agent."},
    "path": {
        "type": "array",
        "items": {"type": "string"},
        "description": "The ids of runs and calls from the outermost run to this one.",
    },
    "seq": {"type": "integer", "description": "The number of the event in its stream, from 0."},
    "timestamp": {"type": "number", "description": "Seconds since the epoch."},
}


def events_schema() -> dict[str, object]:
    """The JSON Schema (draft 2020-12) of an event: one of its kinds by `type`, with definitions of all that they hold.

    It describes what `to_dict` and `to_json` write. Its descriptions are the docstrings of the classes.
    """
    kinds = kinds_of_events()
    adapters = [(kind, "serialization", TypeAdapter(kind)) for kind in kinds]
    with warnings.catch_warnings():
        # the default of a frozen mapping has no JSON form, and is left out
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        _, made = TypeAdapter.json_schemas(cast("Any", adapters), schema_generator=_Generator)
    definitions = cast("dict[str, dict[str, object]]", made["$defs"])
    del definitions["EventSource"]
    for kind in kinds:
        definitions[kind.__name__] = _of_kind(kind, definitions[kind.__name__])
    return {
        "$schema": DIALECT,
        "title": "Event",
        "description": _DESCRIPTION,
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds],
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


class _Generator(GenerateJsonSchema):
    """Leaves out the titles, which repeat the names of the fields, and the defaults, which are always written."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        made.pop("default", None)
        return made


def _of_kind(kind: type[Event], made: dict[str, object]) -> dict[str, object]:
    """The schema of one kind, with the fields of every event in front of its own."""
    own = cast("dict[str, dict[str, object]]", made["properties"])
    hidden = {"source", *(each.name for each in fields(kind) if not each.compare)}
    properties = {**_ENVELOPE, "type": {"const": kind.type}}
    properties.update({name: schema for name, schema in own.items() if name not in hidden and name not in _ENVELOPE})
    return {
        "type": "object",
        "description": inspect.getdoc(kind) or "",
        "properties": properties,
        "required": [*_ENVELOPE],
    }
