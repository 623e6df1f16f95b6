"""The body of a request: `GenerateOptions` and tools as a profile has them. Pure.

| option                                                | on the wire                                                |
|-------------------------------------------------------|------------------------------------------------------------|
| temperature, top_p, stop, penalties, reasoning_effort | the same                                                   |
| response_format                                       | the same; with `strict: None` as in `openai.strict`        |
| max_tokens                                            | the profile's field: `max_tokens` or its successor         |
| max_completion_tokens                                 | the same, instead of max_tokens                            |
| top_k, seed                                           | the profile's field; without one, `UnsupportedOptionError` |
| tool_choice, parallel_tool_calls                      | with tools only, see below                                 |
| thinking_budget                                       | see below                                                  |
| additional_body_params                                | last, over everything; a value of None takes a field out   |

A choice of tools that the server does not have as a mode is sent in another form with the same meaning:

| tool_choice | without that mode                                                                            |
|-------------|----------------------------------------------------------------------------------------------|
| auto        | not sent: it is the default of all servers                                                   |
| none        | the tools are not sent                                                                       |
| specific    | only that tool is sent, and a call is required; without "required", `UnsupportedOptionError` |
| required    | the only tool there is, by name; among several, `UnsupportedOptionError`                     |

Each server has its own switch for thinking, and few have a bound:

| switch      | servers             | budget of 0                        | budget of n tokens                          |
|-------------|---------------------|------------------------------------|---------------------------------------------|
| `type`      | DeepSeek and others | `thinking: {type: disabled}`       | `UnsupportedOptionError`                    |
| `enable`    | Qwen                | `enable_thinking: false`           | `enable_thinking: true, thinking_budget: n` |
| `reasoning` | OpenRouter          | `reasoning: {enabled: false}`      | `reasoning: {max_tokens: n}`                |
| `template`  | vLLM, llama.cpp     | the same in `chat_template_kwargs` | `UnsupportedOptionError`                    |
| none        | OpenAI and others   | `UnsupportedOptionError`           | `UnsupportedOptionError`                    |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError, UnsupportedOptionError
from agentscope_rx.messages import Msg
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.models.openai.profile import Profile, ThinkingSwitch
from agentscope_rx.models.openai.profiles import OPENAI
from agentscope_rx.models.openai.strict import wire_response_format
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.chat_turns import NOTHING
from agentscope_rx.models.wire.request_body import function_tool, without_none

_SAME = ("temperature", "top_p", "frequency_penalty", "presence_penalty", "reasoning_effort")
_OFF: Mapping[ThinkingSwitch, dict[str, object]] = {
    "type": {"thinking": {"type": "disabled"}},
    "enable": {"enable_thinking": False},
    "reasoning": {"reasoning": {"enabled": False}},
    "template": {"chat_template_kwargs": {"enable_thinking": False}},
}


def format_request(
    model: str,
    messages: Sequence[Msg],
    tools: Sequence[ToolSchema],
    options: GenerateOptions,
    *,
    stream: bool,
    profile: Profile = OPENAI,
) -> dict[str, object]:
    """The body of one request."""
    wire = format_messages(messages, profile)
    if not wire:
        raise InvalidInputError(NOTHING)
    body: dict[str, object] = {"model": model, "messages": wire, "stream": stream, **dict(profile.fields)}
    if stream and profile.stream_usage:
        body["stream_options"] = {"include_usage": True}
    body |= {name: getattr(options, name) for name in _SAME}
    if options.response_format is not None:
        body["response_format"] = wire_response_format(options.response_format)
    if options.stop is not None:
        body["stop"] = list(options.stop)
    body |= _token_limit(options, profile)
    body |= special_fields(options, profile)
    body |= tool_fields(tools, options, profile)
    body |= options.additional_body_params
    return without_none(body)


def special_fields(options: GenerateOptions, profile: Profile) -> dict[str, object]:
    """The fields that differ by server; `UnsupportedOptionError` for an option that this one has no field for."""
    fields = thinking_fields(options.thinking_budget, profile)
    if options.seed is not None:
        fields[profile.seed] = options.seed
    if options.top_k is not None:
        if not profile.top_k:
            raise UnsupportedOptionError(
                f"Chat Completions of {profile.title} has no top_k. If your server knows it, use "
                "additional_body_params={'top_k': ...}.",
                option="top_k",
            )
        fields["top_k"] = options.top_k
    return fields


def _token_limit(options: GenerateOptions, profile: Profile) -> dict[str, object]:
    if options.max_completion_tokens is not None:
        return {"max_completion_tokens": options.max_completion_tokens}
    if options.max_tokens is None:
        return {}
    return {profile.token_limit: options.max_tokens}


def tool_fields(tools: Sequence[ToolSchema], options: GenerateOptions, profile: Profile) -> dict[str, object]:
    """The fields `tools`, `tool_choice` and `parallel_tool_calls`, without those that are not needed."""
    choice = options.tool_choice
    if choice is not None:
        choice.check(tools)
    if not tools:
        return {}
    chosen: object = None
    if choice is not None:
        tools, chosen = _chosen(choice, tools, profile)
        if not tools:
            return {}
    fields: dict[str, object] = {"tools": [format_tool(tool, strict=profile.strict) for tool in tools]}
    if chosen is not None:
        fields["tool_choice"] = chosen
    return fields | _parallel(options.parallel_tool_calls, profile)


def format_tool(tool: ToolSchema, *, strict: bool = True) -> dict[str, object]:
    """A tool on the wire."""
    wire = function_tool(tool)
    if tool.strict is not None and strict:
        cast("dict[str, object]", wire["function"])["strict"] = tool.strict
    return wire


def _chosen(
    choice: ToolChoice, tools: Sequence[ToolSchema], profile: Profile
) -> tuple[Sequence[ToolSchema], object | None]:
    """The tools to send, and the wire's choice among them."""
    modes, mode = profile.tool_choice, choice.mode
    named = [tool for tool in tools if tool.name == choice.tool]
    if mode in modes:
        return tools, _by_name(choice.tool) if mode == "specific" else mode
    if mode == "auto":
        return tools, None
    if mode == "none":
        return (), None
    if mode == "specific" and "required" in modes:
        return named, "required"
    if mode == "required" and "specific" in modes and len(tools) == 1:
        return tools, _by_name(tools[0].name)
    raise UnsupportedOptionError(
        f"{profile.title} takes no tool_choice {mode!r}, only {', '.join(sorted(modes))}. Leave it out and ask for the "
        "call in the prompt, or try additional_body_params={'tool_choice': ...} if your model takes it.",
        option="tool_choice",
    )


