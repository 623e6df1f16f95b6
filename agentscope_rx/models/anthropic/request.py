"""The body of a request: `GenerateOptions` and tools in the fields of Messages. Pure.

| option                            | on the wire                                                              |
|-----------------------------------|--------------------------------------------------------------------------|
| max_tokens, max_completion_tokens | `max_tokens`, which the API demands; else the model's, over the budget   |
| stop                              | `stop_sequences`                                                         |
| temperature, top_p, top_k         | as they are, in API version 2023-06-01; later ones have none of them     |
| thinking_budget                   | `thinking` of type enabled; 0 disables it                                |
| reasoning_effort                  | `output_config.effort`, with adaptive thinking; "none" disables thinking |
| response_format                   | `output_config.format`, the schema as in `output_schema`                 |
| tool_choice                       | auto, none, any (required), tool (a named one)                           |
| parallel_tool_calls=False         | `disable_parallel_tool_use`                                              |
| seed, penalties                   | `UnsupportedOptionError`: the API has none                               |
| additional_body_params            | last, over everything; a value of None takes a field out                 |

The API refuses thinking where a tool call is forced, and a budget where the calls that are being answered were made
without thinking: there `thinking` is left out. With thinking it takes no temperature but 1, no top_k, no top_p below
0.95, and a budget of at least 1024 that is below `max_tokens` unless thinking is interleaved; anything else is a
`ConfigurationError`. It demands tools if the conversation has calls: without tools, those that were called are
declared, with a choice of none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from agentscope_rx.errors import ConfigurationError, InvalidInputError, UnsupportedOptionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.models.anthropic.formatter import THOUGHTS, WireConversation, format_messages, last_markable
from agentscope_rx.models.anthropic.output_schema import output_format, output_schema
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.chat_turns import CACHE
from agentscope_rx.models.wire.pieces import Pieces
from agentscope_rx.models.wire.request_body import check_supported, output_limit, parameters_of, without_none

Cache = Literal["auto", "1h"]

MAX_TOKENS = 16_384
"""Every current model can write as many, and a connection outlasts them even if they come in one piece."""

SAMPLED_VERSION = "2023-06-01"
"""The last API version with temperature, top_p and top_k; the one that compatible servers know."""
VERSION = "2026-10-21"

_SAMPLING = ("temperature", "top_p", "top_k")
_MISSING: Mapping[str, str] = dict.fromkeys(("seed", "frequency_penalty", "presence_penalty"), "Leave it out.")
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MIN_BUDGET = 1024
_MIN_TOP_P = 0.95
_MAX_MARKS = 4


@dataclass(frozen=True, slots=True)
class AnthropicSettings:
    """The settings of a model, for all its calls."""

    max_tokens: int = MAX_TOKENS
    thinking: Mapping[str, object] | None = None
    cache: Cache | None = None
    server_tools: Sequence[Mapping[str, object]] = ()
    betas: Sequence[str] = ()
    version: str | None = None
    official: bool = True


def format_request(
    model: str,
    messages: Sequence[Msg],
    tools: Sequence[ToolSchema],
    options: GenerateOptions,
    settings: AnthropicSettings,
    *,
    stream: bool,
) -> dict[str, object]:
    """The body of one request."""
    check_options(options, settings)
    conversation = format_messages(messages)
    thinking = _thinking(model, options, settings)
    if (thinking or {}).get("type") == "enabled" and _answers_calls_without_thinking(conversation):
        thinking = None
    body: dict[str, object] = {
        "model": model,
        "max_tokens": _max_tokens(options, settings, thinking),
        "messages": Pieces([turn.wire() for turn in conversation.turns]),
        "stream": stream,
    }
    if conversation.system:
        body["system"] = conversation.system
    body |= {name: getattr(options, name) for name in _SAMPLING}
    body["stop_sequences"] = list(options.stop) if options.stop else None
    body |= _tools(tools, options, settings, conversation)
    body |= _output(options)
    body["thinking"] = thinking
    _cache(body, conversation, settings)
    body |= options.additional_body_params
    return without_none(body)


def version_for(options: GenerateOptions, settings: AnthropicSettings) -> str:
    """The API version of a request: the newest that has all its options; the oldest for other servers."""
    sampled = any(getattr(options, name) is not None for name in _SAMPLING)
    return settings.version or (VERSION if settings.official and not sampled else SAMPLED_VERSION)


def check_options(options: GenerateOptions, settings: AnthropicSettings) -> None:
    """`UnsupportedOptionError` for an option without a field, `ConfigurationError` for a value that is not taken."""
    check_supported(options, "Anthropic", _MISSING)
    given = [name for name in _SAMPLING if getattr(options, name) is not None]
    if given and settings.version is not None and settings.version > SAMPLED_VERSION:
        raise UnsupportedOptionError(
            f"Version {settings.version} of Anthropic's API has no {given[0]}. Leave it out, or use "
            f"version={SAMPLED_VERSION!r} with a model that still takes it.",
            option=given[0],
        )
    effort = options.reasoning_effort
    if effort is not None and effort not in (*_EFFORTS, "none"):
        raise ConfigurationError(f"reasoning_effort is one of none, {', '.join(_EFFORTS)}, not {effort!r}.")
    if options.thinking_budget is not None and 0 != options.thinking_budget < _MIN_BUDGET:
        raise ConfigurationError(
            f"thinking_budget must be at least {_MIN_BUDGET} tokens, or 0 for none, not {options.thinking_budget}."
        )


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire."""
    schema = parameters_of(tool)
    wire: dict[str, object] = {"name": tool.name, "description": tool.description, "input_schema": schema}
    if tool.strict is not None:
        wire["strict"] = tool.strict
    if tool.strict:
        wire["input_schema"] = output_schema(schema)
    return wire


