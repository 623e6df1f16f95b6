"""What the stores of chunks check of their arguments, so that each refuses the same ones with the same error."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import cast

from agentscope_rx.errors import InvalidInputError, KnowledgeFormatError
from agentscope_rx.knowledge.document import Chunk, Document, EmbeddedChunk
from agentscope_rx.knowledge.store import IndexInfo


def check_limit(limit: object) -> int:
    """The greatest number of chunks to find, 1 or more."""
    if type(limit) is not int or limit < 1:
        raise InvalidInputError(f"limit must be a whole number of at least 1, not {limit!r:.60}.")
    return limit


def check_ids(ids: object) -> tuple[str, ...]:
    """The ids of documents, each once; a text is no sequence of ids."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
        raise InvalidInputError(f"remove takes a sequence of document ids, such as ['a.md'], not {ids!r:.60}.")
    given = tuple(cast("Sequence[object]", ids))
    if wrong := [each for each in given if not isinstance(each, str)]:
        raise InvalidInputError(f"The id of a document is a str, not {wrong[0]!r:.60}.")
    return tuple(dict.fromkeys(cast("tuple[str, ...]", given)))


def check_text(text: object) -> str:
    """The words that are searched for."""
    if not isinstance(text, str):
        raise InvalidInputError(f"matching takes a text, not {text!r:.60}.")
    return text


def check_vector(vector: Sequence[float], dimensions: int | None = None) -> Sequence[float]:
    """A vector of so many finite numbers; one of zeros is like nothing, and has similarity 0 to everything."""
    if isinstance(vector, (str, bytes)) or not hasattr(vector, "__len__"):
        raise InvalidInputError(f"A vector is a sequence of numbers, not {vector!r:.60}.")
    if dimensions is not None and len(vector) != dimensions:
        raise InvalidInputError(f"The vectors of this store have {dimensions} dimensions, not {len(vector)}.")
    try:
        finite = all(map(isfinite, vector))
    except (TypeError, OverflowError):
        raise InvalidInputError("A vector holds numbers, of the size of a float.") from None
    if not finite:
        raise InvalidInputError("A vector holds finite numbers; this one has NaN or infinity.")
    return vector


def check_batch(batch: object, document: Document) -> Sequence[EmbeddedChunk]:
    """Embedded chunks of this document."""
    if isinstance(batch, (str, bytes)) or not isinstance(batch, Sequence):
        raise InvalidInputError(f"put takes batches of EmbeddedChunks, not {batch!r:.60}.")
    for each in cast("Sequence[object]", batch):
        if not isinstance(each, EmbeddedChunk):
            raise InvalidInputError(f"put takes batches of EmbeddedChunks, not of {each!r:.60}.")
        if each.chunk.document.id != document.id:
            raise InvalidInputError(
                f"A chunk of {each.chunk.document.id!r:.60} cannot be put with the document {document.id!r:.60}."
            )
    return cast("Sequence[EmbeddedChunk]", batch)


def check_new(chunk: Chunk, seen: set[int]) -> None:
    """A number that no other chunk of the document has; it is added to `seen`."""
    if type(chunk.number) is not int or not 0 <= chunk.number < 2**31 or chunk.number in seen:
        raise InvalidInputError(
            f"The chunks of {chunk.document.id!r:.60} need numbers from 0, each once, not {chunk.number!r:.60}."
        )
    seen.add(chunk.number)


def check_info(info: object) -> IndexInfo:
    """What the vectors are made with."""
    if not isinstance(info, IndexInfo):
        raise InvalidInputError(f"open takes an IndexInfo, not {info!r:.60}.")
    if type(info.dimensions) is not int or not 1 <= info.dimensions <= 65_536:
        raise InvalidInputError(f"IndexInfo.dimensions must be from 1 to 65536, not {info.dimensions!r:.60}.")
    return info


def refuse_other(store: str, has: IndexInfo, wanted: IndexInfo) -> None:
    """`KnowledgeFormatError` unless both are the same."""
    if has != wanted:
        raise KnowledgeFormatError(
            store,
            f"its vectors are of {has.embedding} with {has.dimensions} dimensions, not of {wanted.embedding} with "
            f"{wanted.dimensions}. Use that model, or index the documents again into another store.",
            embedding=has.embedding,
        )
