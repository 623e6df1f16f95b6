"""The body of a Responses request: `GenerateOptions`, tools and the model's settings in its fields. Pure.

| option                                   | on the wire                                                           |
|------------------------------------------|-----------------------------------------------------------------------|
| temperature, top_p, parallel_tool_calls  | the same                                                              |
| max_completion_tokens, max_tokens        | `max_output_tokens`                                                   |
| reasoning_effort                         | `reasoning.effort`                                                    |
| response_format                          | `text.format`; `strict: None` as in `openai.strict`                   |
| tool_choice                              | as in Chat Completions; a tool by its name alone                      |
| stop, seed, penalties, top_k, ..._budget | `UnsupportedOptionError`: the API has no field for them               |
| additional_body_params                   | last, over everything; `text`, `reasoning` key by key; None takes out |

`store` is false by default: the messages hold the conversation, so the server need not keep it, the model sees nothing
else, and organisations without data retention can use it. Of reasoning models the request asks for the encrypted
thinking, so that it can go back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.models.openai.responses.items import input_of
from agentscope_rx.models.openai.strict import wire_response_format
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.chat_turns import NOTHING
from agentscope_rx.models.wire.request_body import check_supported, output_limit, parameters_of, without_none

Summary = Literal["auto", "concise", "detailed"]

ENCRYPTED = "reasoning.encrypted_content"

_MISSING = {
    "stop": "Cut the text in a hook, or use OpenAIChatModel.",
    "seed": "Use OpenAIChatModel.",
    "frequency_penalty": "Use OpenAIChatModel.",
    "presence_penalty": "Use OpenAIChatModel.",
    "top_k": "Use temperature or top_p.",
    "thinking_budget": "Use reasoning_effort.",
}
_SAME = ("temperature", "top_p")
_MERGED = ("text", "reasoning")
_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9]|gpt-oss|codex|computer-use)(?!.*-chat)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ResponsesSettings:
    """The settings of a model, for all its calls. `reasons`: it thinks, and takes the fields for that."""

    reasons: bool
    summary: Summary | None = None
    store: bool = False


def reasons(model: str) -> bool:
    """True if a model of this name thinks before it answers."""
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
        "max_output_tokens": output_limit(options),
        "text": _text(options.response_format),
        **{name: getattr(options, name) for name in _SAME},
        **_tools(tools, options),
    }
    extra = options.additional_body_params
    if not items and not extra:
        # (a request may continue a conversation, or use a prompt, that the server keeps)
        raise InvalidInputError(NOTHING)
    merged = {name: _merged(body[name], extra[name]) for name in _MERGED if name in extra}
    return without_none({**body, **extra, **merged})


def check_options(options: GenerateOptions) -> None:
    """`UnsupportedOptionError` for an option that the API has no field for."""
    check_supported(options, "The Responses API", _MISSING)


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire. `strict` is always sent, because the API's default is true."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters_of(tool),
        "strict": bool(tool.strict),
    }


def _reasoning(options: GenerateOptions, settings: ResponsesSettings) -> dict[str, object] | None:
    summary = settings.summary if settings.reasons else None
    return without_none({"effort": options.reasoning_effort, "summary": summary}) or None


def _text(response_format: Mapping[str, object] | None) -> dict[str, object] | None:
    """`text.format`: a JSON schema has its fields one level higher than in Chat Completions."""
    if response_format is None:
        return None
    form = wire_response_format(response_format)
    inner = form.get("json_schema")
    if isinstance(inner, Mapping):
        return {"format": {"type": "json_schema", **cast("Mapping[str, object]", inner)}}
    return {"format": form}


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
