"""`CachedEmbeddingModel`: sends only new inputs to the model, and keeps their vectors."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

from agentscope_rx.messages import TextBlock
from agentscope_rx.models.checks import check_count
from agentscope_rx.models.embedding.embedding_model import (
    EmbeddingInput,
    EmbeddingModel,
    EmbeddingRole,
    Embeddings,
    Vector,
    check_role,
    inputs_in,
)
from agentscope_rx.reactive import Flow, concat_map, defer, just

_Key: TypeAlias = tuple[EmbeddingRole, EmbeddingInput]


class CachedEmbeddingModel(EmbeddingModel):
    """Keeps the vectors of the `max_entries` most recently used inputs, in this process.

    A query and a document have entries of their own if the inner model distinguishes them.
    """

    def __init__(self, model: EmbeddingModel, max_entries: int = 10_000) -> None:
        check_count("max_entries", max_entries)
        super().__init__(model.model_name, batch_size=model.batch_size, max_concurrency=model.max_concurrency)
        self.model = model
        self.provider: str = model.provider
        self.max_entries = max_entries
        self._known: OrderedDict[_Key, Vector] = OrderedDict()

    @property
    def distinguishes_roles(self) -> bool:
        """True if the inner model distinguishes queries from documents."""
        return self.model.distinguishes_roles

    def embed(
        self, inputs: EmbeddingInput | Sequence[EmbeddingInput], *, role: EmbeddingRole = "document"
    ) -> Flow[Embeddings]:
        """The vectors of these inputs; each new input is sent once. `tokens` are those of the inputs sent.

        Signals: as the inner model's.
        Cancels: the requests of the inner model; none of their vectors are kept.
        """
        check_role(role)
        given = inputs_in(inputs)
        kept_as: EmbeddingRole = role if self.distinguishes_roles else "document"

        def begin() -> Flow[Embeddings]:
            keys: list[_Key] = [(kept_as, each.text if isinstance(each, TextBlock) else each) for each in given]
            found = {key: self._known[key] for key in keys if key in self._known}
            for key in found:
                self._known.move_to_end(key)
            new = [key for key in dict.fromkeys(keys) if key not in found]
            if not new:
                return just(Embeddings(tuple(found[key] for key in keys)))

            def joined(answer: Embeddings) -> Embeddings:
                fresh: dict[_Key, Vector] = dict(zip(new, answer.vectors, strict=True))
                self._keep(fresh)
                return Embeddings(tuple(fresh[key] if key in fresh else found[key] for key in keys), answer.tokens)

            return self.model.embed([each for _, each in new], role=role).pipe(concat_map(joined))

        return defer(begin)

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One attempt of the inner model, bypassing the cache.

        Signals: as the inner model's.
        Cancels: its request.
        """
        return self.model.do_embed(batch)

    def do_embed_queries(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One attempt of the inner model for queries, bypassing the cache.

        Signals: as the inner model's.
        Cancels: its request.
        """
        return self.model.do_embed_queries(batch)

    def _keep(self, fresh: dict[_Key, Vector]) -> None:
        self._known.update(fresh)
        while len(self._known) > self.max_entries:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"
