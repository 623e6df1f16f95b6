"""The body of a request: what `GenerateOptions` and tools become. Pure.

| option                                                | on the wire                                              |
|-------------------------------------------------------|----------------------------------------------------------|
| temperature, top_p, stop, penalties, reasoning_effort | as they are                                              |
| response_format                                       | as it is; `strict: None` as in `openai.strict`           |
| max_tokens                                            | under the profile's name: `max_tokens` or its successor  |
| max_completion_tokens                                 | as it is, instead of max_tokens                          |
| tool_choice, parallel_tool_calls                      | with tools only: see `choice`                            |
| top_k, seed                                           | as the profile has them; else `UnsupportedOptionError`   |
| thinking_budget                                       | see `thinking`                                           |
| additional_body_params                                | last, over everything; a value of None takes a field out |
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import InvalidInputError, UnsupportedOptionError
from agentscope_rx.messages import Msg
from agentscope_rx.models.openai.choice import tool_fields
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import OPENAI
from agentscope_rx.models.openai.strict import format_shape
from agentscope_rx.models.openai.thinking import thinking_fields
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.wire.chat_turns import NOTHING

_AS_THEY_ARE = (
    "temperature",
    "top_p",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
)


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
    for name in _AS_THEY_ARE:
        value = getattr(options, name)
        if value is not None:
            body[name] = value
    if options.response_format is not None:
        body["response_format"] = format_shape(options.response_format)
    if options.stop is not None:
        body["stop"] = [options.stop] if isinstance(options.stop, str) else list(options.stop)
    body |= _token_limit(options, profile)
    body |= special_fields(options, profile)
    body |= tool_fields(tools, options, profile)
    body |= options.additional_body_params
    return {name: value for name, value in body.items() if value is not None}


def special_fields(options: GenerateOptions, profile: Profile) -> dict[str, object]:
    """What servers name differently, or have not: `UnsupportedOptionError` for an option that has no field."""
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
