"""Windows: the text around a hit, hits that become one passage, and what is never joined."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.knowledge import Chunk, KnowledgeBase, Passage
from agentscope_rx.knowledge.retrieval.windows import joined_text, widened
from agentscope_rx.testing import run_virtual
from tests.knowledge.retrieval.parts import MemoryStore, TopicEmbedding, chunks_of

TEXTS = [f"Line {number}. " for number in range(10)]
LINES = chunks_of("lines.md", *TEXTS)
WHOLE = "".join(TEXTS)


def passage(chunk: Chunk, score: float = 0.5) -> Passage:
    return Passage(chunk=chunk, score=score, text=chunk.text, start=chunk.start, end=chunk.end)


def wide(chunks: list[Chunk], hits: list[int], window: int, limit: int = 5) -> tuple[Passage, ...]:
    ranked = [passage(chunks[number], 1 - place / 100) for place, number in enumerate(hits)]
    return run_virtual(widened(MemoryStore(*chunks), ranked, limit, window))


def test_text_around_a_hit():
    (found,) = wide(LINES, [4], 2)
    assert found.text == "".join(TEXTS[2:7]) == WHOLE[found.start : found.end] and found.chunk.number == 4


def test_window_ends_with_the_document():
    first, last = wide(LINES, [0, 9], 2)
    assert first.text == "".join(TEXTS[:3]) and last.text == "".join(TEXTS[7:]) and last.end == len(WHOLE)


def test_hits_with_common_chunks_are_one_passage():
    (found,) = wide(LINES, [5, 3], 1)
    assert found.text == "".join(TEXTS[2:7]) and found.chunk.number == 5 and found.score == 1.0


def test_hits_side_by_side_stay_apart():
    assert [each.text for each in wide(LINES, [5, 4], 0)] == [TEXTS[5], TEXTS[4]]


def test_overlapping_chunks_are_one_passage():
    chunks = chunks_of("o.md", *TEXTS, overlap=4)
    (found,) = wide(chunks, [5, 4], 0)
    assert found.text == WHOLE[chunks[4].start : chunks[5].end] and (found.start, found.end) == (
        chunks[4].start,
        chunks[5].end,
    )


def test_a_merged_hit_makes_room_for_another():
    found = wide(LINES, [5, 4, 9, 0], 1, limit=2)
    assert [each.chunk.number for each in found] == [5, 9]


def test_a_passage_does_not_grow_without_end():
    found = wide(LINES, list(range(10)), 1, limit=9)
    assert max(len(each.text) for each in found) <= 7 * len(TEXTS[0])
    shown = "".join(sorted(each.text for each in found))
    assert shown == WHOLE


def test_documents_are_never_joined():
    other = chunks_of("other.md", *TEXTS)
    ranked = [passage(LINES[4]), passage(other[4])]
    found = run_virtual(widened(MemoryStore(*LINES, *other), ranked, 5, 1))
    assert [each.chunk.document.id for each in found] == ["lines.md", "other.md"]


def test_a_replaced_document_gives_no_neighbours():
    store = MemoryStore(*chunks_of("lines.md", *["New. "] * 10, digest="another"))
    (found,) = run_virtual(widened(store, [passage(LINES[4])], 5, 1))
    assert found.text == TEXTS[4] and (found.start, found.end) == (LINES[4].start, LINES[4].end)


def test_text_between_chunks_is_a_gap():
    chunks = [replace(LINES[2]), replace(LINES[4])]
    assert joined_text(chunks) == f"{TEXTS[2]}\n\n{TEXTS[4]}"


def test_base_with_a_window():
    base = KnowledgeBase(
        MemoryStore(*chunks_of("z.md", "It is old. ", "The zoo is big. ", "It is cheap. ")), TopicEmbedding(), window=1
    )
    (found,) = run_virtual(base.retrieve("zoo", 1))
    assert found.text == "It is old. The zoo is big. It is cheap. " and found.citation(1).start == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.text("ab \n", min_size=1, max_size=6), min_size=1, max_size=12),
    st.integers(0, 5),
    st.integers(0, 3),
    st.data(),
)
def test_passages_are_parts_of_the_document(texts: list[str], overlap: int, window: int, data: Any):
    chunks = chunks_of("p.md", *texts, overlap=overlap)
    hits = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, unique=True))
    limit = data.draw(st.integers(1, 5))
    whole = "".join(texts)
    found = wide(chunks, hits, window, limit)
    assert 1 <= len(found) <= limit and found[0].chunk.number == hits[0]
    for each in found:
        assert each.text == whole[each.start : each.end]
        assert each.start <= each.chunk.start and each.chunk.end <= each.end
    scores = [each.score for each in found]
    assert scores == sorted(scores, reverse=True)
    if not overlap:
        # no text stands in two passages
        spans = sorted((each.start, each.end) for each in found)
        assert all(one[1] <= other[0] for one, other in pairwise(spans))
