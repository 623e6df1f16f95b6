"""The input of a request. What the protocol does not describe is left out with a warning; a wrong value is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

from ag_ui.core import RunAgentInput
from starlette.requests import Request

from agentscope_rx.errors import InvalidInputError, ToolDefinitionError
from agentscope_rx.service.bodies import read_json, validated
from agentscope_rx.tools import ClientTools

MAX_MESSAGES = 10_000
MAX_ID = 500
"""Longer ids are no ids of a client."""

_TOOL = {"name", "description"}
_ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "activity", "reasoning"})
_PARTS = frozenset({"text", "image", "audio", "video", "document"})
_SOURCES = frozenset({"data", "url", "file"})
_log = logging.getLogger("agentscope_rx")

JsonObject = Mapping[str, object]


async def read_input(request: Request) -> RunAgentInput:
    """The input of a request; `InvalidInputError` if it is none."""
    given = await read_json(request)
    if isinstance(given, dict):
        body = cast("dict[str, object]", given)
        messages = body.get("messages")
        if isinstance(messages, list):
            body = {**body, "messages": _known(cast("list[object]", messages))}
        given = body
    input = validated(cast("object", given), RunAgentInput)
    if len(input.messages) > MAX_MESSAGES:
        raise InvalidInputError(f"messages has {len(input.messages)} messages; {MAX_MESSAGES} are the most.")
    ids = [("threadId", input.thread_id), ("runId", input.run_id)]
    ids += [(f"messages[{place}].id", message.id) for place, message in enumerate(input.messages)]
    for name, id in ids:
        if not id.strip() or len(id) > MAX_ID:
            raise InvalidInputError(f"{name} must have 1 to {MAX_ID} characters, not {id!r:.60}.")
    return input


def client_tools(input: RunAgentInput) -> ClientTools | None:
    """The tools of the client, None if it has none; `InvalidInputError` if one cannot be offered to a model."""
    if not input.tools:
        return None
    nothing: dict[str, object] = {"type": "object", "properties": {}}
    schemas = [
        {"type": "function", "function": {**each.model_dump(include=_TOOL), "parameters": each.parameters or nothing}}
        for each in input.tools
    ]
    try:
        return ClientTools(*schemas)
    except ToolDefinitionError as error:
        raise InvalidInputError(f"tools: {error}") from error


def _known(messages: list[object]) -> list[object]:
    """The messages without those of unknown roles, and without unknown parts: a newer client may have sent them."""
    kept: list[object] = []
    for message in messages:
        if not isinstance(message, dict):
            kept.append(message)
            continue
        given = cast("dict[str, object]", message)
        role, content = given.get("role"), given.get("content")
        if isinstance(role, str) and role not in _ROLES:
            _log.warning("AG-UI: left out a message of the unknown role %.60r", role)
        elif isinstance(content, list):
            parts = cast("list[object]", content)
            kept.append({**given, "content": [part for part in parts if _is_known(part)]})
        else:
            kept.append(given)
    return kept


def _is_known(part: object) -> bool:
    if not isinstance(part, dict):
        return True
    given = cast("JsonObject", part)
    kind, source = given.get("type"), given.get("source")
    if isinstance(kind, str) and kind not in _PARTS:
        _log.warning("AG-UI: left out a part of the unknown type %.60r", kind)
        return False
    where = cast("JsonObject", source).get("type") if isinstance(source, dict) else None
    if isinstance(where, str) and where not in _SOURCES:
        _log.warning("AG-UI: left out a part with the unknown source %.60r", where)
        return False
    return True
