"""`OpenAIEmbeddingModel`: OpenAI's embeddings, and servers with the same API (vLLM, llama.cpp, Ollama, ...)."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, Embeddings, text_of
from agentscope_rx.models.embedding.http import HttpEmbeddingModel, vectors_in
from agentscope_rx.models.openai.endpoint import service_endpoint
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.json_codec import JsonObject, encode_json, integer, object_in, objects_in

_PATH = "/embeddings"


class OpenAIEmbeddingModel(HttpEmbeddingModel):
    """Vectors of texts. `dimensions` requests shorter ones, if the model supports it.

    `api_key` and `base_url` come from OPENAI_API_KEY and OPENAI_BASE_URL when not given; only OpenAI itself requires a
    key. OpenAI accepts 2,048 texts and 300,000 tokens in one request. For long texts lower `batch_size`: 100 texts may
    have 3,000 tokens each.
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
        self._endpoint = service_endpoint(base_url, api_key, _PATH)
        self.dimensions = dimensions

    def request(self, batch: Sequence[EmbeddingInput]) -> HttpRequest:
        """The path and the body of one request."""
        body: dict[str, object] = {
            "input": [text_of(each, self) for each in batch],
            "model": self.model_name,
            "encoding_format": "float",
        }
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        return HttpRequest(self._endpoint.url, encode_json(body).encode("utf-8", "replace"), self._endpoint.headers)

    def read(self, answer: JsonObject) -> Embeddings:
        """The vectors in an answer."""
        usage = object_in(answer, "usage") or {}
        return Embeddings(vectors_in(objects_in(answer, "data"), "index"), integer(usage, "total_tokens"))
