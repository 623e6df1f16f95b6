"""`OpenAIEmbeddingModel`: OpenAI's embeddings, and servers that speak their format (vLLM, llama.cpp, Ollama, ...)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, Embeddings, text_of
from agentscope_rx.models.embedding.http import HttpEmbeddingModel, vectors_in
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.base_url import base_parts, is_host, secret, url_with
from agentscope_rx.models.wire.json_codec import JsonObject, encode_json, integer, object_in, objects_in

_BASE_URL = "https://api.openai.com/v1"
_PATH = "/embeddings"


class OpenAIEmbeddingModel(HttpEmbeddingModel):
    """Vectors of texts. `dimensions` asks for shorter ones, where the model can.

    `api_key` and `base_url` come from OPENAI_API_KEY and OPENAI_BASE_URL when not given; only OpenAI itself must have a
    key. OpenAI takes 2,048 texts and 300,000 tokens in one request; a batch of 100 texts holds 3,000 tokens each.
    """

    provider = "openai"

    def __init__(
        self,
        model_name: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        batch_size: int = 100,
        max_concurrency: int = 4,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name,
            batch_size=batch_size,
            max_concurrency=max_concurrency,
            execution_config=execution_config,
            transport=transport,
        )
        parts = base_parts(base_url or os.environ.get("OPENAI_BASE_URL") or _BASE_URL, _BASE_URL)
        key = secret(api_key, "OPENAI_API_KEY")
        if key is None and is_host(parts, "api.openai.com"):
            raise ConfigurationError(
                "No API key for OpenAI. Pass api_key=..., or set the environment variable OPENAI_API_KEY."
            )
        self.dimensions = dimensions
        self._url = url_with(parts, parts.path.removesuffix(_PATH) + _PATH, {})
        self._headers = {"authorization": f"Bearer {key}"} if key else {}

    def request(self, batch: Sequence[EmbeddingInput]) -> HttpRequest:
        body: dict[str, object] = {
            "input": [text_of(each, self) for each in batch],
            "model": self.model_name,
            "encoding_format": "float",
        }
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        return HttpRequest(self._url, encode_json(body).encode("utf-8", "replace"), self._headers)

    def read(self, answer: JsonObject) -> Embeddings:
        usage = object_in(answer, "usage") or {}
        return Embeddings(vectors_in(objects_in(answer, "data"), "index"), integer(usage, "total_tokens"))
