"""`get_model("openai:gpt-5-mini")`: a model by its provider's name and its own; `ModelRegistry` keeps the providers.

| before the colon                                | makes                                                          |
|-------------------------------------------------|----------------------------------------------------------------|
| openai, openai-responses                        | `OpenAIChatModel`, `OpenAIResponsesModel`                      |
| dashscope, anthropic, gemini, ollama            | `DashScopeChatModel`, `AnthropicChatModel`, ...                |
| azure, deepseek, glm, groq, llama.cpp, mistral, | `OpenAIChatModel(profile=...)`: the server's address, its key, |
| moonshot, openrouter, qwen, vllm, xai           | its ways                                                       |
| local                                           | `LocalChatModel`                                               |
| what you register                               | what your function makes                                       |
| an entry point of an installed package, in the  | what the function that it names makes                          |
| group `agentscope_rx.models`                    |                                                                |

A name without a provider is refused: one name is offered by many. A model is made anew each time, by the environment of
that moment; nothing is imported, and no key looked for, before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.capabilities import providers_of
from agentscope_rx.models.chat_model import ChatModel

GROUP = "agentscope_rx.models"
"""The group of entry points in which installed packages name providers."""

LOCAL_MODEL = "smollm2"

PROFILES = (
    *("azure", "deepseek", "glm", "groq", "llama.cpp", "minimax", "mistral"),
    *("moonshot", "ollama-compatible", "openrouter", "qwen", "vllm", "volcengine", "xai"),
)
"""The servers of OpenAI's protocol that go by a name of their own (see `models.openai.profiles`)."""


class ModelFactory(Protocol):
    """Makes the model of a name; the options are those given to `get_model(...)`."""

    def __call__(self, name: str, /, **options: object) -> ChatModel: ...


def _imported(path: str) -> ModelFactory:
    """What the path names, when it is called."""

    def make(name: str, /, **options: object) -> ChatModel:
        module, _, attribute = path.partition(":")
        return cast("ModelFactory", getattr(import_module(module), attribute))(name, **options)

    return make


def _profiled(profile: str) -> ModelFactory:
    make = _imported("agentscope_rx.models.openai.model:OpenAIChatModel")

    def profiled(name: str, /, **options: object) -> ChatModel:
        return make(name, **{"profile": profile, **options})

    return profiled


def _local(name: str, /, **options: object) -> ChatModel:
    if name != LOCAL_MODEL:
        raise ConfigurationError(f"There is one embedded model, local:{LOCAL_MODEL}, and no {name!r}.")
    # imported when wanted: it needs packages that only an extra brings
    local = import_module("agentscope_rx.models.local")
    return cast("Callable[..., ChatModel]", local.LocalChatModel)(**options)


_BUILT_IN: Mapping[str, ModelFactory] = {
    "openai": _imported("agentscope_rx.models.openai.model:OpenAIChatModel"),
    "openai-responses": _imported("agentscope_rx.models.openai.responses.model:OpenAIResponsesModel"),
    "dashscope": _imported("agentscope_rx.models.dashscope.model:DashScopeChatModel"),
    "anthropic": _imported("agentscope_rx.models.anthropic.model:AnthropicChatModel"),
    "gemini": _imported("agentscope_rx.models.gemini.model:GeminiChatModel"),
    "ollama": _imported("agentscope_rx.models.ollama.model:OllamaChatModel"),
    "local": _local,
    **{profile: _profiled(profile) for profile in PROFILES},
}


class ModelRegistry:
    """The providers by name: the built-in ones, those registered here, those of installed packages; in this order.

    `packages=False` leaves the installed ones out.
    """

    def __init__(self, *, packages: bool = True) -> None:
        self._registered: dict[str, ModelFactory] = {}
        self._packages = packages

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of all providers."""
        return tuple(sorted({*_BUILT_IN, *self._registered, *self._installed()}))

    def register_provider(self, name: str, factory: ModelFactory) -> None:
        """From now on `name:model` is `factory(model, **options)`; `ConfigurationError` if the name is taken."""
        if not isinstance(name, str) or not name.strip() or ":" in name or name != name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A provider's name is a word without a colon, not {name!r:.60}.")
        if not callable(factory):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"Provider {name!r} needs a function that makes a model, not {factory!r:.60}.")
        if name in _BUILT_IN or name in self._registered:
            raise ConfigurationError(f"There is a provider {name!r} already.")
        self._registered[name] = factory

    def model(self, spec: str, /, **options: object) -> ChatModel:
        """The model that `provider:name` says, made with these options; `ConfigurationError` if there is none."""
        provider, name = self.split(spec)
        made = self._factory(provider)(name, **options)
        if not isinstance(made, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Provider {provider!r} has made no ChatModel of {name!r}, but {made!r:.60}.")
        return made

    def split(self, spec: str) -> tuple[str, str]:
        """Provider and name; `ConfigurationError` if there is no such provider, or one of them is missing."""
        if not isinstance(spec, str) or not spec.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A model is named provider:name, such as openai:gpt-5-mini, not {spec!r:.60}.")
        provider, colon, name = (part.strip() for part in spec.partition(":"))
        if not colon:
            raise ConfigurationError(_bare(provider, self.providers))
        if provider not in self.providers:
            raise ConfigurationError(self._unknown(spec, provider))
        if not name:
            raise ConfigurationError(f"{spec!r} names a provider but no model, as in {provider}:NAME.")
        return provider, name

    def _factory(self, provider: str) -> ModelFactory:
        found = _BUILT_IN.get(provider) or self._registered.get(provider)
        return found or cast("ModelFactory", self._installed()[provider]())

    def _installed(self) -> Mapping[str, Callable[[], object]]:
        if not self._packages:
            return {}
        return {entry.name: entry.load for entry in entry_points(group=GROUP)}

    def _unknown(self, spec: str, provider: str) -> str:
        near = get_close_matches(provider.lower(), self.providers, n=2, cutoff=0.6)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return (
            f"There is no model provider {provider!r} (in {spec!r}).{hint} Known are {', '.join(self.providers)}. "
            "For another server that speaks OpenAI's protocol say openai:NAME with base_url=...; "
            "register_provider() adds one of your own."
        )


def _bare(name: str, providers: tuple[str, ...]) -> str:
    if name in providers:
        return f"{name!r} names a provider but no model, as in {name}:NAME."
    known = providers_of(name)
    like = " or ".join(f"{provider}:{name}" for provider in known) or f"openai:{name}"
    return f"A model is named provider:name, such as {like}, not {name!r}."


REGISTRY = ModelRegistry()
"""The one that `model`, agents and the command line ask."""


def get_model(spec: str, /, **options: object) -> ChatModel:
    """The model that `provider:name` names: `get_model("openai:gpt-5-mini", api_key=...)`."""
    return REGISTRY.model(spec, **options)


def register_provider(name: str, factory: ModelFactory) -> None:
    """From now on `get_model("name:...")` is `factory("...", **options)`, in this process."""
    REGISTRY.register_provider(name, factory)