def _thinking(model: str, options: GenerateOptions, settings: AnthropicSettings) -> Mapping[str, object] | None:
    choice = options.tool_choice
    if choice is not None and choice.mode in ("required", "specific"):
        return None
    budget, effort = options.thinking_budget, options.reasoning_effort
    if budget is not None:
        thinking = {"type": "enabled", "budget_tokens": budget} if budget else {"type": "disabled"}
    elif settings.thinking is not None:
        thinking = settings.thinking
    elif effort is not None and not model.startswith("claude-opus-4-5"):
        # the one model with effort and without adaptive thinking
        thinking = {"type": "disabled"} if effort == "none" else {"type": "adaptive"}
    else:
        return None
    if thinking.get("type") != "disabled":
        _check_sampling(options)
    return thinking


def _answers_calls_without_thinking(conversation: WireConversation) -> bool:
    """True if the last turn answers calls that were made without thinking: by another model, or when forced."""
    if len(conversation.turns) < 2:
        return False
    calls, results = conversation.turns[-2:]
    return results.content[0]["type"] == "tool_result" and calls.content[0]["type"] not in THOUGHTS


def _check_sampling(options: GenerateOptions) -> None:
    if options.temperature not in (None, 1):
        raise ConfigurationError(f"With thinking the temperature is 1, not {options.temperature}; leave it out.")
    if options.top_k is not None:
        raise ConfigurationError("With thinking there is no top_k; leave it out.")
    if options.top_p is not None and options.top_p < _MIN_TOP_P:
        raise ConfigurationError(f"With thinking top_p is {_MIN_TOP_P} to 1, not {options.top_p}; leave it out.")


def _max_tokens(options: GenerateOptions, settings: AnthropicSettings, thinking: Mapping[str, object] | None) -> int:
    limit = output_limit(options)
    budget = (thinking or {}).get("budget_tokens")
    if not isinstance(budget, int):
        return settings.max_tokens if limit is None else limit
    if limit is None:
        return budget + settings.max_tokens
    if limit <= budget and not any(beta.startswith("interleaved-thinking") for beta in settings.betas):
        raise ConfigurationError(
            f"max_tokens={limit} must be more than the thinking budget of {budget}, which counts towards it."
        )
    return limit


def _output(options: GenerateOptions) -> dict[str, object]:
    config: dict[str, object] = {}
    if options.reasoning_effort not in (None, "none"):
        config["effort"] = options.reasoning_effort
    if options.response_format is not None and (form := output_format(options.response_format)) is not None:
        config["format"] = form
    return {"output_config": config} if config else {}


def _tools(
    tools: Sequence[ToolSchema], options: GenerateOptions, settings: AnthropicSettings, conversation: WireConversation
) -> dict[str, object]:
    wire = [*(format_tool(tool) for tool in tools), *(dict(tool) for tool in settings.server_tools)]
    choice = options.tool_choice
    if not wire:
        if choice is not None and choice.mode in ("required", "specific"):
            raise ConfigurationError("tool_choice demands a tool call, but there are no tools.")
        parts = [part for turn in conversation.turns for part in turn.content]
        called = {str(part["name"]): None for part in parts if part["type"] == "tool_use"}
        if not called:
            return {}
        wire = [{"name": name, "input_schema": {"type": "object"}} for name in called]
        return {"tools": wire, "tool_choice": {"type": "none"}}
    fields: dict[str, object] = {"tools": wire}
    chosen = _choice(choice, [str(tool.get("name")) for tool in wire]) if choice is not None else None
    if options.parallel_tool_calls is False and (choice is None or choice.mode != "none"):
        chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}
    if chosen is not None:
        fields["tool_choice"] = chosen
    return fields


def _choice(choice: ToolChoice, names: Sequence[str]) -> dict[str, object]:
    if choice.mode != "specific":
        return {"type": "any" if choice.mode == "required" else choice.mode}
    if choice.tool not in names:
        raise ConfigurationError(
            f"tool_choice names {choice.tool!r}, which is not among the tools: {', '.join(names)}."
        )
    return {"type": "tool", "name": choice.tool}


def _cache(body: dict[str, object], conversation: WireConversation, settings: AnthropicSettings) -> None:
    """Mark the ends of the conversation, the system and the tools automatically: the next request begins the same."""
    contents = [conversation.system, *(turn.content for turn in conversation.turns)]
    marks = sum(CACHE in part for content in contents for part in content)
    if marks > _MAX_MARKS:
        raise InvalidInputError(f"There are {marks} cache marks in the messages; the API takes {_MAX_MARKS}.")
    if settings.cache is None:
        return
    mark = {"type": "ephemeral"} | ({} if settings.cache == "auto" else {"ttl": settings.cache})
    tools = cast("list[dict[str, object]]", body.get("tools", []))
    last = (turn.content for turn in reversed(conversation.turns) if last_markable(turn.content) is not None)
    for parts in (next(last, ()), conversation.system, tools):
        at = last_markable(parts) if parts is not tools else len(tools) - 1
        if parts and at is not None and CACHE not in parts[at] and marks < _MAX_MARKS:
            cast("list[dict[str, object]]", parts)[at] = {**parts[at], CACHE: mark}
            marks += 1
