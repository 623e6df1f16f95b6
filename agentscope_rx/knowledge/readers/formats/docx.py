"""DOCX by python-docx: paragraphs under their headings, and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import docx
from docx.document import Document
from docx.opc.exceptions import OpcError
from docx.table import Table

from agentscope_rx.knowledge.readers.formats.parts import FormatError, Outline, Part, cut, table_parts
from agentscope_rx.knowledge.readers.formats.zips import check_zip

_LEVELS = 9


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a Word document, in order."""
    check_zip(file, unpacked, "[Content_Types].xml")
    try:
        document = docx.Document(file)
    except (OpcError, KeyError, ValueError) as error:
        raise FormatError("it is no Word document") from error
    levels = _levels(document)
    outline = Outline(document.core_properties.title)
    lines: list[str] = []
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            yield from _text(lines, outline)
            yield from table_parts(_rows(block), None, outline.headings)
            continue
        text = block.text.strip()
        level = levels.get(block._p.style or "")
        if not text:
            continue
        if level is not None:
            yield from _text(lines, outline)
            if level == 0:
                outline.title = " ".join(text.split())[:200]
            else:
                outline.enter(level, text)
        lines.append(text)
    yield from _text(lines, outline)


def _text(lines: list[str], outline: Outline) -> Iterator[Part]:
    if lines:
        yield from cut(Part("\n\n".join(lines) + "\n\n", None, outline.headings))
        lines.clear()


def _rows(table: Table) -> Iterator[list[str]]:
    # (python-docx's `row.cells` takes time that grows with the square of the table)
    for row in table._tbl.tr_lst:
        yield ["\n".join("".join(p.text for p in cell.p_lst).split("\n")) for cell in row.tc_lst]


def _levels(document: Document) -> dict[str, int]:
    """The level of each style that is a heading, by the style's id; the title's is 0."""
    found: dict[str, int] = {}
    for style in document.styles:
        name = (style.name or "").lower()
        if name == "title":
            found[style.style_id] = 0
        elif name.startswith("heading ") and name[8:].isdigit() and 1 <= int(name[8:]) <= _LEVELS:
            found[style.style_id] = int(name[8:])
    return found
