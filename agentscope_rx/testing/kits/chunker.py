"""`check_chunker`: the laws of the `Chunker` port, over a document with headings, pages, a table, code and pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.document import Chunk, Document, Section
from agentscope_rx.messages import ImageBlock, URLSource
from agentscope_rx.reactive import Flow, concat, from_iterable, throw
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, equal, name_of, require
from agentscope_rx.testing.record import DroppedErrors

Make = Callable[[], Chunker]
DOCUMENT = Document(id="guide.md", title="A guide")
PICTURE = ImageBlock(URLSource("https://example.org/a.png"))
SECTIONS: tuple[Section, ...] = (
    Section(text="# Guide\n\nHow it is used.\n\n", headings=("Guide",), page=1),
    Section(text="The engine runs agents. Each has a model! " * 80 + "\n\n", headings=("Guide", "Engine"), page=1),
    Section(text="\n \n", headings=("Guide", "Empty"), page=2),
    Section(
        text="| name | age |\n|---|---|\n" + "| Ann | 7 |\n" * 120, headings=("Guide", "Table"), page=2, kind="table"
    ),
    Section(text="def one():\n    return 1\n\n\n" * 60, headings=("Guide", "Code"), kind="code", language="python"),
    Section(text="", kind="image", image=PICTURE, page=3),
    Section(text="知识库是存储和检索信息的系统。它有很多句子！" * 60, headings=("指南",), page=4),
    Section(text="e\u0301👍🏽" * 900 + "\r\n", headings=("Odd",), page=5),
    Section(text="A cat on a mat.", kind="image", image=PICTURE, page=6),
)
FEW = (SECTIONS[0], replace(SECTIONS[1], text=SECTIONS[1].text[:420]), SECTIONS[5])
TEXT = "".join(section.text for section in SECTIONS)


class _SectionsFailed(Exception):
    """What the sections of a document that cannot be read end with."""


def check_chunker(make: Make, *, ahead: int | None = 0, name: str | None = None, real_time: bool = False) -> KitReport:
    """Check the chunkers that `make` returns, with sections of several kinds and languages.

    `ahead` is the number of chunks that may still come after demand is withheld.
    """
    check_factory(make, "Chunker", "lambda: MyChunker()")
    kit = Kit(name or name_of(make), real_time=real_time)
    make = kit.named(make)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, make))

    def failing() -> Flow[Chunk]:
        return make().chunk(DOCUMENT, concat(from_iterable(FEW), throw(_SectionsFailed())))

    apply_rules(kit, Publisher(lambda: _chunks(make, FEW), failing, ahead), "chunk ")
    return kit.report()


def _chunks(make: Make, sections: Sequence[Section] = SECTIONS) -> Flow[Chunk]:
    return make().chunk(DOCUMENT, from_iterable(sections))


async def _cut(make: Make, sections: Sequence[Section] = SECTIONS) -> list[Chunk]:
    probe = await Probe().start(_chunks(make, sections)).end()
    require(probe.error is None, f"it failed: {probe.error!r}")
    for each in probe.values:
        require(isinstance(each, Chunk), f"it emitted {each!r:.100}, which is no Chunk")
    return [each for each in probe.values if isinstance(each, Chunk)]


async def _text(make: Make, dropped: DroppedErrors) -> None:
    for chunk in await _cut(make):
        equal(chunk.text, TEXT[chunk.start : chunk.end], f"the text of chunk {chunk.number}")


async def _numbers(make: Make, dropped: DroppedErrors) -> None:
    chunks = await _cut(make)
    equal([chunk.number for chunk in chunks], list(range(len(chunks))), "the numbers of the chunks")
    starts = [chunk.start for chunk in chunks]
    equal(starts, sorted(starts), "the beginnings of the chunks")
    require(all(chunk.document == DOCUMENT for chunk in chunks), "a chunk is of another document")


async def _complete(make: Make, dropped: DroppedErrors) -> None:
    covered = bytearray(len(TEXT))
    for chunk in await _cut(make):
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    missing = [at for at, character in enumerate(TEXT) if not covered[at] and not character.isspace()]
    for at in missing[:1]:
        require(False, f"{len(missing)} characters are in no chunk, the first of {TEXT[at : at + 30]!r} is one")


async def _origin(make: Make, dropped: DroppedErrors) -> None:
    for chunk in await _cut(make):
        if not chunk.text:
            continue
        section = _section_at(chunk.start)
        equal((chunk.page, chunk.kind), (section.page, section.kind), f"page and kind of chunk {chunk.number}")
        equal(chunk.headings[: len(section.headings)], section.headings, f"the headings of chunk {chunk.number}")


async def _images(make: Make, dropped: DroppedErrors) -> None:
    pictured = [chunk for chunk in await _cut(make) if chunk.image is not None]
    equal([chunk.image for chunk in pictured], [PICTURE, PICTURE], "the images of the chunks")
    equal([chunk.text for chunk in pictured], ["", "A cat on a mat."], "the texts of the chunks with images")


async def _blank(make: Make, dropped: DroppedErrors) -> None:
    for sections in ((), (Section(text=""),), (Section(text=" \n\t"), Section(text="\n\n"))):
        equal(await _cut(make, sections), [], f"the chunks of {sections!r:.100}")


async def _again(make: Make, dropped: DroppedErrors) -> None:
    equal(await _cut(make), await _cut(make), "the chunks of a second chunker")
    equal(make().fingerprint, make().fingerprint, "the fingerprint of a second chunker")
    require(bool(make().fingerprint), "the fingerprint is empty")
    chunker = make()
    first = await _cut(lambda: chunker)
    equal(await _cut(lambda: chunker), first, "the chunks of a second document")


def _section_at(position: int) -> Section:
    end = 0
    for section in SECTIONS:
        end += len(section.text)
        if position < end:
            return section
    return SECTIONS[-1]


LAWS = (
    ("text", "a chunk's text is the document's from its start to its end", _text),
    ("numbers", "chunks are numbered from 0, in order", _numbers),
    ("complete", "every character that is not blank is in a chunk", _complete),
    ("origin", "page, kind and headings are those of the section of its first character", _origin),
    ("images", "a section with an image makes one chunk with it", _images),
    ("blank", "sections without text or image make no chunk", _blank),
    ("again", "the same options give the same chunks and the same fingerprint", _again),
)
