"""`DashScopeEmbeddingModel`: DashScope's two endpoints, for texts and for texts, images and videos.

| inputs                            | text endpoint       | multimodal endpoint |
|-----------------------------------|---------------------|---------------------|
| str, TextBlock                    | `input.texts`       | `{text}`            |
| ImageBlock                        | `InvalidInputError` | `{image}`           |
| VideoBlock                        | `InvalidInputError` | `{video}`           |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.messages import Base64Source, FramesSource, ImageBlock, TextBlock, VideoBlock
from agentscope_rx.models.dashscope.endpoint import endpoint_of, request_headers
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, EmbeddingRole, Embeddings, text_of
from agentscope_rx.models.embedding.http import HttpEmbeddingModel, vectors_in
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.json_codec import JsonObject, encode_json, integer, object_in, objects_in
from agentscope_rx.models.wire.media import address_of
from agentscope_rx.reactive import Flow

Kind = Literal["text", "multimodal"]

_PATHS: dict[Kind, str] = {
    "text": "/services/embeddings/text-embedding/text-embedding",
    "multimodal": "/services/embeddings/multimodal-embedding/multimodal-embedding",
}
_MULTIMODAL = re.compile(r"multimodal|vision|-vl-")


class DashScopeEmbeddingModel(HttpEmbeddingModel):
    """Vectors of texts; multimodal models embed images and videos, too. Local files are read.

    A text model gets the role of the texts (`text_type` is `query` or `document`), unless you give one `text_type` for
    all. `api_key`, `base_url` and `workspace` as for `DashScopeChatModel`. `endpoint` is derived from the model's
    name, or text. The default `batch_size` is the vendor's maximum: 25 texts for v1 and v2, 10 for later models, 1
    input multimodal.
    """

    provider = "dashscope"

    def __init__(
        self,
        model_name: str = "text-embedding-v4",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        workspace: str | None = None,
        endpoint: Kind | None = None,
        dimensions: int | None = None,
        text_type: Literal["query", "document"] | None = None,
        batch_size: int | None = None,
        max_concurrency: int = 4,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.kind: Kind = endpoint or ("multimodal" if _MULTIMODAL.search(model_name.lower()) else "text")
        size = batch_size or (1 if self.kind == "multimodal" else 25 if model_name.endswith(("-v1", "-v2")) else 10)
        super().__init__(
            model_name,
            batch_size=size,
            max_concurrency=max_concurrency,
            execution_config=execution_config,
            transport=transport,
        )
        if text_type is not None and self.kind == "multimodal":
            raise ConfigurationError("text_type is for text models; the multimodal endpoint does not take it.")
        self.dimensions = dimensions
        self.text_type = text_type
        self._endpoint = endpoint_of(base_url, api_key, workspace)

    @property
    def distinguishes_roles(self) -> bool:
        """True for text models without a fixed `text_type`."""
        return self.kind == "text" and self.text_type is None

    def do_embed_queries(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One POST, of search queries.

        Signals: the vectors of the batch; one `ModelError`.
        Cancels: the request; the response is closed.
        """
        return (
            self.post(batch, lambda read: self._request(read, "query"))
            if self.distinguishes_roles
            else self.do_embed(batch)
        )

    def request(self, batch: Sequence[EmbeddingInput]) -> HttpRequest:
        """The path and the body of one request."""
        return self._request(batch, "document")

    def _request(self, batch: Sequence[EmbeddingInput], role: EmbeddingRole) -> HttpRequest:
        if self.kind == "text":
            given: dict[str, object] = {"texts": [text_of(each, self) for each in batch]}
        else:
            given = {"contents": [_content(each) for each in batch]}
        wanted = {"dimension": self.dimensions, "text_type": role if self.distinguishes_roles else self.text_type}
        parameters = {name: value for name, value in wanted.items() if value is not None}
        body = {"model": self.model_name, "input": given, "parameters": parameters}
        return HttpRequest(
            self._endpoint.url_with({}, _PATHS[self.kind]),
            encode_json(body).encode("utf-8", "replace"),
            self._endpoint.headers_with(request_headers(stream=False, uploads="oss://" in encode_json(given))),
        )

    def read(self, answer: JsonObject) -> Embeddings:
        """The vectors in an answer."""
        output = object_in(answer, "output") or {}
        usage = object_in(answer, "usage") or {}
        tokens = integer(usage, "total_tokens") or sum(
            integer(usage, name) for name in ("input_tokens", "image_tokens")
        )
        index = "text_index" if self.kind == "text" else "index"
        return Embeddings(vectors_in(objects_in(output, "embeddings"), index), tokens)


def _content(each: EmbeddingInput) -> dict[str, object]:
    if isinstance(each, (str, TextBlock)):
        return {"text": each if isinstance(each, str) else each.text}
    return {each.type: _address(each)}


def _address(block: ImageBlock | VideoBlock) -> str:
    source = block.source
    if isinstance(source, Base64Source):
        return f"data:{source.media_type};base64,{source.data}"
    if isinstance(source, FramesSource):
        raise InvalidInputError(
            "A video of frames cannot be embedded: pass its address or its data, or embed the frames as images."
        )
    return address_of(source)
