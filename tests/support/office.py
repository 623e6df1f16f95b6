"""Documents that tests make: PDF by hand, the others with the libraries that read them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import docx
import openpyxl
import pptx
import pypdf

WORD = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
"""The beginning of a Word document's part."""


def pdf(pages: Sequence[str], *, title: str = "", headings: Sequence[tuple[int, str]] = ()) -> bytes:
    """A PDF whose pages have these texts (ASCII); `headings` is the outline: index of the page, text."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(count))
    objects = [
        "<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for index, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {5 + 2 * index} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>"
        )
        objects.append(stream(f"BT /F1 12 Tf 72 720 Td {lines} ET"))
    data = pdf_of(objects)
    if not title and not headings:
        return data
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    if title:
        writer.add_metadata(infos={"/Title": title})
    for index, heading in headings:
        writer.add_outline_item(title=heading, page_number=index)
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def stream(content: str | bytes, more: str = "") -> bytes:
    """The object of a stream."""
    data = content.encode() if isinstance(content, str) else content
    return f"<</Length {len(data)}{more}>>stream\n".encode() + data + b"\nendstream"


def pdf_of(objects: Sequence[str | bytes]) -> bytes:
    """A PDF of these objects, numbered from 1; the first is its catalog."""
    data = b"%PDF-1.7\n"
    offsets: list[int] = []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n".encode() + (each.encode() if isinstance(each, str) else each) + b"\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF"
    )
    return data + end.encode()


def word() -> bytes:
    """A Word document with a title, two headings, a paragraph below each, and a table."""
    document = docx.Document()
    document.core_properties.title = "Handbook"
    document.add_heading("Tickets", 1)
    document.add_paragraph("A ticket costs three euros.")
    table = document.add_table(rows=2, cols=2)
    for row, cells in enumerate((("zone", "price"), ("A", "3"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    document.add_heading("Refunds", 2)
    document.add_paragraph("Ask within 14 days.")
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def slides() -> bytes:
    """A presentation of two slides; the first has notes, the second a table and a text in a group."""
    presentation = pptx.Presentation()
    first = presentation.slides.add_slide(presentation.slide_layouts[1])
    first.shapes.title.text = "Plan"
    first.placeholders[1].text = "Build it."
    first.notes_slide.notes_text_frame.text = "Say why."
    second = presentation.slides.add_slide(presentation.slide_layouts[5])
    second.shapes.title.text = "Costs"
    table = second.shapes.add_table(2, 2, 0, 0, 100, 100).table
    for row, cells in enumerate((("item", "euros"), ("tea", "2"))):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    box = second.shapes.add_group_shape().shapes.add_textbox(0, 0, 100, 100)
    box.text_frame.text = "In a group."
    file = io.BytesIO()
    presentation.save(file)
    return file.getvalue()


def workbook(*sheets: tuple[str, Sequence[Sequence[object]]]) -> bytes:
    """A workbook of sheets with these names and rows."""
    book = openpyxl.Workbook()
    book.remove(book.worksheets[0])
    for name, rows in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def with_member(archive: bytes, name: str, data: bytes) -> bytes:
    """The zip archive with this member in the place of the one of its name."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.namelist():
            if each != name:
                new.writestr(each, old.read(each))
        new.writestr(name, data)
    return file.getvalue()
