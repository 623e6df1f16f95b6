"""The body of a request: what `GenerateOptions`, tools and the model's own settings become. Pure.

| option                                   | on the wire                                                        |
|------------------------------------------|--------------------------------------------------------------------|
| temperature, top_p, top_k, seed, stop,   | in `options`                                                       |
| presence_penalty, frequency_penalty      |                                                                    |
| max_tokens                               | `options.num_predict`                                              |
| reasoning_effort                         | `think`; "none" is false                                           |
| response_format json_object, json_schema | `format`: "json", the schema. Not with tools: no call would fit    |
| tool_choice auto, none                   | the tools, no tools                                                |
| tool_choice required, specific           | `UnsupportedOptionError`: there is no field for them               |
| parallel_tool_calls                      | True is how it is; False is `UnsupportedOptionError`               |
| thinking_budget, max_completion_tokens   | `UnsupportedOptionError`                                           |
| additional_body_params                   | last; what `/api/chat` knows by name goes there, the rest (num_ctx |
|                                          | and others) into `options`; None takes a field out                 |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from agentscope_rx.errors import ConfigurationError, UnsupportedOptionError
from agentscope_rx.models.options import GenerateOptions, ToolSchema

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
_INSTEAD = {
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
    """What is set for the model, not for a call."""

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
    sent = _sent(tools, options)
    shape = _format(options.response_format)
    if sent and shape is not None:
        raise ConfigurationError(
            "Ollama holds the whole answer to response_format, so that no tool could be called. Leave out one of the "
            "two, or ask for the shape in a call without tools."
        )
    sampling: dict[str, object] = {wire: getattr(options, name) for name, wire in _OPTIONS.items()}
    sampling["stop"] = None if options.stop is None else list(options.stop)
    body: dict[str, object] = {
        "model": model,
        "messages": messages,
        "stream": stream,
        "tools": [format_tool(tool) for tool in sent] or None,
        "format": shape,
        "think": _think(options.reasoning_effort, settings.think),
        "keep_alive": settings.keep_alive,
    }
    _add(body, sampling, options.additional_body_params)
    body["options"] = _given(sampling) or None
    return _given(body)


def check_options(options: GenerateOptions) -> None:
    """`UnsupportedOptionError` for an option that Ollama has no field for."""
    for name, instead in _INSTEAD.items():
        if getattr(options, name) is not None:
            raise UnsupportedOptionError(f"Ollama has no {name}. {instead}", option=name)
    if options.parallel_tool_calls is False:
        raise UnsupportedOptionError(
            "Ollama has no parallel_tool_calls: a model may always call several tools at once.",
            option="parallel_tool_calls",
        )


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire."""
    function: dict[str, object] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}


def _sent(tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[ToolSchema]:
    choice = options.tool_choice
    if choice is None or choice.mode == "auto":
        return tools
    if choice.mode == "none":
        # a tool that is not there is not called
        return ()
    choice.check(tools)
    raise UnsupportedOptionError(
        f"Ollama has no tool_choice: a model cannot be made to call {choice.tool or 'a tool'}. Offer that tool alone "
        "and ask for it in words, or ask for a shape with response_format.",
        option="tool_choice",
    )


def _format(response_format: Mapping[str, object] | None) -> object:
    kind = None if response_format is None else response_format.get("type")
    if response_format is None or kind == "text":
        return None
    if kind == "json_object":
        return "json"
    shape = response_format.get("json_schema")
    schema = cast("Mapping[str, object]", shape).get("schema") if isinstance(shape, Mapping) else None
    if kind != "json_schema" or not isinstance(schema, Mapping):
        raise ConfigurationError(
            "response_format is {'type': 'json_object'} or {'type': 'json_schema', 'json_schema': {'schema': ...}}, "
            f"not {dict(response_format)!r:.120}."
        )
    return cast("Mapping[str, object]", schema)


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


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
