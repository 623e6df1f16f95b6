"""The model of a command line: from `--model`, else from the environment, else the embedded one.

| `--model`     | environment        | model                                                              |
|---------------|--------------------|--------------------------------------------------------------------|
| `openai:NAME` |                    | NAME at `--base-url`, else at OPENAI_BASE_URL, else at OpenAI      |
| `local:NAME`  |                    | the embedded model                                                 |
| `auto`        |                    | that of a server on this machine (see `discover`)                  |
| `other:NAME`  |                    | NAME of that provider (see `models.registry`), at `--base-url`      |
|               | OPENAI_BASE_URL    | OPENAI_MODEL there (`--base-url` counts as the same)               |
|               | OPENAI_API_KEY     | OPENAI_MODEL at OpenAI, or a default                               |
|               | neither            | the embedded model                                                 |
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import NamedTuple

from agentscope_rx.cli.discover import best, find
from agentscope_rx.cli.exit_codes import note
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models import ChatModel, ExecutionConfig
from agentscope_rx.models.providers import LOCAL_MODEL
from agentscope_rx.models.registry import REGISTRY
from agentscope_rx.models.retryable import is_retryable

AUTO = "auto"
SUGGESTION = "a model server on this machine (Ollama, LM Studio, llama.cpp, vLLM) is used with --model auto"
DEFAULT_OPENAI_MODEL = "gpt-5-mini"


class ModelChoice(NamedTuple):
    """A model by provider and name; `why` is the reason for it if the command line did not name it."""

    provider: str
    name: str
    base_url: str | None
    why: str | None
    keyless: bool = False
    """The server was discovered, not named: no API key of the environment is sent to it."""

    @property
    def spec(self) -> str:
        """The name in the registry."""
        return f"{self.provider}:{self.name}"

    def __str__(self) -> str:
        return self.spec + (f" at {self.base_url}" if self.base_url else "")


def model_of(spec: str | None, base_url: str | None, environment: Mapping[str, str]) -> ChatModel:
    """The model of the flags and the environment; a note on stderr names it if the flags do not."""
    choice = choose(spec, base_url, environment)
    if choice.why is not None:
        note(f"model: {choice} ({choice.why})")
    if choice.provider == "local" and spec is None:
        note(SUGGESTION)
    return make(choice, environment)


def discovered() -> ModelChoice:
    """The model of a server that runs on this machine."""
    found = find().run()
    taken = best(found)
    others = ", ".join(each.server for each in found[1:])
    also = f"; also there: {others}" if others else ""
    return ModelChoice(taken.provider, taken.model, taken.base_url, f"{taken.server}, {taken.why}{also}", keyless=True)


def choose(spec: str | None, base_url: str | None, environment: Mapping[str, str]) -> ModelChoice:
    """The choice of the flags and the environment; `ConfigurationError` if they name no known model."""
    if spec == AUTO:
        if base_url:
            raise ConfigurationError("--model auto finds the server itself: leave --base-url out, or name the model.")
        return discovered()
    if spec is not None:
        provider, name = REGISTRY.split(spec)
        if provider == "local" and base_url:
            raise ConfigurationError("--base-url is for servers: use it with --model openai:NAME.")
        return ModelChoice(provider, name, base_url, None)
    key, url, name = (environment.get(f"OPENAI_{each}", "").strip() for each in ("API_KEY", "BASE_URL", "MODEL"))
    if base_url or url:
        where = "--base-url" if base_url else "OPENAI_BASE_URL"
        if not name:
            raise ConfigurationError(
                f"{where} names a server, but no model: add --model openai:NAME or set OPENAI_MODEL."
            )
        return ModelChoice("openai", name, base_url or url, f"{where} and OPENAI_MODEL are set")
    if key:
        return ModelChoice("openai", name or DEFAULT_OPENAI_MODEL, None, "OPENAI_API_KEY is set")
    return ModelChoice("local", LOCAL_MODEL, None, "the embedded default: neither --model nor OPENAI_API_KEY is given")


def make(choice: ModelChoice, environment: Mapping[str, str]) -> ChatModel:
    """Make the model; `ConfigurationError` if a key, a package or its weights are missing."""
    if choice.provider == "local":
        return REGISTRY.model(choice.spec)
    openai = choice.provider == "openai"
    if openai and not any((choice.base_url, environment.get("OPENAI_BASE_URL"), environment.get("OPENAI_API_KEY"))):
        raise ConfigurationError(
            "There is no API key for OpenAI: set OPENAI_API_KEY. (Another server is named with --base-url URL.)"
        )
    options: dict[str, object] = {"execution_config": ExecutionConfig(retry_on=worth_another_attempt)}
    if choice.keyless:
        options["api_key"] = ""
    if choice.base_url:
        options["base_url"] = choice.base_url
    return REGISTRY.model(choice.spec, **options)


def worth_another_attempt(error: BaseException) -> bool:
    """The library's default, but no retry of an unreachable server: a person waits at the terminal."""
    return is_retryable(error) and not unreachable(error)


def unreachable(error: BaseException) -> bool:
    """True if the connection was refused or the host is unknown."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            break
        if isinstance(cause, (ConnectionRefusedError, socket.gaierror)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False
