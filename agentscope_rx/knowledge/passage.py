"""`Found`: a chunk that a store has found. `Passage`: one that a knowledge base returns, with its text in context."""

from __future__ import annotations

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Chunk
from agentscope_rx.messages.citation import Citation


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A chunk that a store has found.

    `similarity` is the cosine of its vector and the query's, -1 to 1. `relevance` is that of its words, 0 or more, and
    can be compared within one search only. None is "not asked for".
    """

    chunk: Chunk
    similarity: float | None = None
    relevance: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a document that fits a query. `score` orders the passages of one retrieval, best first, from 0 to 1.

    `text` is that of the chunk, with what stands around it if a window was asked for; `start` and `end` are its
    positions. `similarity` is the cosine with the query, `relevance` that of its words, `rank_score` the score of
    a reranker; None is "not asked for". `base` is the name of the knowledge base.
    """

    chunk: Chunk
    score: float
    text: str
    start: int
    end: int
    base: str = ""
    similarity: float | None = None
    relevance: float | None = None
    rank_score: float | None = None

    def citation(self, number: int) -> Citation:
        """How a reply refers to it, by this number."""
        chunk = self.chunk
        return Citation(
            number=number,
            base=self.base,
            document=chunk.document.id,
            title=chunk.document.title,
            chunk=chunk.number,
            page=chunk.page,
            headings=chunk.headings,
            start=self.start,
            end=self.end,
            score=round(self.score, 4),
        )
