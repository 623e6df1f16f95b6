"""`CachedEmbeddingModel`: what has been embedded is not asked for again; only what is new goes to the model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import ImageBlock, TextBlock, VideoBlock
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, EmbeddingModel, Embeddings, Vector
from agentscope_rx.reactive import Flow, concat_map, defer, just


class CachedEmbeddingModel(EmbeddingModel):
    """Keeps the vectors of the last `max_entries` inputs that were asked for, in this process."""

    def __init__(self, model: EmbeddingModel, max_entries: int = 10_000) -> None:
        if type(max_entries) is not int or max_entries < 1:
            raise ConfigurationError(f"max_entries must be a whole number >= 1, not {max_entries!r}.")
        super().__init__(model.model_name, batch_size=model.batch_size, max_concurrency=model.max_concurrency)
        self.model = model
        self.provider = model.provider
        self.max_entries = max_entries
        self._known: OrderedDict[EmbeddingInput, Vector] = OrderedDict()

    def embed(self, inputs: EmbeddingInput | Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """The vectors of these inputs; each that is new is asked for once. `tokens` are those of what was asked for.

        Signals: as the inner model's.
        Cancels: the requests of the inner model; nothing of them is kept.
        """
        given = (inputs,) if isinstance(inputs, (str, TextBlock, ImageBlock, VideoBlock)) else tuple(inputs)

        def begin() -> Flow[Embeddings]:
            keys: list[EmbeddingInput] = [each.text if isinstance(each, TextBlock) else each for each in given]
            found = {key: self._known[key] for key in keys if key in self._known}
            for key in found:
                self._known.move_to_end(key)
            new = [key for key in dict.fromkeys(keys) if key not in found]
            if not new:
                return just(Embeddings(tuple(found[key] for key in keys)))

            def joined(asked: Embeddings) -> Embeddings:
                fresh: dict[EmbeddingInput, Vector] = dict(zip(new, asked.vectors, strict=True))
                self._keep(fresh)
                return Embeddings(tuple(fresh[key] if key in fresh else found[key] for key in keys), asked.tokens)

            return self.model.embed(new).pipe(concat_map(joined))

        return defer(begin)

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """One attempt of the inner model, past the cache.

        Signals: as the inner model's.
        Cancels: its request.
        """
        return self.model.do_embed(batch)

    def _keep(self, fresh: dict[EmbeddingInput, Vector]) -> None:
        self._known.update(fresh)
        while len(self._known) > self.max_entries:
            self._known.popitem(last=False)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"
