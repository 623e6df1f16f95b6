"""Windows: the chunks around a hit become part of its passage; hits that stand close together become one passage.

    chunks      0  1  2  3  4  5  6  7  8  9
    hits              b     a           c        a is the best
    window=1      [1  2  3  4  5]    [7  8  9]   two passages: a with b, and c

What chunks have in common is not repeated: their positions tell. A passage has chunks of one document only, as it was
when it was searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from reactivex import operators as ops

from agentscope_rx.knowledge.document import Chunk, Document
from agentscope_rx.knowledge.passage import Passage
from agentscope_rx.knowledge.store import ChunkStore
from agentscope_rx.reactive import Flow, concat_map, just, merge_ordered

_AT_ONCE = 8
_GAP = "\n\n"


@dataclass(slots=True)
class _Span:
    """The chunks of a passage, from `first` to `last`, and the hits among them, best first."""

    hits: list[Passage]
    first: int
    last: int

    @property
    def document(self) -> Document:
        return self.hits[0].chunk.document


def widened(store: ChunkStore, ranked: Iterable[Passage], limit: int, window: int) -> Flow[tuple[Passage, ...]]:
    """The first `limit` passages of these chunks, each with the text of `window` chunks before and after it.

    Signals: one tuple, in order of the best hit of each; a `KnowledgeError` of the store.
    Cancels: the searches in progress.
    """
    spans = _spans(ranked, limit, window)
    if not spans:
        return just(())

    def fill(span: _Span) -> Flow[Passage]:
        own = {each.chunk.number: each.chunk for each in span.hits}
        if len(own) == span.last - span.first + 1:
            return just(_passage(span, own))

        def filled(chunks: Sequence[Chunk]) -> Passage:
            # a document that was replaced meanwhile has other chunks under these numbers
            around = {each.number: each for each in chunks if each.document.digest == span.document.digest}
            return _passage(span, around | own)

        return store.between(span.document.id, span.first, span.last).pipe(concat_map(filled))

    one_by_one = merge_ordered([fill(span) for span in spans], max_concurrency=_AT_ONCE)
    return one_by_one.pipe(ops.to_list(), concat_map(lambda found: just(tuple(found))))


def _spans(ranked: Iterable[Passage], limit: int, window: int) -> list[_Span]:
    """The spans of the passages. A span is at most twice as long as the window of two hits that touch."""
    spans: list[_Span] = []
    most = 2 * (2 * window + 1) + 1
    for hit in ranked:
        number = hit.chunk.number
        first, last = max(0, number - window), number + window
        others = [each for each in spans if _same(each.document, hit.chunk.document)]
        meets = [each for each in others if _meet(each, hit, first, last)]
        within = next((each for each in meets if each.first <= number <= each.last), None)
        grown = next((found for each in meets if (found := _grown(each, first, last, number, others, most))), None)
        if grown is not None and (within is None or within is grown[0]):
            span, span.first, span.last = grown
            span.hits.append(hit)
        elif within is not None:
            within.hits.append(hit)
        elif len(spans) < limit:
            spans.append(_Span([hit], *_clipped(first, last, number, others)))
        else:
            break
    return spans


def _grown(
    span: _Span, first: int, last: int, number: int, others: Iterable[_Span], most: int
) -> tuple[_Span, int, int] | None:
    """The span with the window around this number; None if that would be too long, or another one is between."""
    rest = [each for each in others if each is not span]
    first, last = _clipped(min(span.first, first), max(span.last, last), number, rest)
    return (span, first, last) if first <= span.first and span.last <= last and last - first < most else None


def _same(one: Document, other: Document) -> bool:
    return one.id == other.id and one.digest == other.digest


def _meet(span: _Span, hit: Passage, first: int, last: int) -> bool:
    """True if they have chunks in common, or are chunks in a row that have text in common."""
    if span.first <= last and first <= span.last:
        return True
    chunk = hit.chunk
    beside = (each.chunk for each in span.hits if abs(each.chunk.number - chunk.number) == 1)
    return any(each.start < chunk.end and chunk.start < each.end for each in beside)


def _clipped(first: int, last: int, number: int, others: Iterable[_Span]) -> tuple[int, int]:
    """The span around this number, without the chunks of the others."""
    for each in others:
        if each.last < number:
            first = max(first, each.last + 1)
        elif each.first > number:
            last = min(last, each.first - 1)
    return first, last


def _passage(span: _Span, chunks: dict[int, Chunk]) -> Passage:
    ordered = [chunks[number] for number in sorted(chunks)]
    return replace(span.hits[0], text=joined_text(ordered), start=ordered[0].start, end=ordered[-1].end)


def joined_text(chunks: Sequence[Chunk]) -> str:
    """The text of chunks in order, in which what two of them have in common stands once."""
    parts: list[str] = []
    end = None
    for chunk in chunks:
        text = chunk.text
        if end is None:
            pass
        elif chunk.start > end:
            parts.append(_GAP)
        elif chunk.start < end and len(text) == chunk.end - chunk.start:
            text = text[end - chunk.start :]
        elif chunk.start < end:
            # (its text is not that of its positions: a table whose header is repeated, for one)
            parts.append(_GAP)
        parts.append(text)
        end = chunk.end if end is None else max(end, chunk.end)
    return "".join(parts)
