"""The `parameters` of a request: what `GenerateOptions`, tools and the model's own settings become. Pure.

| option                                          | in `parameters`                                                   |
|-------------------------------------------------|-------------------------------------------------------------------|
| (always)                                        | `result_format: message`; `incremental_output: true` for a stream |
| temperature, top_p, top_k, max_tokens, seed,    | as they are                                                       |
| stop, presence_penalty, parallel_tool_calls     |                                                                   |
| thinking_budget                                 | as it is, and `enable_thinking: true` if the model does not say   |
| response_format                                 | as it is; a json_schema with `strict: None` as `openai.strict`    |
|                                                 | makes it                                                          |
| tool_choice auto, none, one tool                | as Chat Completions spells them                                   |
| tool_choice required                            | of a single tool: that tool; of several: `UnsupportedOptionError` |
| frequency_penalty, max_completion_tokens,       | `UnsupportedOptionError`: there is no field for them              |
| reasoning_effort                                |                                                                   |
| enable_thinking, enable_search, search_options  | as they are: the model's                                          |
| additional_body_params                          | last, over everything; a value of None takes a field out          |

A tool that is forced while the model thinks is for the server to refuse (it does, today, and names `tool_choice`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentscope_rx.errors import ConfigurationError, UnsupportedOptionError
from agentscope_rx.messages.frozen import EMPTY
from agentscope_rx.models.openai.strict import wire_response_format
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema

_AS_THEY_ARE = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "presence_penalty",
    "thinking_budget",
)
_INSTEAD = {
    "frequency_penalty": "presence_penalty, or additional_body_params={'repetition_penalty': ...}",
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "thinking_budget, or additional_body_params with the field that your model knows",
}


@dataclass(frozen=True, slots=True)
class DashScopeSettings:
    """What is set for the model, not for a call."""

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
    for name in _AS_THEY_ARE:
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
    return {name: value for name, value in made.items() if value is not None}


def check_options(options: GenerateOptions, settings: DashScopeSettings) -> None:
    """`UnsupportedOptionError` for an option that there is no field for, `ConfigurationError` for a contradiction."""
    for name, instead in _INSTEAD.items():
        if getattr(options, name) is not None:
            raise UnsupportedOptionError(f"DashScope has no {name}. Use {instead}.", option=name)
    if options.thinking_budget is not None and settings.enable_thinking is False:
        raise ConfigurationError("thinking_budget is for thinking: enable_thinking=False contradicts it.")
    if settings.search_options and settings.enable_search is not True:
        raise ConfigurationError("search_options count with enable_search=True only.")


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire."""
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _tools(tools: Sequence[ToolSchema], options: GenerateOptions) -> dict[str, object]:
    choice = options.tool_choice
    if choice is not None:
        choice.check(tools)
    if not tools:
        return {}
    return {
        "tools": [format_tool(tool) for tool in tools],
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
