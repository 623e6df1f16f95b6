"""Documents that are made to harm end in typed errors, within bounds of memory and time."""

from __future__ import annotations

import io
import resource
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import (
    DamagedDocumentError,
    DocumentError,
    DocumentTimeoutError,
    DocumentTooLargeError,
)
from agentscope_rx.knowledge import DocxReader, HtmlReader, PdfReader, PptxReader, Reader, ReadLimits, XlsxReader
from agentscope_rx.knowledge.readers.formats.parts import FormatError, LimitError
from agentscope_rx.knowledge.readers.formats.zips import check_zip
from tests.knowledge.readers.reading import read
from tests.knowledge.readers.test_parsed import children
from tests.support.office import WORD, pdf, pdf_of, slides, stream, with_member, word, workbook

MIB = 2**20
SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
CIRCLE = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 9>>",
    "<</Type/Pages/Kids[2 0 R]/Count 1>>",
]
FONT = "/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    yield
    assert children() == []


def with_entities(archive: bytes, name: str, begin: bytes) -> bytes:
    """The part of the archive with a DTD whose entities grow ten times with each, in UTF-16."""
    entities = "".join(f'<!ENTITY e{each} "{f"&e{each - 1};" * 10}">' for each in range(1, 9))
    text = f'<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a [<!ENTITY e0 "ha">{entities}]>{begin.decode()}&e8;'
    return with_member(archive, name, text.encode("utf-16"))


def sheet(rows: bytes) -> bytes:
    book = workbook(("S", [["a"]]))
    return with_member(book, "xl/worksheets/sheet1.xml", SHEET + rows + b"</sheetData></worksheet>")


def page(content: bytes, more: str) -> bytes:
    return pdf_of(
        [
            "<</Type/Catalog/Pages 2 0 R>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R{FONT}>>",
            stream(content, more),
        ]
    )


