"""The table of providers: one row for each name that stands before the colon of `get_model("openai:gpt-5-mini")`.

A new provider that speaks OpenAI's protocol needs one row in `models.openai.profiles`, and one in
docs/reference/providers.md. One with a protocol of its own needs:

1. a folder in `models/`: `endpoint` (address and key), `formatter` (turns to messages), `request` (options and tools to
   the body), `parser` (events to increments) and `model`, which ties them together;
2. a row here, from which the registry, the command line, capabilities and token costs know it;
3. the name of its class in `models/__init__`, and its rows in docs/reference/providers.md.

The capabilities of its models go to `models.capabilities`, the token costs of images to `models.tokens.costs`.
tests/models/test_providers.py names what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.openai.profiles import GENERIC, KNOWN, OPENAI

LOCAL_MODEL = "smollm2"
"""The name of the embedded model."""

_OPENAI_MODEL = "agentscope_rx.models.openai.model:OpenAIChatModel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider by its name.

    | field     | meaning                                                                  |
    |-----------|--------------------------------------------------------------------------|
    | path      | `module:class` of the model; the module is imported when a model is made |
    | key       | the environment variable with the API key; None if it has none           |
    | profile   | the profile of a server of OpenAI's protocol                             |
    | models_of | the provider whose models these are, for capabilities and token costs    |
    | only      | the one model of a provider that has no others                           |
    """

    name: str
    path: str
    key: str | None = None
    profile: str | None = None
    models_of: str | None = None
    only: str | None = None


_OWN = (
    Provider(name="openai", path=_OPENAI_MODEL, key=OPENAI.key),
    Provider(
        name="openai-responses",
        path="agentscope_rx.models.openai.responses.model:OpenAIResponsesModel",
        key=OPENAI.key,
        models_of="openai",
    ),
    Provider(
        name="dashscope",
        path="agentscope_rx.models.dashscope.model:DashScopeChatModel",
        key="DASHSCOPE_API_KEY",
    ),
    Provider(
        name="anthropic",
        path="agentscope_rx.models.anthropic.model:AnthropicChatModel",
        key="ANTHROPIC_API_KEY",
    ),
    Provider(
        name="gemini",
        path="agentscope_rx.models.gemini.model:GeminiChatModel",
        key="GEMINI_API_KEY",
    ),
    Provider(
        name="ollama",
        path="agentscope_rx.models.ollama.model:OllamaChatModel",
        key="OLLAMA_API_KEY",
    ),
    Provider(
        name="local",
        path="agentscope_rx.models.local:LocalChatModel",
        only=LOCAL_MODEL,
    ),
)
_COMPATIBLE = tuple(
    Provider(
        name=profile.name,
        path=_OPENAI_MODEL,
        key=profile.key,
        profile=profile.name,
        models_of=profile.models_of,
    )
    for profile in KNOWN
    if profile not in (OPENAI, GENERIC)
)

PROVIDERS: Mapping[str, Provider] = MappingProxyType({row.name: row for row in (*_OWN, *_COMPATIBLE)})
"""By name."""


def models_of(provider: str) -> str:
    """The provider whose models this one has: its own name, unless its row names another."""
    row = PROVIDERS.get(provider)
    return row.models_of or provider if row is not None else provider
