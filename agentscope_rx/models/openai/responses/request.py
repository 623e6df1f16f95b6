"""The body of a Responses request: what `GenerateOptions`, tools and the model's own settings become. Pure.

| option                                   | on the wire                                                           |
|------------------------------------------|-----------------------------------------------------------------------|
| temperature, top_p, parallel_tool_calls  | as they are                                                           |
| max_completion_tokens, max_tokens        | `max_output_tokens`                                                   |
| reasoning_effort                         | `reasoning.effort`                                                    |
| response_format                          | `text.format`; `strict: None` as in `openai.strict`                   |
| tool_choice                              | as Chat Completions has it, a tool by its name alone                  |
| stop, seed, penalties, top_k, ..._budget | `UnsupportedOptionError`: the API has no field for them               |
| additional_body_params                   | last, over everything; `text`, `reasoning` key by key; None takes out |

`store` is false unless asked for: the conversation is in the messages, so nothing needs to be kept at the server, what
goes out is all that the model sees, and it works for organisations that keep nothing. For reasoning models the thinking
is asked for encrypted, so that it can go back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from agentscope_rx.errors import InvalidInputError, UnsupportedOptionError
from agentscope_rx.messages import Msg
from agentscope_rx.models.openai.responses.items import input_of
from agentscope_rx.models.openai.strict import wire_response_format
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.chat_turns import NOTHING

Summary = Literal["auto", "concise", "detailed"]

ENCRYPTED = "reasoning.encrypted_content"

_MISSING = {
    "stop": "cut the text in a hook, or use OpenAIChatModel",
    "seed": "OpenAIChatModel",
    "frequency_penalty": "OpenAIChatModel",
    "presence_penalty": "OpenAIChatModel",
    "top_k": "temperature or top_p",
    "thinking_budget": "reasoning_effort",
}
_AS_THEY_ARE = ("temperature", "top_p")
_MERGED = ("text", "reasoning")
_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9]|gpt-oss|codex|computer-use)(?!.*-chat)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResponsesSettings:
    """What a model asks for in every request. `reasons`: whether it is one that thinks, and takes fields about it."""

    reasons: bool
    summary: Summary | None = None
    store: bool = False


def reasons(model: str) -> bool:
    """Whether a model of this name is one that thinks before it answers."""
    return _REASONS.match(model) is not None


def format_request(
    model: str,
    messages: Sequence[Msg],
    tools: Sequence[ToolSchema],
    options: GenerateOptions,
    *,
    stream: bool,
    settings: ResponsesSettings,
) -> dict[str, object]:
    """The body of one request."""
    check_options(options)
    instructions, items = input_of(messages, stored=settings.store)
    body: dict[str, object] = {
        "model": model,
        "instructions": instructions,
        "input": items,
        "stream": stream,
        "store": settings.store,
        "include": [ENCRYPTED] if settings.reasons and not settings.store else None,
        "reasoning": _reasoning(options, settings),
        "max_output_tokens": options.max_completion_tokens or options.max_tokens,
        "text": _text(options.response_format),
        **{name: getattr(options, name) for name in _AS_THEY_ARE},
        **_tools(tools, options),
    }
    extra = options.additional_body_params
    if not items and not extra:
        # (one may go on from a conversation or a prompt that the server keeps)
        raise InvalidInputError(NOTHING)
    merged = {name: _merged(body[name], extra[name]) for name in _MERGED if name in extra}
    return {name: value for name, value in {**body, **extra, **merged}.items() if value is not None}


def check_options(options: GenerateOptions) -> None:
    """`UnsupportedOptionError` for an option that the API has no field for."""
    for name, instead in _MISSING.items():
        if getattr(options, name) is not None:
            raise UnsupportedOptionError(f"The Responses API has no {name}. Instead: {instead}.", option=name)


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire. The API takes one that does not say for strict, so it is said."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": bool(tool.strict),
    }


def _reasoning(options: GenerateOptions, settings: ResponsesSettings) -> dict[str, object] | None:
    wanted = {"effort": options.reasoning_effort, "summary": settings.summary if settings.reasons else None}
    return {name: value for name, value in wanted.items() if value is not None} or None


def _text(response_format: Mapping[str, object] | None) -> dict[str, object] | None:
    """`text.format`: a JSON schema has its fields one floor higher than in Chat Completions."""
    if response_format is None:
        return None
    shape = wire_response_format(response_format)
    inner = shape.get("json_schema")
    if isinstance(inner, Mapping):
        return {"format": {"type": "json_schema", **cast("Mapping[str, object]", inner)}}
    return {"format": shape}


def _tools(tools: Sequence[ToolSchema], options: GenerateOptions) -> dict[str, object]:
    choice = options.tool_choice
    if choice is not None:
        choice.check(tools)
    if not tools:
        return {}
    return {
        "tools": [format_tool(tool) for tool in tools],
        "tool_choice": None if choice is None else _choice(choice),
        "parallel_tool_calls": options.parallel_tool_calls,
    }


def _choice(choice: ToolChoice) -> object:
    if choice.mode != "specific":
        return choice.mode
    return {"type": "function", "name": choice.tool}


def _merged(made: object, given: object) -> object:
    if isinstance(made, Mapping) and isinstance(given, Mapping):
        return {**cast("Mapping[str, object]", made), **cast("Mapping[str, object]", given)}
    return given
