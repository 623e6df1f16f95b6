"""The body of a request: what `GenerateOptions` and tools become. Pure.

| option                                   | on the wire                                                             |
|------------------------------------------|-------------------------------------------------------------------------|
| temperature, top_p, seed, stop, penalties, reasoning_effort | as they are                                           |
| response_format                          | as it is; a json_schema with `strict: None` as `openai.strict` makes it |
| max_tokens                               | `max_tokens`; with OpenAI itself `max_completion_tokens`, its successor |
| max_completion_tokens                    | as it is, instead of max_tokens                                         |
| tool_choice, parallel_tool_calls         | with tools only                                                         |
| top_k, thinking_budget                   | `ConfigurationError`: the wire format has no field for them             |
| additional_body_params                   | last, over everything; a value of None takes a field out                |
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.message import Msg
from agentscope_rx.model.openai.formatter import Dialect, format_messages
from agentscope_rx.model.openai.strict import format_shape
from agentscope_rx.model.options import GenerateOptions, ToolChoice, ToolSchema

_AS_THEY_ARE = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "seed",
    "reasoning_effort",
)
_INSTEAD = {
    "top_k": "additional_body_params={'top_k': ...}",
    "thinking_budget": "reasoning_effort, or additional_body_params with the field that your server knows",
}


def format_request(
    model: str,
    messages: Sequence[Msg],
    tools: Sequence[ToolSchema],
    options: GenerateOptions,
    *,
    stream: bool,
    dialect: Dialect,
) -> dict[str, object]:
    """The body of one request."""
    check_options(options)
    body: dict[str, object] = {"model": model, "messages": format_messages(messages, dialect), "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}
    for name in _AS_THEY_ARE:
        value = getattr(options, name)
        if value is not None:
            body[name] = value
    if options.response_format is not None:
        body["response_format"] = format_shape(options.response_format)
    if options.stop is not None:
        body["stop"] = [options.stop] if isinstance(options.stop, str) else list(options.stop)
    body |= _token_limit(options, dialect)
    body |= _tools(tools, options)
    body |= options.additional_body_params
    return {name: value for name, value in body.items() if value is not None}


def check_options(options: GenerateOptions) -> None:
    """`ConfigurationError` for an option that Chat Completions has no field for."""
    for name, instead in _INSTEAD.items():
        if getattr(options, name) is not None:
            raise ConfigurationError(f"Chat Completions has no {name}. Use {instead}.")


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire."""
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _token_limit(options: GenerateOptions, dialect: Dialect) -> dict[str, object]:
    if options.max_completion_tokens is not None:
        return {"max_completion_tokens": options.max_completion_tokens}
    if options.max_tokens is None:
        return {}
    return {"max_completion_tokens" if dialect.official else "max_tokens": options.max_tokens}


def _tools(tools: Sequence[ToolSchema], options: GenerateOptions) -> dict[str, object]:
    choice = options.tool_choice
    if not tools:
        if choice is not None and choice.mode in ("required", "specific"):
            raise ConfigurationError("tool_choice demands a tool call, but there are no tools.")
        return {}
    fields: dict[str, object] = {"tools": [format_tool(tool) for tool in tools]}
    if choice is not None:
        fields["tool_choice"] = _choice(choice, tools)
    if options.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = options.parallel_tool_calls
    return fields


def _choice(choice: ToolChoice, tools: Sequence[ToolSchema]) -> object:
    if choice.mode != "specific":
        return choice.mode
    names = [tool.name for tool in tools]
    if choice.tool not in names:
        raise ConfigurationError(
            f"tool_choice names {choice.tool!r}, which is not among the tools: {', '.join(names)}."
        )
    return {"type": "function", "function": {"name": choice.tool}}
