"""The laws of chunkers, over texts of all kinds in all divisions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.knowledge import (
    Chunk,
    CodeChunker,
    Document,
    HeadingChunker,
    Section,
    SentenceChunker,
    TokenChunker,
)
from agentscope_rx.knowledge.chunkers.cutter import Cutter
from agentscope_rx.knowledge.chunkers.text_chunkers import TextChunker
from agentscope_rx.messages import ImageBlock, URLSource
from agentscope_rx.models.tokens import estimated_tokens

DOCUMENT = Document(id="d.txt")
PICTURE = ImageBlock(URLSource("http://x/a.png"))


def by_words(text: str) -> int:
    return len(text.split())


CHUNKERS: dict[str, TextChunker] = {
    "tokens": TokenChunker(16, 5),
    "tokens alone": TokenChunker(40, 0),
    "by words": TokenChunker(16, 4, count=by_words),
    "nearly all repeated": TokenChunker(17, 16),
    "sentences": SentenceChunker(20, 8),
    "headings": HeadingChunker(16, 4),
    "code": CodeChunker(24, 6),
}

WORDS = st.sampled_from(
    [
        *("a", "word", "Dr.", "e.g.", "end. ", "What? ", "3.14", " ", "\n", "\n\n", "\r\n", "- item\n", "# Title\n"),
        *("你好，世界。", "これは文です。", "漢字", "e\u0301", "👍🏽", "👨\u200d👩\u200d👧", "🇩🇪🇫🇷", "\u0301" * 3),
        *("x" * 60, " " * 200, "\t", "def f(a):\n", "    return 1\n", "class C:\n", "}\n", "@wraps\n", "// note\n"),
        *("| a | b |\n|---|---|\n", "\ud83d", "…"),
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join)
KINDS = st.sampled_from(["text", "table", "code"])
HEADINGS: list[tuple[str, ...]] = [(), ("A",), ("A", "B"), ("C",)]
PLAIN = st.builds(
    Section, text=TEXTS, page=st.sampled_from([None, 1, 2]), headings=st.sampled_from(HEADINGS), kind=KINDS
)
PICTURES = st.builds(Section, text=TEXTS, kind=st.just("image"), image=st.just(PICTURE))
SECTIONS = st.lists(PLAIN | PLAIN | PICTURES, max_size=6)


def cut(chunker: TextChunker, sections: Iterable[Section]) -> list[Chunk]:
    cutter = Cutter(DOCUMENT, chunker._rules())  # pyright: ignore[reportPrivateUsage]
    chunks = [chunk for section in sections for chunk in cutter.take(section)]
    return [*chunks, *cutter.rest()]


def section_at(sections: Iterable[Section], position: int) -> Section:
    start = 0
    for section in sections:
        if start <= position < start + len(section.text):
            return section
        start += len(section.text)
    raise AssertionError(position)


@pytest.mark.parametrize("name", CHUNKERS)
@settings(max_examples=60, deadline=None)
@given(SECTIONS)
def test_laws(name: str, sections: list[Section]) -> None:
    chunker = CHUNKERS[name]
    text = "".join(section.text for section in sections)
    chunks = cut(chunker, sections)
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    covered: set[int] = set()
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunker.count(chunk.text) <= chunker.size
        covered.update(range(chunk.start, chunk.end))
        if chunk.text:
            assert chunk.text == chunk.text.rstrip()
            assert chunk.text.strip()
            origin = section_at(sections, chunk.start)
            assert (chunk.page, chunk.kind) == (origin.page, origin.kind)
            assert chunk.headings[: len(origin.headings)] == origin.headings
        else:
            assert chunk.image is not None
    assert all(character.isspace() or at in covered for at, character in enumerate(text))
    for before, after in pairwise(chunks):
        assert before.start <= after.start
        assert before.end < after.end or not after.text or not before.text
        repeated = text[after.start : before.end].rstrip()
        assert after.start >= before.end or chunker.count(repeated) <= chunker.overlap
    assert sum(chunk.image is not None for chunk in chunks) == sum(each.image is not None for each in sections)


@pytest.mark.parametrize("name", CHUNKERS)
@settings(max_examples=60, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 3000), max_size=8), KINDS)
def test_any_division_gives_the_same(name: str, text: str, cuts: list[int], kind: str) -> None:
    """A section in pieces is cut like the whole."""
    places = sorted({min(each, len(text)) for each in cuts} | {0, len(text)})
    pieces = [Section(text=text[a:b], kind="code" if kind == "code" else "text") for a, b in pairwise(places)]
    whole = Section(text=text, kind="code" if kind == "code" else "text")
    assert cut(CHUNKERS[name], pieces) == cut(CHUNKERS[name], [whole])
    assert cut(CHUNKERS[name], [whole, Section(text="")]) == cut(CHUNKERS[name], [whole])


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_what_a_reader_sees_as_one_is_not_divided(text: str) -> None:
    """Accents stay with their letters, joined emoji and flags together, CR with LF."""
    if "\u0301" * 30 in text:
        return
    for chunk in cut(TokenChunker(24, 6), [Section(text=text)]):
        for at in (chunk.start, chunk.end):
            if not 0 < at < len(text) or text[at - 1].isspace() or text[at].isspace():
                continue
            assert unicodedata.category(text[at]) not in ("Mn", "Me")
            assert "\u200d" not in (text[at - 1], text[at])
            assert not "\U0001f3fb" <= text[at] <= "\U0001f3ff"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["one", "two", "three", "four"]), min_size=30, max_size=200), st.integers(1, 15))
def test_the_overlap_is_as_long_as_asked(words: list[str], overlap: int) -> None:
    """By words every chunk but the last is full, and repeats exactly so many words."""
    text = " ".join(words)
    chunks = cut(TokenChunker(16, overlap, count=by_words), [Section(text=text)])
    for before, after in pairwise(chunks):
        assert by_words(before.text) == 16
        assert by_words(text[after.start : before.end]) == overlap


@settings(max_examples=60, deadline=None)
@given(SECTIONS)
def test_no_chunk_goes_across_a_heading(sections: list[Section]) -> None:
    """Unless it is the first one beneath it, and there is little text before."""
    chunks = cut(HeadingChunker(16, smallest=0), sections)
    place = 0
    for section in sections:
        end = place + len(section.text)
        for chunk in chunks:
            # (a section without text divides nothing)
            if section.text and chunk.start < end < chunk.end:
                assert section_at(sections, chunk.end - 1).headings == section.headings
        place = end


def test_a_tokenizer_that_needs_more_for_less() -> None:
    """The greatest size holds all the same."""

    def odd(text: str) -> int:
        return len(text) // 4 + (20 if len(text) % 2 else 0)

    text = "word and word " * 100
    chunks = cut(TokenChunker(30, 0, count=odd), [Section(text=text)])
    assert all(odd(chunk.text) <= 30 for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks).replace(" ", "") == text.replace(" ", "")


def test_estimates_of_sizes_are_nearly_used_up() -> None:
    text = "The quick brown fox jumps over the lazy dog and goes on to the next one " * 200
    chunks = cut(TokenChunker(256, 0), [Section(text=text)])
    assert all(estimated_tokens(chunk.text) > 240 for chunk in chunks[:-1])
