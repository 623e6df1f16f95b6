"""`StaticEmbeddingModel`: vectors of English texts by WordLlama, in this process; its package includes the weights.

Extra `[embeddings]`. It embeds thousands of texts a second without network. A vector is a weighted sum of word vectors:
it represents the topic of a text, not its statements. The model is loaded once per process, on a worker, at first use.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from agentscope_rx.errors import ConfigurationError, MissingExtraError, SetupError
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, EmbeddingModel, Embeddings, text_of
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, defer, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock

Dimensions = Literal[64, 128, 256]

_loaded: dict[int, Any] = {}
_loading = new_lock()


class StaticEmbeddingModel(EmbeddingModel):
    """Vectors of English texts by WordLlama, in this process; its package includes the weights. Extra `[embeddings]`.

    `dimensions` are 64, 128 or 256. A vector has length 1 and represents the topic of a text, not its statements; a
    text without a known word has a vector of zeros. A text of 1,000 characters takes 0.3 ms on one core. The model
    takes 80 MB with its package, and is loaded once per process, on a worker, at first use.
    """

    provider = "wordllama"

    def __init__(self, dimensions: Dimensions = 256, *, batch_size: int = 512) -> None:
        if dimensions not in get_args(Dimensions):
            raise ConfigurationError(f"dimensions must be 64, 128 or 256, not {dimensions!r}.")
        super().__init__("wordllama-l2-supercat", batch_size=batch_size, max_concurrency=1)
        self.dimensions: Dimensions = dimensions

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """The vectors, computed on a worker.

        Signals: the vectors of the batch; `MissingExtraError`, `SetupError`.
        Cancels: nothing once the computation has begun; it takes milliseconds.
        """

        def ask() -> Flow[Embeddings]:
            texts = [text_of(each, self) for each in batch]
            return on_worker(lambda: _vectors(_model(self.dimensions), texts), ENGINE_WORKERS)

        return defer(ask)


def wordllama(dimensions: Dimensions) -> Any:
    """WordLlama's own model, which is loaded at the first call: `MissingExtraError`, `SetupError`. It blocks."""
    return _model(dimensions)


def _model(dimensions: int) -> Any:
    with _loading:
        if dimensions not in _loaded:
            _loaded[dimensions] = _load(dimensions)
        return _loaded[dimensions]


def _load(dimensions: int) -> Any:
    # its import calls `logging.basicConfig`, which has no effect while there is a handler: the program's logging stays
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        import wordllama  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise MissingExtraError("wordllama", "embeddings") from None
    finally:
        root.removeHandler(handler)
    package = Path(wordllama.__file__).parent
    try:
        # the package includes weights and tokenizer, but it looks for the tokenizer only in the cache
        return wordllama.WordLlama.load(cache_dir=package, trunc_dim=dimensions, disable_download=True)
    except (OSError, ValueError) as error:
        raise SetupError(f"WordLlama's weights cannot be loaded from {package}: {error}") from error


def _vectors(model: Any, texts: Sequence[str]) -> Embeddings:
    found: list[list[float]] = model.embed(list(texts), norm=False).astype("float64").tolist()
    return Embeddings(tuple(_unit(vector) for vector in found))


def _unit(vector: Sequence[float]) -> tuple[float, ...]:
    length = sum(x * x for x in vector) ** 0.5
    return tuple(x / length for x in vector) if length else tuple(vector)
