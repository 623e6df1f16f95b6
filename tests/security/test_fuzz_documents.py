"""Damaged documents of each format: sections that keep the law of positions, or a `DocumentError`; no child is left."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import DocumentError
from agentscope_rx.knowledge import Document, ReadLimits, Section, default_chunker, default_readers, reader_of
from agentscope_rx.reactive import from_iterable
from agentscope_rx.testing import run_virtual
from tests.knowledge.readers.reading import read
from tests.knowledge.readers.test_parsed import children
from tests.support.office import pdf, slides, word, workbook

pytestmark = pytest.mark.fuzz

MIB = 2**20
LIMITS = ReadLimits(size=4 * MIB, text=4 * MIB, unpacked=32 * MIB, memory=512 * MIB, seconds=20.0)
READERS = default_readers(limits=LIMITS)
LONGEST = 256 * 1024
"""The characters of the longest section, which is one of code."""

MARKDOWN = "---\ntitle: A\n---\n# One\n\ntext [a](b) `c`\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
PAGE = "<html><head><title>T</title></head><body><h1>A</h1><p>b<table><tr><td>1<td>2<tr><td>3<td>4</table><pre>x"
TEXTS: dict[str, bytes] = {
    "a.md": (MARKDOWN * 3).encode(),
    "a.txt": "Ein Café.\r\n\r\n中文。 العربية\n".encode() * 9,
    "a.csv": 'name,"price, in €"\n"a ""b""",1\n\nc,2\n'.encode() * 9,
    "a.py": b"class A:\n    def f(self):\n        return '''x'''\n\n\n" * 9,
}
PARSED: dict[str, Callable[[], bytes]] = {
    "a.html": (PAGE * 3).encode,
    "a.pdf": lambda: pdf(["one", "two"], title="T", headings=[(0, "A"), (1, "B")]),
    "a.docx": word,
    "a.pptx": slides,
    "a.xlsx": lambda: workbook(("S", [["a", "b"], [1, "x"]])),
}
SNIPPETS: tuple[bytes, ...] = (
    b"\0", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f", b"\x1b]0;x\x07", b"\r", b"\x0c",
    b'"', b'""', b"'", b"```", b"~~~~", b"---\n", b"|", b"# ", b"####### ", b"\t", b"\n" * 400, b" " * 3000,
    b"[" * 3000,
    b"<div>" * 3000, b"<table><tr>" * 900, b"<!--", b"<![CDATA[", b"&#xD800;", b"&#0;", b"<h1>", b"<pre>", b"</pre>",
    b"<p " + b"a" * 9000 + b"='x'>", b"<!DOCTYPE a [<!ENTITY e 'x'>]>", b"<meta charset=utf-7>",
    b"<meta charset=rot13>",
    b"1 0 R", b"99999999999 0 R", b"/Length -1", b"/Length 9999999999", b"/Kids[1 0 R]", b"<</A<</A<</A", b"[[[[" * 500,
    b"endobj", b"endstream", b"/Filter/FlateDecode", b"/Filter[/LZWDecode/ASCII85Decode]", b"/Prev 0", b"xref",
    b"-9" * 40, b"1e999", b"NaN", b"PK\x05\x06", b"PK\x01\x02", b"\xff\xff\xff\xff", b"\x80" * 5,
)  # fmt: skip


def damaged(data: bytes, source: random.Random) -> bytes:
    """The bytes with a few changes: of single bytes, of ranges, with snippets that mean something to a parser."""
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 3, 8, 30))):
        at = source.randrange(len(changed) + 1)
        end = min(len(changed), at + source.choice((1, 2, 16, 400)))
        match source.randrange(6):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << source.randrange(8)
            case 1:
                changed[at:end] = source.randbytes(end - at)
            case 2:
                del changed[at:end]
            case 3:
                changed[at:at] = changed[at:end] * source.choice((1, 2, 50))
            case 4:
                changed[at:at] = source.choice(SNIPPETS)
            case _:
                changed[at:end] = source.choice(SNIPPETS)[: end - at]
    return bytes(changed[: source.randrange(len(changed) + 1)] if not source.randrange(8) else changed)


def damaged_archive(data: bytes, source: random.Random) -> bytes:
    """The archive with damaged, exchanged, missing, repeated or renamed members; the archive itself is whole."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = source.choice([each for each in names if each.endswith((".xml", ".rels"))])
        for name in names:
            content = old.read(name)
            if name == chosen:
                match source.randrange(8):
                    case 0:
                        continue
                    case 1:
                        content = old.read(source.choice(names))
                    case 2:
                        name = f"../{name}"
                    case 3:
                        content = content.replace(b"1", str(source.choice((-1, 2**31, 2**64, 10**30))).encode())
                    case _:
                        content = damaged(content, source)
            new.writestr(name, content)
    return file.getvalue()


def check(name: str, data: bytes) -> None:
    """Sections with the law of positions (`read` checks it) and chunks of them, or a `DocumentError`."""
    try:
        found = read(reader_of(name, READERS), name, data)
    except DocumentError as error:
        # (what a terminal and a log can show)
        str(error).encode()
        return
    for each in found:
        assert 0 < len(each.text) <= LONGEST
        assert all(len(heading) <= 200 for heading in each.headings)
        for text in (each.text, each.language, *each.headings):
            assert "\0" not in text
            text.encode()
    run_virtual(check_chunks(name, found))


async def check_chunks(name: str, found: list[Section]) -> None:
    text = "".join(each.text for each in found)
    chunker = default_chunker()
    async for chunk in chunker.chunk(Document(id=name), from_iterable(found)):
        assert chunk.text.strip() and chunk.text in text[chunk.start : chunk.end]


@cache
def whole(name: str) -> bytes:
    return PARSED[name]()


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    yield
    assert children() == []


seeds = st.integers(min_value=0, max_value=2**64)
FEW = settings(max_examples=max(2, settings().max_examples // 20))
"""Most of these documents need a child process of their own."""


@pytest.mark.parametrize("name", TEXTS)
@given(seed=seeds)
def test_a_damaged_text_is_read_or_refused(name: str, seed: int):
    check(name, damaged(TEXTS[name], random.Random(seed)))


@pytest.mark.parametrize("name", PARSED)
@FEW
@given(seed=seeds)
def test_a_damaged_document_is_read_or_refused(name: str, seed: int):
    source = random.Random(seed)
    archive = name.endswith("x") and source.randrange(4)
    check(name, damaged_archive(whole(name), source) if archive else damaged(whole(name), source))
