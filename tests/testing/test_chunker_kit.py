"""`check_chunker`: the shipped chunkers keep the laws, and each kind of fault is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge import (
    Chunk,
    Chunker,
    CodeChunker,
    Document,
    HeadingChunker,
    Section,
    SentenceChunker,
    TokenChunker,
    default_chunker,
)
from agentscope_rx.reactive import Flow, append_if_missing, concat_map
from agentscope_rx.testing import check_chunker
from tests.testing.faults import broken


@pytest.mark.parametrize(
    "make",
    [
        lambda: TokenChunker(64, 8),
        lambda: SentenceChunker(64, 8),
        lambda: HeadingChunker(64, 8),
        lambda: CodeChunker(64, 8),
        default_chunker,
    ],
    ids=["tokens", "sentences", "headings", "code", "default"],
)
def test_the_shipped_chunkers_keep_the_laws(make: Callable[[], Chunker]) -> None:
    report = check_chunker(make)
    assert {"text", "numbers", "complete", "origin", "images", "blank", "again", "chunk 1.08"} <= set(report.checked)


class Changed(Chunker):
    """A chunker whose chunks are changed."""

    def __init__(self, change: Callable[[Chunk], Chunk], fingerprint: str = "changed") -> None:
        self._change = change
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def chunk(self, document: Document, sections: Flow[Section]) -> Flow[Chunk]:
        return TokenChunker(64, 8).chunk(document, sections).pipe(concat_map(self._change))


def shorter(chunk: Chunk) -> Chunk:
    return replace(chunk, text="", end=chunk.start) if chunk.number == 3 else chunk


CHANGES: dict[str, tuple[str, Callable[[Chunk], Chunk]]] = {
    "other text": ("text", lambda chunk: replace(chunk, text=chunk.text.lower())),
    "position": ("text", lambda chunk: replace(chunk, start=chunk.start + 1)),
    "number": ("numbers", lambda chunk: replace(chunk, number=chunk.number + 1)),
    "document": ("numbers", lambda chunk: replace(chunk, document=Document(id="other"))),
    "left out": ("complete", shorter),
    "page": ("origin", lambda chunk: replace(chunk, page=9)),
    "headings": ("origin", lambda chunk: replace(chunk, headings=())),
    "image": ("images", lambda chunk: replace(chunk, image=None)),
}


@pytest.mark.parametrize("fault", CHANGES)
def test_faults_are_found(fault: str) -> None:
    rule, change = CHANGES[fault]
    broken(lambda: check_chunker(lambda: Changed(change)), rule)


def test_other_faults_are_found() -> None:
    def same(chunk: Chunk) -> Chunk:
        return chunk

    class Keeps(Changed):
        """Makes a chunk of a document without text."""

        def chunk(self, document: Document, sections: Flow[Section]) -> Flow[Chunk]:
            more = Chunk(document=document, number=0, text="", start=0, end=0)
            return super().chunk(document, sections).pipe(append_if_missing(Chunk, lambda: more))

    broken(lambda: check_chunker(lambda: Keeps(same)), "blank")
    numbers = count()
    broken(lambda: check_chunker(lambda: Changed(same, f"{next(numbers)}")), "again")
    with pytest.raises(ConfigurationError, match="new Chunker"):
        check_chunker(TokenChunker())  # pyright: ignore[reportArgumentType]
