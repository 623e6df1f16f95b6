"""PPTX by python-pptx: each slide with its title, texts, tables and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pptx
from pptx.exc import PythonPptxError
from pptx.shapes.base import BaseShape
from pptx.shapes.graphfrm import GraphicFrame
from pptx.shapes.group import GroupShape
from pptx.slide import Slide
from pptx.table import Table

from agentscope_rx.knowledge.readers.formats.parts import FormatError, Outline, Part, cut, table_parts
from agentscope_rx.knowledge.readers.formats.zips import check_zip


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a presentation, slide by slide."""
    check_zip(file, unpacked, "[Content_Types].xml")
    try:
        presentation = pptx.Presentation(file)
    except (PythonPptxError, KeyError, ValueError) as error:
        raise FormatError("it is no presentation") from error
    title = presentation.core_properties.title
    for number, slide in enumerate(presentation.slides, 1):
        yield from _slide(slide, number, "" if title == "PowerPoint Presentation" else title)


def _slide(slide: Slide, number: int, title: str) -> Iterator[Part]:
    outline = Outline(title)
    named = slide.shapes.title
    if named is not None and named.has_text_frame:
        outline.enter(1, named.text_frame.text)
    texts: list[str] = []
    tables: list[Table] = []
    for shape in _shapes(slide):
        if shape.has_text_frame:
            text = getattr(shape, "text_frame").text.replace("\v", "\n").strip()  # noqa: B009
            texts += [text] if text else []
        elif isinstance(shape, GraphicFrame) and shape.has_table:
            tables.append(shape.table)
    if texts:
        yield from cut(Part("\n\n".join(texts) + "\n\n", number, outline.headings))
    for table in tables:
        rows = ([cell.text for cell in row.cells] for row in table.rows)
        yield from table_parts(rows, number, outline.headings)
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text.strip():
        yield from cut(Part(f"Notes: {frame.text.strip()}\n\n", number, outline.headings))


def _shapes(slide: Slide) -> Iterator[BaseShape]:
    """All shapes, also those in groups, in order."""
    pending = [*reversed(list(slide.shapes))]
    while pending:
        shape = pending.pop()
        if isinstance(shape, GroupShape):
            pending += reversed(list(shape.shapes))
        else:
            yield shape
