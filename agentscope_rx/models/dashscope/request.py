"""The `parameters` of a request: `GenerateOptions`, tools and the model's settings in DashScope's fields. Pure.

| option                                         | in `parameters`                                                   |
|------------------------------------------------|-------------------------------------------------------------------|
| (always)                                       | `result_format: message`; `incremental_output: true` for a stream |
| temperature, top_p, top_k, max_tokens, seed,   | the same                                                          |
| stop, presence_penalty, parallel_tool_calls    |                                                                   |
| thinking_budget                                | the same, and `enable_thinking: true` unless the model sets it    |
| response_format                                | the same; with `strict: None` as in `openai.strict`               |
| tool_choice auto, none, one tool               | as in Chat Completions                                            |
| tool_choice required                           | of a single tool: that tool; of several: `UnsupportedOptionError` |
| frequency_penalty, max_completion_tokens,      | `UnsupportedOptionError`: there is no field for them              |
| reasoning_effort                               |                                                                   |
| enable_thinking, enable_search, search_options | the model's settings                                              |
| additional_body_params                         | last, over everything; a value of None takes a field out          |

A forced tool call of a model that thinks is left to the server, which refuses it and names `tool_choice`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentscope_rx.errors import ConfigurationError, UnsupportedOptionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.openai.strict import wire_response_format
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.request_body import check_supported, function_tool, without_none

_SAME = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "presence_penalty",
    "thinking_budget",
)
_MISSING = {
    "frequency_penalty": "Use presence_penalty, or additional_body_params={'repetition_penalty': ...}.",
    "max_completion_tokens": "Use max_tokens.",
    "reasoning_effort": "Use thinking_budget, or additional_body_params with the field that your model takes.",
}


@dataclass(frozen=True, slots=True)
class DashScopeSettings:
    """The settings of a model, for all its calls."""

    enable_thinking: bool | None = None
    enable_search: bool | None = None
    search_options: Mapping[str, object] = EMPTY
    reasoning: bool = False


def format_parameters(
    tools: Sequence[ToolSchema], options: GenerateOptions, settings: DashScopeSettings, *, stream: bool
) -> dict[str, object]:
    """The `parameters` of one request."""
    check_options(options, settings)
    made: dict[str, object] = {"result_format": "message"}
    if stream:
        made["incremental_output"] = True
    for name in _SAME:
        made[name] = getattr(options, name)
    if options.stop is not None:
        made["stop"] = list(options.stop)
    if options.response_format is not None:
        made["response_format"] = wire_response_format(options.response_format)
    thinks = True if options.thinking_budget is not None else None
    made["enable_thinking"] = thinks if settings.enable_thinking is None else settings.enable_thinking
    made["enable_search"] = settings.enable_search
    made["search_options"] = settings.search_options or None
    made |= _tools(tools, options)
    made |= options.additional_body_params
    return without_none(made)


def check_options(options: GenerateOptions, settings: DashScopeSettings) -> None:
    """`UnsupportedOptionError` for an option without a field, `ConfigurationError` for a contradiction."""
    check_supported(options, "DashScope", _MISSING)
    if options.thinking_budget is not None and settings.enable_thinking is False:
        raise ConfigurationError("thinking_budget is for thinking: enable_thinking=False contradicts it.")
    if settings.search_options and settings.enable_search is not True:
        raise ConfigurationError("search_options need enable_search=True.")


def _tools(tools: Sequence[ToolSchema], options: GenerateOptions) -> dict[str, object]:
    choice = options.tool_choice
    if choice is not None:
        choice.check(tools)
    if not tools:
        return {}
    return {
        "tools": [function_tool(tool) for tool in tools],
        "tool_choice": None if choice is None else _choice(choice, tools),
        "parallel_tool_calls": options.parallel_tool_calls,
    }


def _choice(choice: ToolChoice, tools: Sequence[ToolSchema]) -> object:
    if choice.mode in ("auto", "none"):
        return choice.mode
    names = [tool.name for tool in tools]
    if choice.mode == "required" and len(names) > 1:
        raise UnsupportedOptionError(
            "DashScope has no tool_choice 'required' among several tools: name one with ToolChoice.specific(...), "
            "give one tool, or try additional_body_params={'tool_choice': 'required'} if your model takes it.",
            option="tool_choice",
        )
    wanted = names[0] if choice.mode == "required" else choice.tool
    return {"type": "function", "function": {"name": wanted}}
