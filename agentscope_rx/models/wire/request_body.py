"""Parts of request bodies that several providers share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from agentscope_rx.errors import UnsupportedOptionError
from agentscope_rx.models.options import GenerateOptions, ToolSchema


def without_none(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields that have a value: None takes a field out of a body."""
    return {name: value for name, value in fields.items() if value is not None}


def check_supported(options: GenerateOptions, api: str, missing: Mapping[str, str]) -> None:
    """`UnsupportedOptionError` for a given option that the API has no field for; `missing` says what to do instead."""
    for name, instead in missing.items():
        if getattr(options, name) is not None:
            raise UnsupportedOptionError(f"{api} has no {name}. {instead}", option=name)


def parameters_of(tool: ToolSchema) -> Mapping[str, object]:
    """The JSON schema of a tool's parameters; that of an empty object if it has none."""
    return tool.parameters or {"type": "object", "properties": {}}


def function_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool as Chat Completions has it, and the APIs that follow it."""
    function = {"name": tool.name, "description": tool.description, "parameters": parameters_of(tool)}
    return {"type": "function", "function": function}


def output_limit(options: GenerateOptions) -> int | None:
    """The most tokens of an answer, for an API with one field for both options."""
    return options.max_tokens if options.max_completion_tokens is None else options.max_completion_tokens


def json_schema_of(response_format: Mapping[str, object]) -> Mapping[str, object] | None:
    """The schema of a `response_format` of type json_schema; None if it is another one, or has no schema."""
    if response_format.get("type") != "json_schema":
        return None
    outer = response_format.get("json_schema")
    schema = cast("Mapping[str, object]", outer).get("schema") if isinstance(outer, Mapping) else None
    return cast("Mapping[str, object]", schema) if isinstance(schema, Mapping) else None
