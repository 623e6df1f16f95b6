"""`schema_of`: a tool as others describe it, as a `ToolSchema`.

OpenAI Chat Completions  {"type": "function", "function": {"name": ..., "description": ..., "parameters": ...}}
OpenAI Responses         {"type": "function", "name": ..., "description": ..., "parameters": ...}
Anthropic                {"name": ..., "description": ..., "input_schema": ...}
MCP                      {"name": ..., "description": ..., "inputSchema": ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentscope_rx.errors import ToolDefinitionError
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.tools.base import NO_PARAMETERS, check_foreign_name

_PARAMETERS = ("parameters", "input_schema", "inputSchema")


def schema_of(source: ToolSchema | Mapping[str, object]) -> ToolSchema:
    """The schema that this is, or that the dict describes; `ToolDefinitionError` for a dict that describes no tool.

    Without parameters the tool takes nothing.
    """
    if isinstance(source, ToolSchema):
        return source
    kind, inner = source.get("type", "function"), source.get("function", source)
    name = cast("Mapping[str, object]", inner).get("name") if isinstance(inner, Mapping) else None
    if kind not in ("function", "custom") or not isinstance(name, str) or not isinstance(inner, Mapping):
        raise ToolDefinitionError(
            f"{dict(source)!r:.120} does not describe a tool. Give a ToolSchema, or a dict such as "
            "{'type': 'function', 'function': {'name': ..., 'description': ..., 'parameters': {...}}}.",
            tool=f"{name!r:.80}",
        )
    fields = cast("Mapping[str, object]", inner)
    parameters = next((fields[key] for key in _PARAMETERS if fields.get(key) is not None), NO_PARAMETERS)
    description, strict = fields.get("description"), fields.get("strict")
    for what, value, wanted in (
        ("description", description, str),
        ("strict", strict, bool),
        ("parameters", parameters, Mapping),
    ):
        if value is not None and not isinstance(value, wanted):
            raise ToolDefinitionError(
                f"{what} of tool {name!r:.80} must be {_SAID[wanted]}, not {value!r:.60}.", tool=f"{name:.80}"
            )
    return ToolSchema(
        check_foreign_name(name),
        cast("str", description or ""),
        cast("Mapping[str, object]", parameters),
        cast("bool | None", strict),
    )


_SAID: Mapping[type, str] = {str: "text", bool: "true or false", Mapping: "a JSON schema (a dict)"}
