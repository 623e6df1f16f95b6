"""Chunkers: where they cut, what they say of a chunk, and as streams: demand, errors, disposal, bounds."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, DamagedDocumentError
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
from agentscope_rx.knowledge.chunkers.cutter import Cutter
from agentscope_rx.messages import ImageBlock, URLSource
from agentscope_rx.models.tokens import EstimatedTokens, estimated_tokens
from agentscope_rx.reactive import Flow, concat, empty, from_iterable, throw
from tests.support.assertions import in_cpu_time

DOCUMENT = Document(id="d.txt", title="A document")


def by_words(text: str) -> int:
    return len(text.split())


def cut(chunker: Chunker, *sections: Section) -> list[Chunk]:
    return chunker.chunk(DOCUMENT, from_iterable(sections)).pipe(ops.to_list()).run()


def texts(chunker: Chunker, text: str, kind: str = "text") -> list[str]:
    return [chunk.text for chunk in cut(chunker, Section(text=text, kind="code" if kind == "code" else "text"))]


def sentences(text: str) -> list[str]:
    """Each in a chunk of its own, as none of them fits beside another."""
    return texts(SentenceChunker(16, 0, count=lambda text: 12 * text.count("|") + 1), text)


@pytest.mark.parametrize(
    "given",
    [
        ["One ends here|.", "Two begins|!", '"Three|?"', "Four|…", "And five|."],
        ["Pi is 3.14 and a.b.c is a name|.", "See example.org for more|."],
        ["Dr. Smith met Mr. J. R. Hartley, e.g. at no. 5|.", "Then approx. five left|."],
        ["第一句|。", "“第二句|！”", "第三句是什么|？", "好|。"],
        ["これは文です|。", "次の文です|。"],
        ["- one item|", "- another|", "1. first|", "2. second|"],
        ["A heading|", "a paragraph without a capital|"],
        ["यह एक वाक्य है|।", "दूसरा|।"],
    ],
    ids=["stops", "numbers", "abbreviations", "Chinese", "Japanese", "lists", "paragraphs", "Hindi"],
)
def test_sentences(given: list[str]) -> None:
    is_list = given[0].startswith("-")
    gap = "\n" if is_list else "\n\n" if given[0] == "A heading|" else "" if ord(given[0][0]) > 0x3000 else " "
    assert sentences(gap.join(given)) == given


def test_a_long_sentence_is_divided_at_a_comma() -> None:
    text = "one two three four five six seven eight, nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    assert texts(SentenceChunker(16, 0, count=by_words), text)[0].endswith("eight,") is False
    assert texts(SentenceChunker(16, 0, count=by_words), text.replace("ten eleven", "ten, eleven"))[0].endswith("ten,")


def test_the_overlap_of_sentences_is_whole_ones() -> None:
    text = "One two three four. Five six seven. Eight nine ten eleven. Twelve thirteen. Fourteen fifteen sixteen."
    found = texts(SentenceChunker(16, 8, count=lambda text: by_words(text) + 2), text)
    assert found[0] == "One two three four. Five six seven. Eight nine ten eleven. Twelve thirteen."
    assert found[1] == "Eight nine ten eleven. Twelve thirteen. Fourteen fifteen sixteen."


def test_headings_are_not_crossed_and_small_ones_go_along() -> None:
    chapter, one, two = ("A",), ("A", "One"), ("A", "Two")
    found = cut(
        HeadingChunker(64, count=by_words),
        Section(text="# A\n\n", headings=chapter),
        Section(text="## One\n\nSome words about one.\n\n", headings=one),
        Section(text="And a table.\n", headings=one, kind="table"),
        Section(text="## Two\n\nOther words.\n", headings=two),
    )
    assert [(chunk.text, chunk.headings) for chunk in found] == [
        ("# A\n\n## One\n\nSome words about one.\n\nAnd a table.", chapter),
        ("## Two\n\nOther words.", two),
    ]
    alone = cut(HeadingChunker(64, smallest=0, count=by_words), Section(text="# A\n", headings=chapter),
                Section(text="one", headings=one))  # fmt: skip
    assert [chunk.text for chunk in alone] == ["# A", "one"]


def test_paragraphs_come_before_sentences() -> None:
    text = "Aa aa aa aa aa aa aa aa aa aa.\n\nBb bb bb. Cc cc cc cc cc cc cc cc cc cc cc cc cc cc cc cc."
    assert texts(HeadingChunker(16, count=by_words), text)[0] == "Aa aa aa aa aa aa aa aa aa aa."
    assert texts(SentenceChunker(16, 0, count=by_words), text)[0].endswith("Bb bb bb.")


def test_a_part_of_a_table_has_its_header_as_a_heading() -> None:
    rows = "".join(f"| Ann {n} | {n} |\n" for n in range(30))
    table = Section(text=f"| name | age |\n|---|---|\n{rows}\n", kind="table", headings=("People",))
    after = Section(text="| x |\n|---|\n| 1 |\n", kind="table", headings=("Things",))
    first, *others, other = cut(HeadingChunker(64), table, after)
    assert first.headings == ("People",)
    assert {chunk.headings for chunk in others} == {("People", "name | age")}
    assert (other.text, other.headings) == ("| x |\n|---|\n| 1 |", ("Things",))
    assert all(chunk.text.startswith("| ") and chunk.text.endswith("|") for chunk in others)
    assert others[0].in_context.startswith("A document > People > name | age\n")


PYTHON = '''"""About it."""

import os

CONSTANT = 1


class Shop:
    """Sells."""

    @property
    def open(self) -> bool:
        if self.day == "Sunday":
            return False
        else:
            return True

    # how much
    def price(self, thing: str) -> int:
        return len(thing)


def main() -> None:
    print(Shop().open)
'''


def test_code_is_cut_between_definitions() -> None:
    found = cut(CodeChunker(40), Section(text=PYTHON, kind="code", language="python"))
    assert [(chunk.text.splitlines()[0], chunk.headings) for chunk in found] == [
        ('"""About it."""', ()),
        ("class Shop:", ()),
        ("    @property", ("class Shop",)),
        ("    # how much", ("class Shop",)),
    ]
    assert found[-1].text.endswith("print(Shop().open)")


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (
            "package main\n\nfunc One(a int) int {\n\tb := a + 1\n\treturn b\n}\n\n"
            "// Two is next.\nfunc Two() {\n\tcall()\n}\n",
            ["package main", "// Two is next."],
        ),
        (
            "export class A {\n  one() {\n    return [1, 2, 3].map(x => x + 1);\n  }\n\n"
            "  two() {\n    return 2;\n  }\n}\n",
            ["export class A {", "  two() {"],
        ),
    ],
    ids=["Go", "TypeScript"],
)
def test_other_languages_by_indentation(code: str, lines: list[str]) -> None:
    found = cut(CodeChunker(30), Section(text=code, kind="code"))
    assert [chunk.text.splitlines()[0] for chunk in found] == lines
    assert found[-1].headings in ((), ("export class A",))


def test_an_image_is_a_chunk() -> None:
    picture = ImageBlock(URLSource("http://x/a.png"))
    found = cut(
        default_chunker(),
        Section(text="Before. "),
        Section(text="", kind="image", image=picture, page=3),
        Section(text="A cat.\n", kind="image", image=picture),
        Section(text="After."),
        Section(text="A long text. " * 200, kind="image", image=picture),
    )
    assert [(chunk.text[:8], chunk.kind, chunk.image is picture) for chunk in found[:5]] == [
        ("Before.", "text", False), ("", "image", True), ("A cat.", "image", True), ("After.", "text", False),
        ("A long t", "image", True),
    ]  # fmt: skip
    assert (found[1].start, found[1].end, found[1].page) == (8, 8, 3)
    assert len(found) > 5
    assert all(chunk.image is None for chunk in found[5:])


def test_blank_documents_make_no_chunk() -> None:
    for chunker in (TokenChunker(), SentenceChunker(), HeadingChunker(), CodeChunker()):
        assert cut(chunker) == cut(chunker, Section(text=""), Section(text=" \n\t\n")) == []


def test_arguments_and_fingerprints() -> None:
    for make in (
        lambda: TokenChunker(32, 32),
        lambda: SentenceChunker(16, 20),
        lambda: HeadingChunker(32, smallest=32),
    ):
        with pytest.raises(ConfigurationError, match="less than size"):
            make()
    for wrong in (lambda: TokenChunker(4, 0), lambda: CodeChunker(size=2.5), lambda: HeadingChunker(True)):  # pyright: ignore[reportArgumentType]
        with pytest.raises(ConfigurationError, match="size must be a whole number >= 16"):
            wrong()
    with pytest.raises(ConfigurationError, match="count must be a function"):
        TokenChunker(count=3)  # pyright: ignore[reportArgumentType]
    made = [TokenChunker(), TokenChunker(128), TokenChunker(overlap=0), SentenceChunker(), TokenChunker(count=by_words)]
    assert len({each.fingerprint for each in made}) == len(made)
    assert TokenChunker().fingerprint == TokenChunker().fingerprint == "TokenChunker/1(384,48,0,estimated_tokens)"
    assert TokenChunker(count=EstimatedTokens().count_text).fingerprint == TokenChunker().fingerprint


def test_sections_are_asked_for_as_chunks_are_taken() -> None:
    asked: list[int] = []

    def sections() -> Iterator[Section]:
        for number in range(1000):
            asked.append(number)
            yield Section(text="Some words of a sentence. " * 100)

    async def main() -> None:
        async with TokenChunker(64, 0).chunk(DOCUMENT, from_iterable(sections())).buffered(1) as chunks:
            async for chunk in chunks:
                if chunk.number == 10:
                    break
        assert len(asked) < 10

    asyncio.run(main())


def test_an_error_of_the_sections_is_that_of_the_flow() -> None:
    broken: Flow[Section] = concat(
        from_iterable([Section(text="word " * 100)]), throw(DamagedDocumentError("d.txt", "it ends here"))
    )
    with pytest.raises(DamagedDocumentError, match="ends here"):
        TokenChunker(32, 0).chunk(DOCUMENT, broken).pipe(ops.to_list()).run()


def test_an_error_of_the_counter_is_that_of_the_flow() -> None:
    def broken(text: str) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cut(TokenChunker(count=broken), Section(text="words"))


def test_a_flow_of_chunks_can_be_subscribed_twice() -> None:
    chunks = TokenChunker(32, 4).chunk(DOCUMENT, from_iterable([Section(text="word " * 100)]))
    assert chunks.pipe(ops.to_list()).run() == chunks.pipe(ops.to_list()).run()
    assert TokenChunker().chunk(DOCUMENT, empty()).pipe(ops.to_list()).run() == []


def each_chunk(chunker: TokenChunker, sections: Iterable[Section]) -> Iterator[Chunk]:
    cutter = Cutter(DOCUMENT, chunker._rules())  # pyright: ignore[reportPrivateUsage]
    for section in sections:
        yield from cutter.take(section)
    yield from cutter.rest()


@pytest.mark.parametrize("part", ["x", "a. ", "\n"], ids=["one word", "stops", "empty lines"])
def test_time_grows_with_the_text_and_memory_does_not(part: str) -> None:
    """A line of megabytes costs as much for each chunk as a short one."""
    text = part * (100_000 // len(part)) + "x"

    def count() -> int:
        return sum(1 for _ in each_chunk(TokenChunker(), [Section(text=text)]))

    tracemalloc.start()
    try:
        assert in_cpu_time(count, 10) >= 1
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_default() -> None:
    chunker = default_chunker()
    assert isinstance(chunker, HeadingChunker)
    assert chunker.count is estimated_tokens
