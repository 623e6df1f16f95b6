"""Capabilities of models, as data: sizes, and the media and options that they take. Unknown models are not guessed.

Each row has its source. Names that a vendor moves from model to model (`qwen-plus`, `deepseek-chat`) have no row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Final

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.providers import models_of

K, M = 1024, 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Sizes in tokens (`context_window` is input and output together), supported media and features of a model.

    None means that the vendor documents nothing: values are data with sources, never guesses. A dated snapshot has the
    values of its model. `files` are documents such as PDF; `native_output` is JSON that fits a given schema.
    """

    context_window: int | None = None
    max_output: int | None = None
    images: bool = False
    audio: bool = False
    video: bool = False
    files: bool = False
    thinking: bool = False
    tools: bool = True
    native_output: bool = False


_GPT: Final = Capabilities(images=True, files=True, native_output=True)
_GPT_5: Final = replace(_GPT, context_window=400_000, max_output=128_000, thinking=True)
_CLAUDE: Final = Capabilities(images=True, files=True, thinking=True, native_output=True)
_CLAUDE_1M: Final = replace(_CLAUDE, context_window=1_000_000, max_output=128_000)
_GEMINI: Final = Capabilities(
    context_window=M,
    max_output=64 * K,
    images=True,
    audio=True,
    video=True,
    files=True,
    thinking=True,
    native_output=True,
)

_TABLE: Final[dict[tuple[str, str], Capabilities]] = {
    # https://developers.openai.com/api/docs/models/<name>
    ("openai", "gpt-5"): _GPT_5,
    ("openai", "gpt-5-mini"): _GPT_5,
    ("openai", "gpt-5-nano"): _GPT_5,
    ("openai", "gpt-5.1"): _GPT_5,
    ("openai", "gpt-5.2"): _GPT_5,
    ("openai", "gpt-5.4"): replace(_GPT_5, context_window=1_050_000),
    ("openai", "gpt-5.4-mini"): _GPT_5,
    ("openai", "gpt-4.1"): replace(_GPT, context_window=1_047_576, max_output=32_768),
    ("openai", "gpt-4.1-mini"): replace(_GPT, context_window=1_047_576, max_output=32_768),
    ("openai", "gpt-4.1-nano"): replace(_GPT, context_window=1_047_576, max_output=32_768),
    ("openai", "gpt-4o"): replace(_GPT, context_window=128_000, max_output=16_384),
    ("openai", "gpt-4o-mini"): replace(_GPT, context_window=128_000, max_output=16_384),
    ("openai", "o3"): replace(_GPT, context_window=200_000, max_output=100_000, thinking=True),
    ("openai", "o4-mini"): replace(_GPT, context_window=200_000, max_output=100_000, thinking=True),
    # https://platform.claude.com/docs/en/models/opus-5/overview, .../sonnet-5/overview (with the line-up of 2026)
    ("anthropic", "claude-opus-5-5"): _CLAUDE_1M,
    ("anthropic", "claude-opus-5"): _CLAUDE_1M,
    ("anthropic", "claude-sonnet-5"): _CLAUDE_1M,
    # https://platform.claude.com/docs/en/about-claude/models/overview (May 2026)
    ("anthropic", "claude-opus-4-7"): _CLAUDE_1M,
    ("anthropic", "claude-haiku-4-5"): replace(_CLAUDE, context_window=200_000, max_output=64_000),
    # the same page (late 2025)
    ("anthropic", "claude-opus-4-5"): replace(_CLAUDE, context_window=200_000, max_output=64_000),
    ("anthropic", "claude-sonnet-4-5"): replace(_CLAUDE, context_window=200_000, max_output=64_000),
    # https://ai.google.dev/gemini-api/docs/models/<name>
    ("gemini", "gemini-3.5-flash"): _GEMINI,
    ("gemini", "gemini-2.5-pro"): _GEMINI,
    ("gemini", "gemini-2.5-flash"): _GEMINI,
    ("gemini", "gemini-2.5-flash-lite"): _GEMINI,
    # https://help.aliyun.com/zh/model-studio/models ("256K", "64K"; qwen3.5-plus: 1,000,000)
    ("dashscope", "qwen3.5-plus"): Capabilities(
        context_window=1_000_000, max_output=65_536, images=True, thinking=True
    ),
    ("dashscope", "qwen3-max"): Capabilities(context_window=256 * K, max_output=64 * K),
    ("dashscope", "qwen3-vl-plus"): Capabilities(
        context_window=256 * K, max_output=32 * K, images=True, video=True, thinking=True
    ),
    ("dashscope", "qwen3-vl-flash"): Capabilities(
        context_window=256 * K, max_output=32 * K, images=True, video=True, thinking=True
    ),
    ("dashscope", "qwen-vl-max"): Capabilities(
        context_window=128 * K, max_output=8 * K, images=True, video=True, tools=False
    ),
    # models.local.server starts its server with this
    ("local", "smollm2"): Capabilities(context_window=8192),
}

_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


def capabilities_of(provider: str, model: str) -> Capabilities | None:
    """The capabilities of this model, or of the model that it is a dated snapshot of; None if it is unknown."""
    provider = models_of(provider)
    return _TABLE.get((provider, model)) or _TABLE.get((provider, _SNAPSHOT.sub("", model)))


def providers_of(model: str) -> tuple[str, ...]:
    """The providers with a row for this model."""
    return tuple(provider for provider, name in _TABLE if name in (model, _SNAPSHOT.sub("", model)))


def common(known: Iterable[Capabilities | None]) -> Capabilities | None:
    """The capabilities that several models share; None if one of them is unknown."""
    all_known = tuple(known)
    if not all_known or any(each is None for each in all_known):
        return None
    merged: dict[str, int | bool | None] = {}
    for field in fields(Capabilities):
        values: list[int | bool | None] = [getattr(each, field.name) for each in all_known]
        numbers = [value for value in values if value is not None]
        merged[field.name] = min(numbers) if len(numbers) == len(values) else None
    return Capabilities(**merged)  # pyright: ignore[reportArgumentType]
