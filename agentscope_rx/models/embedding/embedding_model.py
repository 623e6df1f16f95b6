"""The port to an embedding model: one vector for each text or medium, in the order of the inputs.

A provider implements `do_embed`, one attempt for one batch. `embed` adds batching, deadlines and retries:

    batches of batch_size, each: defer(do_embed) |> timeout |> retry    merge_ordered, at most max_concurrency at once

Some models have one vector for a text that is searched and another for the question that it answers: they implement
`do_embed_queries`, too, which is called for `embed(..., role="query")`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import sqrt
from typing import Literal, TypeAlias, get_args

from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError, ProtocolError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ImageBlock, TextBlock, VideoBlock
from agentscope_rx.models.attempts import attempts
from agentscope_rx.models.checks import check_count
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.reactive import Flow, concat_map, defer, just, merge_ordered

EmbeddingInput: TypeAlias = str | TextBlock | ImageBlock | VideoBlock
"""An input to embed: a text, or a block."""
EmbeddingRole: TypeAlias = Literal["document", "query"]
"""The purpose of an input. Some models embed a question ("query") differently from the text that answers it."""
Vector: TypeAlias = tuple[float, ...]
"""One embedding, with as many numbers as the model has dimensions."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A vector for each input, in order, and the tokens that they cost, if the provider reports them."""

    vectors: tuple[Vector, ...]
    tokens: int = 0


class EmbeddingModel(ABC):
    """An embedding model. Subclass it and implement `do_embed`; users call `embed`.

        batches of batch_size, at most max_concurrency at once, each: defer(do_embed) |> timeout |> retry

    `batch_size` is the number of inputs in one request, `max_concurrency` the number of requests at once. A model that
    embeds search queries differently from documents implements `do_embed_queries`, too.
    """

    provider: str = "custom"

    def __init__(
        self,
        model_name: str,
        *,
        batch_size: int = 64,
        max_concurrency: int = 4,
        execution_config: ExecutionConfig | None = None,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("max_concurrency", max_concurrency)):
            check_count(name, value)
        self.model_name = model_name
        self.batch_size = batch_size
        self.max_concurrency = max_concurrency
        self.execution_config = execution_config

    @abstractmethod
    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One attempt for one batch: a cold Flow of one value, without retry or deadline.

        Signals: the vectors of the batch; one `ModelError`.
        Cancels: the request.
        """

    def do_embed_queries(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """Like `do_embed`, for search queries. By default they are embedded like documents.

        Signals: the vectors of the batch; one `ModelError`.
        Cancels: the request.
        """
        return self.do_embed(batch)

    @property
    def distinguishes_roles(self) -> bool:
        """True if the vector of a query differs from that of a document with the same text."""
        return type(self).do_embed_queries is not EmbeddingModel.do_embed_queries

    def embed(
        self, inputs: EmbeddingInput | Sequence[EmbeddingInput], *, role: EmbeddingRole = "document"
    ) -> Flow[Embeddings]:
        """The vectors of these inputs: a text, a block, or a list of them.

        `role` is "query" for a search, "document" for everything else. Blank texts, and media for a text model, are
        refused before any request is sent.

        Signals: one `Embeddings`, then completion; `InvalidInputError`; the first `ModelError` of a batch after its
        last attempt. There are vectors for all inputs or for none.
        Cancels: the requests in progress, the waits before others.
        """
        check_role(role)
        given = inputs_in(inputs)

        def begin() -> Flow[Embeddings]:
            for number, each in enumerate(given):
                _check(each, number)
            if not given:
                return just(Embeddings(()))
            batches = [given[at : at + self.batch_size] for at in range(0, len(given), self.batch_size)]
            requests = [self._bounded(batch, role) for batch in batches]
            parts = merge_ordered(requests, max_concurrency=self.max_concurrency)
            return parts.pipe(ops.to_list(), concat_map(_joined))

        return defer(begin)

    def _bounded(self, batch: Sequence[EmbeddingInput], role: EmbeddingRole) -> Flow[Embeddings]:
        embed = self.do_embed_queries if role == "query" else self.do_embed

        def attempt() -> Flow[Embeddings]:
            return embed(batch).pipe(concat_map(lambda found: self._checked(batch, found)))

        return attempts(attempt, self.execution_config, self.model_name, self.provider)

    def _checked(self, batch: Sequence[EmbeddingInput], found: Embeddings) -> Embeddings:
        if len(found.vectors) != len(batch):
            raise ProtocolError(
                f"{len(batch)} inputs were sent, but the answer has {len(found.vectors)} vectors.",
                model=self.model_name,
                provider=self.provider,
            )
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"


def check_role(role: object) -> None:
    """`InvalidInputError` if this is no role."""
    if role not in get_args(EmbeddingRole):
        raise InvalidInputError(f"role must be 'document' or 'query', not {role!r:.60}.")


def inputs_in(inputs: EmbeddingInput | Sequence[EmbeddingInput]) -> tuple[EmbeddingInput, ...]:
    """One input or several, as a tuple."""
    return (inputs,) if isinstance(inputs, (str, TextBlock, ImageBlock, VideoBlock)) else tuple(inputs)


def text_of(each: EmbeddingInput, model: EmbeddingModel) -> str:
    """The text of an input; `InvalidInputError` for media, for models that embed text only."""
    if isinstance(each, str):
        return each
    if isinstance(each, TextBlock):
        return each.text
    raise InvalidInputError(f"{model!r} embeds text only, not a {each.type} block.")


def cosine(one: Vector, other: Vector) -> float:
    """The cosine similarity: 1 for the same direction, 0 for orthogonal vectors (or a vector of zeros)."""
    if len(one) != len(other):
        raise InvalidInputError(f"Vectors of {len(one)} and {len(other)} dimensions cannot be compared.")
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else 0.0


def _check(each: object, number: int) -> None:
    text = each.text if isinstance(each, TextBlock) else each
    if isinstance(text, str):
        if not text.strip():
            raise InvalidInputError(f"Input {number} is blank: there is nothing to embed.")
    elif not isinstance(each, (ImageBlock, VideoBlock)):
        raise InvalidInputError(f"Input {number} must be a text, an image or a video, not {each!r:.80}.")


def _joined(parts: Sequence[Embeddings]) -> Embeddings:
    vectors = tuple(vector for part in parts for vector in part.vectors)
    return Embeddings(vectors, sum(part.tokens for part in parts))
