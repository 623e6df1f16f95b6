"""`CsvReader`: comma-separated and tab-separated values."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from agentscope_rx.errors import DocumentTooLargeError
from agentscope_rx.knowledge.document import DocumentSource
from agentscope_rx.knowledge.readers.formats.parts import Part, record_parts
from agentscope_rx.knowledge.readers.limits import MIB
from agentscope_rx.knowledge.readers.text import StreamReader
from agentscope_rx.knowledge.readers.text_file import lines_of, text_of

ROW = MIB
"""The characters that one row may have; an open quotation mark makes one row of all that follows."""
_COMMON = ",;\t|"


class CsvReader(StreamReader):
    """Reads CSV and TSV. Each row becomes a line `name: value; name: value` by the names of the first row.

    The separator is the one of comma, semicolon, tab and vertical bar that the first line has most of; tab for `.tsv`.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".tab")
    media_types: ClassVar[tuple[str, ...]] = ("text/csv", "text/tab-separated-values")

    def parts(self, file: BinaryIO, source: DocumentSource) -> Iterator[Part]:
        """The rows in parts of about 1,000 characters."""
        return record_parts(_rows(text_of(file, source.document.id, self.encoding), source))


def _rows(pieces: Iterator[str], source: DocumentSource) -> Iterator[list[str]]:
    rows = _Rows(pieces, source.document.id)
    first = next(rows, None)
    if first is None:
        return
    name = (source.document.id if source.path is None else source.path.name).lower()
    tabs = name.endswith((".tsv", ".tab")) or source.document.media_type == "text/tab-separated-values"
    separator = "\t" if tabs else max(_COMMON, key=first.count)
    rows.back = first
    reader = csv.reader(rows, delimiter=separator)
    try:
        for row in reader:
            rows.size = 0
            yield row
    except csv.Error as error:
        # the module's own limit of a field, which is one for the whole process
        raise _too_large(source.document.id) from error


class _Rows:
    """The lines for the parser of rows, with a limit on those that it takes for one row."""

    def __init__(self, pieces: Iterator[str], document: str) -> None:
        self._lines = lines_of(pieces, ROW)
        self._document = document
        self.size = 0
        self.back: str | None = None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line, self.back = self.back, None
        if line is None:
            line = next(self._lines)
        self.size += len(line)
        if self.size > ROW:
            raise _too_large(self._document)
        return line


def _too_large(document: str) -> DocumentTooLargeError:
    return DocumentTooLargeError(document, f"a row or field of it is too large (a row: {ROW:,} characters)", "row")