def locked() -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(["secret"])))
    writer.encrypt("key", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


DAMAGED: dict[str, tuple[type[Reader], Callable[[], bytes], str]] = {
    "docx-cut-off": (DocxReader, lambda: word()[:-3000], "zip archive is damaged"),
    "docx-that-is-xlsx": (DocxReader, lambda: workbook(("S", [["a"]])), "no Word document"),
    "docx-entities": (DocxReader, lambda: with_entities(word(), "word/document.xml", WORD), "has a DTD"),
    "docx-deep": (DocxReader, lambda: with_member(word(), "word/document.xml", WORD + b"<w:p>" * 900), "parser failed"),
    "docx-encrypted": (DocxReader, lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "encrypted"),
    "pptx-cut-off": (PptxReader, lambda: slides()[:5000], "zip archive is damaged"),
    "xlsx-entities": (XlsxReader, lambda: with_entities(sheet(b""), "xl/worksheets/sheet1.xml", SHEET), "has a DTD"),
    "xlsx-column": (XlsxReader, lambda: sheet(b'<row><c r="ZZZZZZ1"><v>1</v></c></row>'), "not a valid column"),
    "pdf-empty": (PdfReader, lambda: b"", "no PDF"),
    "pdf-cut-off": (PdfReader, lambda: pdf(["one", "two"])[:-200], "damaged"),
    "pdf-pages-in-a-circle": (PdfReader, lambda: pdf_of(CIRCLE), "cyclic"),
    "pdf-encrypted": (PdfReader, locked, "needs a password"),
    "html-deep": (HtmlReader, lambda: b"<div>" * 100_000, "nested too deeply"),
    "html-that-is-none": (HtmlReader, lambda: bytes(range(256)), "no HTML"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_a_broken_document_is_damaged(name: str):
    reader, make, what = DAMAGED[name]
    with pytest.raises(DamagedDocumentError, match=what):
        read(reader(), name, make())


def test_a_zip_bomb_is_refused_before_it_is_unpacked():
    bomb = with_member(word(), "word/media/a.bin", bytes(40 * MIB))
    with pytest.raises(DocumentTooLargeError, match=r"unpacks to 4\d,\d{3},\d{3} bytes") as caught:
        read(DocxReader(limits=ReadLimits(unpacked=16 * MIB)), "a.docx", bomb)
    assert caught.value.limit == "unpacked" and len(bomb) < MIB


def test_a_zip_that_lies_about_its_size_is_damaged():
    honest = with_member(word(), "word/document.xml", b"<a>" + b"x" * 100_000 + b"</a>")
    size = (100_007).to_bytes(4, "little")
    lie = honest.replace(size, (50).to_bytes(4, "little"))
    assert lie != honest
    with pytest.raises(DamagedDocumentError):
        read(DocxReader(), "a.docx", lie)


def test_a_pdf_stream_that_unpacks_to_much_is_too_large():
    bomb = page(zlib.compress(b" " * 80 * MIB, 1), "/Filter/FlateDecode")
    with pytest.raises(DocumentTooLargeError) as caught:
        read(PdfReader(), "a.pdf", bomb)
    assert caught.value.limit == "unpacked"


def test_an_outline_in_a_circle_has_no_end_but_its_pages_do():
    found = read(
        PdfReader(),
        "a.pdf",
        pdf_of(
            [
                "<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
                "<</Type/Pages/Kids[3 0 R]/Count 1>>",
                f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 6 0 R{FONT}>>",
                "<</First 5 0 R/Last 5 0 R>>",
                "<</Title(x)/Dest[3 0 R/Fit]/Next 5 0 R/First 5 0 R/Parent 4 0 R>>",
                stream("BT /F1 9 Tf (text) Tj ET"),
            ]
        ),
    )
    assert [each.text.strip() for each in found] == ["text"]


def test_a_parser_that_takes_too_much_memory_is_stopped():
    large = with_member(
        word(), "word/document.xml", WORD + b"<w:p><w:r/></w:p>" * 1_500_000 + b"</w:body></w:document>"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DocumentTooLargeError, match=r"ReadLimits\.memory"):
        read(DocxReader(limits=ReadLimits(memory=256 * MIB)), "a.docx", large)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_a_parser_that_takes_too_long_is_stopped():
    # 300,000,000 empty cells in a few KB
    wide = sheet(b'<row><c r="XFD1"><v>1</v></c></row>' * 20_000)
    with pytest.raises(DocumentTimeoutError, match=r"longer than 0\.3 s"):
        read(XlsxReader(limits=ReadLimits(seconds=0.3)), "a.xlsx", wide)


def test_a_sheet_may_say_that_it_has_any_size():
    book = workbook(("S", [["a", "b"], [1, 2]]))
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        xml = archive.read("xl/worksheets/sheet1.xml")
    large = with_member(book, "xl/worksheets/sheet1.xml", xml.replace(b'ref="A1:B2"', b'ref="A1:XFD1048576"'))
    assert [each.text for each in read(XlsxReader(), "a.xlsx", large)] == ["a: 1; b: 2\n\n"]


def test_rows_without_end_are_too_many():
    far = sheet(b'<row r="1"><c r="A1"><v>1</v></c></row><row r="99999999999"><c r="A99999999999"><v>1</v></c></row>')
    with pytest.raises(DocumentTooLargeError) as caught:
        read(XlsxReader(), "a.xlsx", far)
    assert caught.value.limit == "rows"


def test_html_reads_no_file_and_runs_no_script():
    hostile = (
        b'<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><body onload="steal()">&x;<script>steal()</script>'
        b'<iframe src="file:///etc/passwd"></iframe><object data="file:///etc/passwd"></object>ok &#xD800;&#0;'
    )
    (found,) = read(HtmlReader(), "a.html", hostile)
    assert "root:" not in found.text and "steal" not in found.text and "ok \ufffd\ufffd" in found.text
    found.text.encode()


@settings(max_examples=25)
@given(st.data())
def test_a_changed_archive_never_fails_in_another_way(data: st.DataObject):
    archive = bytearray(_SMALL)
    for _ in range(data.draw(st.integers(1, 8))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    try:
        check_zip(io.BytesIO(bytes(archive)), MIB, "[Content_Types].xml")
    except (FormatError, LimitError):
        return


_SMALL = workbook(("S", [["a", "b"], [1, 2]]))
_CHANGES = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=6)


@pytest.mark.parametrize(("reader", "make"), [(PdfReader, partial(pdf, ["one", "two"])), (XlsxReader, lambda: _SMALL)])
def test_a_changed_document_is_read_or_a_document_error(reader: type[Reader], make: Callable[[], bytes]):
    @settings(max_examples=3)
    @given(_CHANGES)
    def changed(changes: list[tuple[int, int]]) -> None:
        data = bytearray(make())
        for at, byte in changes:
            data[at % len(data)] = byte
        try:
            read(reader(), "a", bytes(data))
        except DocumentError:
            return

    changed()
