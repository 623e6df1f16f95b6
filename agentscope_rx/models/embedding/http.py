"""`HttpEmbeddingModel`: a provider with one POST endpoint. A subclass has pure functions for request and answer.

inputs -- read_files --> request(batch) --> Transport --> read(answer) --> vectors
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import cast

from agentscope_rx.messages import ImageBlock, Msg, VideoBlock
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, EmbeddingModel, Embeddings, Vector
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.json_codec import JsonObject, integer, malformed
from agentscope_rx.models.wire.media import has_files, read_files
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, concat_map, defer, on_worker


class HttpEmbeddingModel(EmbeddingModel):
    """An embedding model behind an HTTP API."""

    def __init__(
        self,
        model_name: str,
        *,
        batch_size: int,
        max_concurrency: int = 4,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(
            model_name, batch_size=batch_size, max_concurrency=max_concurrency, execution_config=execution_config
        )
        self._transport = transport or Transport()

    @abstractmethod
    def request(self, batch: Sequence[EmbeddingInput]) -> HttpRequest:
        """The request; local files are read before. `InvalidInputError` for inputs that the model does not support."""

    @abstractmethod
    def read(self, answer: JsonObject) -> Embeddings:
        """The vectors of an answer, in the order of the inputs; `ProtocolError` if it is invalid."""

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One POST.

        Signals: the vectors of the batch; one `ModelError`.
        Cancels: the request; the response is closed.
        """
        return self.post(batch, self.request)

    def post(
        self, batch: Sequence[EmbeddingInput], request_of: Callable[[Sequence[EmbeddingInput]], HttpRequest]
    ) -> Flow[Embeddings]:
        """One POST of the request that `request_of` makes of the batch.

        Signals: the vectors of the batch; one `ModelError`.
        Cancels: the request; the response is closed.
        """

        def ask(read: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
            request = request_of(read)

            def found(answer: object) -> Embeddings:
                with self._transport.hiding(request):
                    return self.read(_object(answer))

            return self._transport.request(request).pipe(concat_map(found))

        files = [_message(each) for each in batch if isinstance(each, (ImageBlock, VideoBlock))]
        if has_files(files):
            answer = on_worker(lambda: _with_files(batch), ENGINE_WORKERS).pipe(concat_map(ask))
        else:
            answer = defer(lambda: ask(batch))
        return answer


def vectors_in(items: Sequence[JsonObject], index: str) -> tuple[Vector, ...]:
    """The `embedding` of each item, ordered by the field `index` if present."""
    # an answer may list its items in any order
    placed = {integer(item, index) if index in item else place: item for place, item in enumerate(items)}
    if len(placed) != len(items):
        raise malformed(f"two vectors have the same {index!r}", items[0])
    return tuple(_vector(placed[place]) for place in sorted(placed))


def _vector(item: JsonObject) -> Vector:
    found = item.get("embedding")
    numbers = cast("list[object]", found) if isinstance(found, list) else []
    if not numbers or not all(isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers):
        raise malformed("'embedding' must be a list of numbers", item)
    try:
        vector = tuple(map(float, cast("list[float]", numbers)))
    except OverflowError:
        vector = (inf,)
    if not all(map(isfinite, vector)):
        raise malformed("'embedding' must be a list of finite numbers", item)
    return vector


def _object(answer: object) -> JsonObject:
    if not isinstance(answer, dict):
        raise malformed("it is not an object", answer)
    return cast("JsonObject", answer)


def _message(block: ImageBlock | VideoBlock) -> Msg:
    return Msg.user(block)


def _with_files(batch: Sequence[EmbeddingInput]) -> list[EmbeddingInput]:
    """The batch with its files read, in one step, as the limits apply to a whole request."""
    media = [each for each in batch if isinstance(each, (ImageBlock, VideoBlock))]
    read = iter(read_files([_message(each) for each in media]))
    return [
        cast("EmbeddingInput", next(read).content[0]) if isinstance(each, (ImageBlock, VideoBlock)) else each
        for each in batch
    ]
