"""The body of a request: `GenerateOptions` and tools in the fields of generateContent. Pure.

| option                            | on the wire                                                                   |
|-----------------------------------|-------------------------------------------------------------------------------|
| temperature, top_p, top_k, seed   | the same, in `generationConfig`                                               |
| stop, penalties                   | `stopSequences`, `presencePenalty`, `frequencyPenalty`                        |
| max_tokens, max_completion_tokens | `maxOutputTokens`                                                             |
| thinking_budget                   | `thinkingBudget` (Gemini 2.5): 0 is none, -1 lets the model decide            |
| reasoning_effort                  | `thinkingLevel` (Gemini 3): minimal to xhigh; "none" is a budget of 0         |
| response_format                   | `responseMimeType`, and `responseJsonSchema` with a schema                    |
| tool_choice                       | AUTO, NONE, ANY (required), ANY of one name; VALIDATED if a tool is strict    |
| parallel_tool_calls=False         | `UnsupportedOptionError`: Gemini has no field for it                          |
| additional_body_params            | over everything; `generationConfig`, `toolConfig` by field; None takes it out |

A tool's parameters are sent unchanged, as `parametersJsonSchema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import ConfigurationError, UnsupportedOptionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg
from agentscope_rx.models.gemini.formatter import format_messages, is_old
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.pieces import Pieces
from agentscope_rx.models.wire.request_body import json_schema_of, output_limit, parameters_of, without_none

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_LEVELS = ("minimal", "low", "medium", "high", "xhigh")
_MERGED = ("generationConfig", "toolConfig")


@dataclass(frozen=True, slots=True)
class GeminiSettings:
    """The settings of a model, for all its calls."""

    include_thoughts: bool | None = None
    safety_settings: Sequence[Mapping[str, object]] = ()
    server_tools: Sequence[Mapping[str, object]] = ()


def format_request(
    model: str, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions, settings: GeminiSettings
) -> dict[str, object]:
    """The body of one request."""
    check_options(options)
    conversation = format_messages(messages, old=is_old(model))
    body: dict[str, object] = {"contents": Pieces([content.wire() for content in conversation.contents])}
    if conversation.system:
        body["systemInstruction"] = {"role": "user", "parts": conversation.system}
    config = _config(options, settings)
    if config:
        body["generationConfig"] = config
    if settings.safety_settings:
        body["safetySettings"] = list(settings.safety_settings)
    body |= _tools(tools, options, settings)
    for name, value in options.additional_body_params.items():
        if name in _MERGED and name in body and isinstance(value, Mapping):
            own = cast("Mapping[str, object]", body[name])
            merged = {**own, **cast("Mapping[str, object]", value)}
            body[name] = without_none(merged)
        else:
            body[name] = value
    return without_none(body)


def check_options(options: GenerateOptions) -> None:
    """`UnsupportedOptionError` for an option without a field, `ConfigurationError` for a value that is not taken."""
    if options.parallel_tool_calls is False:
        raise UnsupportedOptionError(
            "Gemini has no parallel_tool_calls: a model may always make several calls at once. Leave it out.",
            option="parallel_tool_calls",
        )
    effort = options.reasoning_effort
    if effort is not None and effort not in (*_LEVELS, "none"):
        raise ConfigurationError(f"reasoning_effort is one of none, {', '.join(_LEVELS)}, not {effort!r}.")
    if effort is not None and options.thinking_budget is not None:
        raise ConfigurationError("Give thinking_budget (Gemini 2.5) or reasoning_effort (Gemini 3), not both.")
    if options.thinking_budget is not None and options.thinking_budget < -1:
        raise ConfigurationError(
            f"thinking_budget must be a number of tokens, or -1 to let the model decide, not {options.thinking_budget}."
        )


def format_tool(tool: ToolSchema) -> dict[str, object]:
    """A tool on the wire."""
    return {"name": tool.name, "description": tool.description, "parametersJsonSchema": parameters_of(tool)}


def _config(options: GenerateOptions, settings: GeminiSettings) -> dict[str, object]:
    config: dict[str, object] = {
        wire: value for name, wire in _SAMPLING.items() if (value := getattr(options, name)) is not None
    }
    if (limit := output_limit(options)) is not None:
        config["maxOutputTokens"] = limit
    if options.stop:
        config["stopSequences"] = list(options.stop)
    if options.response_format is not None:
        config |= _output_format(options.response_format)
    thinking = _thinking(options, settings)
    if thinking:
        config["thinkingConfig"] = thinking
    return config


def _thinking(options: GenerateOptions, settings: GeminiSettings) -> dict[str, object]:
    config: dict[str, object] = {}
    budget = 0 if options.reasoning_effort == "none" else options.thinking_budget
    if budget is not None:
        config["thinkingBudget"] = budget
    elif options.reasoning_effort is not None:
        config["thinkingLevel"] = options.reasoning_effort.upper()
    include = settings.include_thoughts
    if include is None and config and budget != 0:
        # options that ask for thinking ask to see it
        include = True
    if include is not None:
        config["includeThoughts"] = include
    return config


def _output_format(response_format: Mapping[str, object]) -> dict[str, object]:
    kind = response_format.get("type")
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    schema = json_schema_of(response_format)
    if schema is None:
        raise ConfigurationError(
            f"A response_format is of type json_schema with a schema, json_object or text, not {kind!r}."
        )
    return {"responseMimeType": "application/json", "responseJsonSchema": schema}


def _tools(tools: Sequence[ToolSchema], options: GenerateOptions, settings: GeminiSettings) -> dict[str, object]:
    choice = options.tool_choice
    wire: list[Mapping[str, object]] = list(settings.server_tools)
    fields: dict[str, object] = {}
    if tools:
        wire.insert(0, {"functionDeclarations": [format_tool(tool) for tool in tools]})
        strict = any(tool.strict for tool in tools)
        if choice is not None or strict:
            fields["toolConfig"] = {"functionCallingConfig": _choice(choice or ToolChoice(), tools, strict=strict)}
    elif choice is not None:
        choice.check(tools)
    return {"tools": wire, **fields} if wire else fields


def _choice(choice: ToolChoice, tools: Sequence[ToolSchema], *, strict: bool) -> dict[str, object]:
    if choice.mode == "auto":
        return {"mode": "VALIDATED" if strict else "AUTO"}
    if choice.mode != "specific":
        return {"mode": "NONE" if choice.mode == "none" else "ANY"}
    choice.check(tools)
    return {"mode": "ANY", "allowedFunctionNames": [choice.tool]}
