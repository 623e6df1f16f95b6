"""`get_model("openai:gpt-5-mini")`: a model by its provider's name and its own; `ModelRegistry` keeps the providers.

| before the colon                    | makes                                                                |
|-------------------------------------|----------------------------------------------------------------------|
| a name in `models.providers`        | the model of its row; with a profile, `OpenAIChatModel(profile=...)` |
| a registered name                   | the result of the registered function                                |
| an entry point of a package, in the | the result of the function that it names                             |
| group `agentscope_rx.models`        |                                                                      |

A name without a provider is refused, because many providers offer the same names. Each call makes a new model with the
environment of that moment; nothing is imported, and no key is looked up, before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, cast

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.capabilities import providers_of
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.providers import PROVIDERS, Provider

GROUP = "agentscope_rx.models"
"""The group of entry points in which installed packages name providers."""


class ModelFactory(Protocol):
    """Makes the model of a name; the options are those given to `get_model(...)`."""

    def __call__(self, name: str, /, **options: object) -> ChatModel: ...


def _make(row: Provider, name: str, /, **options: object) -> ChatModel:
    """The model of a row of the table; its module is imported now."""
    module, _, attribute = row.path.partition(":")
    if row.only is None:
        make = cast("ModelFactory", getattr(import_module(module), attribute))
        return make(name, **({"profile": row.profile, **options} if row.profile else options))
    if name != row.only:
        raise ConfigurationError(f"There is one embedded model, {row.name}:{row.only}, and no {name!r}.")
    return cast("Callable[..., ChatModel]", getattr(import_module(module), attribute))(**options)


class ModelRegistry:
    """Providers by name, looked up in this order: built-in, registered here, installed packages (entry points).

    `packages=False` ignores installed packages.
    """

    def __init__(self, *, packages: bool = True) -> None:
        self._registered: dict[str, ModelFactory] = {}
        self._packages = packages

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of all providers."""
        return tuple(sorted({*PROVIDERS, *self._registered, *self._installed()}))

    def register_provider(self, name: str, factory: ModelFactory) -> None:
        """Make `name:model` by `factory(model, **options)` from now on; `ConfigurationError` if the name is taken."""
        if not isinstance(name, str) or not name.strip() or ":" in name or name != name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"A provider's name is a word without a colon, not {name!r:.60}.")
        if not callable(factory):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"Provider {name!r} needs a function that makes a model, not {factory!r:.60}.")
        if name in PROVIDERS or name in self._registered:
            raise ConfigurationError(f"Provider {name!r} is registered already. Choose another name.")
        self._registered[name] = factory

    def model(self, spec: str, /, **options: object) -> ChatModel:
        """Make the model `provider:name` with these options; `ConfigurationError` if there is no such model."""
        provider, name = self.split(spec)
        made = self._factory(provider)(name, **options)
        if not isinstance(made, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Provider {provider!r} must return a ChatModel for {name!r}, not {made!r:.60}.")
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
        if provider in PROVIDERS:
            return partial(_make, PROVIDERS[provider])
        return self._registered.get(provider) or cast("ModelFactory", self._installed()[provider]())

    def _installed(self) -> Mapping[str, Callable[[], object]]:
        if not self._packages:
            return {}
        return {entry.name: entry.load for entry in entry_points(group=GROUP)}

    def _unknown(self, spec: str, provider: str) -> str:
        near = get_close_matches(provider.lower(), self.providers, n=2, cutoff=0.6)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return (
            f"There is no model provider {provider!r} (in {spec!r}).{hint} Known are {', '.join(self.providers)}. "
            "For another server that speaks OpenAI's protocol use openai:NAME with base_url=...; "
            "register_provider() adds your own."
        )


def _bare(name: str, providers: tuple[str, ...]) -> str:
    if name in providers:
        return f"{name!r} names a provider but no model, as in {name}:NAME."
    known = providers_of(name)
    like = " or ".join(f"{provider}:{name}" for provider in known) or f"openai:{name}"
    return f"A model is named provider:name, such as {like}, not {name!r}."


REGISTRY = ModelRegistry()
"""The registry of `get_model`, agents and the command line."""


def get_model(spec: str, /, **options: object) -> ChatModel:
    """The model that `provider:name` names: `get_model("openai:gpt-5-mini", api_key=...)`.

    The options are those of the class. Each call makes a new model, from the environment of that moment. Providers are
    `openai`, `openai-responses`, `dashscope`, `anthropic`, `gemini`, `ollama`, `local`, the profiles of servers with
    OpenAI's protocol (`azure`, `deepseek`, `glm`, `groq`, `llama.cpp`, `minimax`, `mistral`, `moonshot`,
    `ollama-compatible`, `openrouter`, `qwen`, `vllm`, `volcengine`, `xai`), and yours.

    `ConfigurationError` for a name without a provider (with a suggestion, because many providers offer the same name)
    and for an unknown provider (with similar names). A missing key is the model's own error.
    """
    return REGISTRY.model(spec, **options)


def register_provider(name: str, factory: ModelFactory) -> None:
    """Make `get_model("name:...")` call `factory("...", **options)` from now on, in this process.

    A package adds a provider by an entry point in the group `agentscope_rx.models`. `ModelRegistry()` is a separate
    registry.
    """
    REGISTRY.register_provider(name, factory)
