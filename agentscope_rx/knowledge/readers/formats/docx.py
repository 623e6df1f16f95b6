"""DOCX by python-docx: paragraphs under their headings, and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, cast

import docx
from docx.document import Document
from docx.opc.exceptions import OpcError

from agentscope_rx.knowledge.readers.formats.elements import Element
from agentscope_rx.knowledge.readers.formats.parts import FormatError, Outline, Part, cut, table_parts
from agentscope_rx.knowledge.readers.formats.zips import check_zip

_LEVELS = 9
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_PARAGRAPH, _TABLE, _TEXT = f"{_W}p", f"{_W}tbl", f"{_W}t"
_WRAPPERS = frozenset(f"{_W}{name}" for name in ("sdt", "sdtContent", "ins", "customXml", "smartTag"))
_SPACES = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-"}
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"


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
    for block in _blocks(document):
        if block.tag == _TABLE:
            yield from _text(lines, outline)
            yield from table_parts(_rows(block), None, outline.headings)
            continue
        text = _content(block).strip()
        if not text:
            continue
        style = block.find(f"{_W}pPr/{_W}pStyle")
        level = None if style is None else levels.get(style.get(f"{_W}val") or "")
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


def _blocks(document: Document) -> Iterator[Element]:
    """The paragraphs and tables of the body, also those in content controls, which python-docx leaves out."""
    pending = [*reversed(cast("Element", document.element.body))]
    while pending:
        each = pending.pop()
        if each.tag in (_PARAGRAPH, _TABLE):
            yield each
        elif each.tag in _WRAPPERS:
            pending += reversed(each)


def _content(block: Element) -> str:
    """The text of a paragraph or cell, with inserted and without deleted text; text boxes count once."""
    found: list[str] = []
    pending = [*reversed(block)]
    while pending:
        each = pending.pop()
        if each.tag == _TEXT:
            found.append(each.text or "")
        elif (space := _SPACES.get(str(each.tag))) is not None:
            found.append(space)
        elif each.tag == _FALLBACK:
            # the same once more, for older programs
            continue
        else:
            if each.tag == _PARAGRAPH and found:
                found.append("\n")
            pending += reversed(each)
    return "".join(found)


def _rows(table: Element) -> Iterator[list[str]]:
    # (python-docx's `row.cells` takes time that grows with the square of the table)
    for row in table.iterchildren(f"{_W}tr"):
        yield [_content(cell) for cell in row.iterchildren(f"{_W}tc")]


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
