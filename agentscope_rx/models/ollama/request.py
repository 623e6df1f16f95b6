"""The body of a request: `GenerateOptions`, tools and the model's settings in Ollama's fields. Pure.

| option                                   | on the wire                                                     |
|------------------------------------------|-----------------------------------------------------------------|
| temperature, top_p, top_k, seed, stop,   | in `options`                                                    |
| presence_penalty, frequency_penalty      |                                                                 |
| max_tokens                               | `options.num_predict`                                           |
| reasoning_effort                         | `think`; "none" is false                                        |
| response_format json_object, json_schema | `format`: "json", the schema. Not with tools: no call would fit |
| tool_choice auto, none                   | the tools, no tools                                             |
| tool_choice required, specific           | `UnsupportedOptionError`: there is no field for them            |
| parallel_tool_calls                      | True is the default; False is `UnsupportedOptionError`          |
| thinking_budget, max_completion_tokens   | `UnsupportedOptionError`                                        |
| additional_body_params                   | last; fields of `/api/chat` go there, all others (num_ctx, ...) |
|                                          | into `options`; None takes a field out                          |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ConfigurationError, UnsupportedOptionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.wire.request_body import check_supported, function_tool, json_schema_of, without_none

Think = bool | str

_OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "num_predict",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_MISSING = {
    "thinking_budget": "Use think='low', 'medium' or 'high', or reasoning_effort for one call.",
    "max_completion_tokens": "Use max_tokens.",
}
_TOP = frozenset(
    (
        *("model", "messages", "tools", "stream", "format", "options", "keep_alive", "think"),
        *("truncate", "shift", "logprobs", "top_logprobs", "debug_render_only"),
    )
)


@dataclass(frozen=True, slots=True)
class OllamaSettings:
    """The settings of a model, for all its calls."""

    think: Think | None = None
    keep_alive: float | str | None = None


def format_request(
    model: str,
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[ToolSchema],
    options: GenerateOptions,
    settings: OllamaSettings,
    *,
    stream: bool,
) -> dict[str, object]:
    """The body of one request."""
    check_options(options)
    offered = _offered(tools, options)
    schema = _format(options.response_format)
    if offered and schema is not None:
        raise ConfigurationError(
            "Ollama holds the whole answer to response_format, so that no tool could be called. Leave out one of the "
            "two, or ask for the format in a call without tools."
        )
    sampling: dict[str, object] = {wire: getattr(options, name) for name, wire in _OPTIONS.items()}
    sampling["stop"] = None if options.stop is None else list(options.stop)
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        "stream": stream,
        "tools": [function_tool(tool) for tool in offered] or None,
        "format": schema,
        "think": _think(options.reasoning_effort, settings.think),
        "keep_alive": settings.keep_alive,
    }
    _add(body, sampling, options.additional_body_params)
    body["options"] = without_none(sampling) or None
    return without_none(body)


def check_options(options: GenerateOptions) -> None:
    """`UnsupportedOptionError` for an option that Ollama has no field for."""
    check_supported(options, "Ollama", _MISSING)
    if options.parallel_tool_calls is False:
        raise UnsupportedOptionError(
            "Ollama has no parallel_tool_calls: a model may always call several tools at once.",
            option="parallel_tool_calls",
        )


def _offered(tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[ToolSchema]:
    choice = options.tool_choice
    if choice is None or choice.mode == "auto":
        return tools
    if choice.mode == "none":
        # a tool that is not offered is not called
        return ()
    choice.check(tools)
    raise UnsupportedOptionError(
        f"Ollama has no tool_choice: a model cannot be made to call {choice.tool or 'a tool'}. Offer that tool alone "
        "and ask for it in the prompt, or ask for JSON with response_format.",
        option="tool_choice",
    )


def _format(response_format: Mapping[str, object] | None) -> object:
    kind = None if response_format is None else response_format.get("type")
    if response_format is None or kind == "text":
        return None
    if kind == "json_object":
        return "json"
    schema = json_schema_of(response_format)
    if schema is None:
        raise ConfigurationError(
            "response_format is {'type': 'json_object'} or {'type': 'json_schema', 'json_schema': {'schema': ...}}, "
            f"not {dict(response_format)!r:.120}."
        )
    return schema


def _think(effort: str | None, think: Think | None) -> Think | None:
    if effort is None:
        return think
    return False if effort == "none" else effort


def _add(body: dict[str, object], sampling: dict[str, object], given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if name == "options" and isinstance(value, Mapping):
            sampling |= cast("Mapping[str, object]", value)
        elif name in _TOP:
            body[name] = value
        else:
            sampling[name] = value