def _by_name(name: str | None) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


def _parallel(wanted: bool | None, profile: Profile) -> dict[str, object]:
    if wanted is None:
        return {}
    if profile.parallel:
        return {"parallel_tool_calls": wanted}
    if wanted:
        # the default of servers without the field
        return {}
    raise UnsupportedOptionError(
        f"{profile.title} cannot be limited to one tool call at a time (parallel_tool_calls=False).",
        option="parallel_tool_calls",
    )


def thinking_fields(budget: int | None, profile: Profile) -> dict[str, object]:
    """The fields that bound thinking or turn it off; `UnsupportedOptionError` where there are none."""
    if budget is None:
        return {}
    if profile.thinking is None:
        raise UnsupportedOptionError(
            f"Chat Completions of {profile.title} has no thinking_budget. Use reasoning_effort, or "
            "additional_body_params with the field that your server knows.",
            option="thinking_budget",
        )
    if budget <= 0:
        return _OFF[profile.thinking]
    if profile.thinking == "enable":
        return {"enable_thinking": True, "thinking_budget": budget}
    if profile.thinking == "reasoning":
        return {"reasoning": {"max_tokens": budget}}
    raise UnsupportedOptionError(
        f"{profile.title} can switch thinking on and off, but not bound it: thinking_budget=0 turns it off. For more "
        "or less use reasoning_effort, or leave the option out.",
        option="thinking_budget",
    )
