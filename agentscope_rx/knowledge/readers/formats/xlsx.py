"""XLSX by openpyxl, read row by row: each sheet is a page, each row a line `name: value; name: value`."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import BinaryIO

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

from agentscope_rx.knowledge.readers.formats.parts import FormatError, LimitError, Outline, Part, record_parts
from agentscope_rx.knowledge.readers.formats.zips import check_zip

_ROWS = 1_048_576
"""The rows that a sheet can have."""


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a workbook, sheet by sheet."""
    check_zip(file, unpacked, "[Content_Types].xml")
    try:
        # (values, and not the formulas that they were computed by)
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    except (InvalidFileException, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"it is no workbook ({error})") from error
    title = book.properties.title or ""
    for number, sheet in enumerate(book.worksheets, 1):
        outline = Outline(title)
        outline.enter(1, sheet.title)
        # what a file says of its size is not trusted: rows would be filled up to it
        sheet.reset_dimensions()  # pyright: ignore[reportAttributeAccessIssue]
        rows = sheet.iter_rows(values_only=True)
        yield from record_parts(_texts(rows), number, outline.headings)


def _texts(rows: Iterator[tuple[object, ...]]) -> Iterator[list[str]]:
    for number, row in enumerate(rows, 1):
        if number > _ROWS:
            raise LimitError(f"a sheet has more rows than the {_ROWS:,} that are possible", "rows")
        yield [_text(value) for value in row]


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case datetime.datetime() if value.time() == datetime.time():
            return value.date().isoformat()
        case datetime.datetime():
            return value.isoformat(" ")
        case _:
            return str(value)
