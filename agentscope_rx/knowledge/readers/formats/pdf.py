"""PDF by pypdf: each page, under the headings of the outline. pypdf has limits of its own: 75 MB for a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pypdf
from pypdf.errors import DependencyError, LimitReachedError, PyPdfError
from pypdf.generic import Destination

from agentscope_rx.knowledge.readers.formats.parts import FormatError, LimitError, Outline, Part, cut

_ENTRIES = 10_000
"""The entries of an outline that are read."""


def parts(file: BinaryIO, unpacked: int) -> Iterator[Part]:
    """The parts of a PDF, page by page."""
    if b"%PDF-" not in file.read(1024):
        raise FormatError("it is no PDF: it does not begin as one")
    file.seek(0)
    try:
        yield from _pages(pypdf.PdfReader(file, strict=False))
    except LimitReachedError as error:
        raise LimitError(f"its parser has stopped at a limit ({error})", "unpacked") from error
    except PyPdfError as error:
        raise FormatError(f"it is damaged ({error})") from error


def _pages(reader: pypdf.PdfReader) -> Iterator[Part]:
    if reader.is_encrypted:
        _decrypt(reader)
    headings = _headings(reader)
    outline = Outline(_title(reader))
    for number, page in enumerate(reader.pages, 1):
        first, *others = headings.get(number) or [(0, "")]
        if first[1]:
            outline.enter(*first)
        text = page.extract_text().strip()
        if text:
            yield from cut(Part(text + "\n\n", number, outline.headings))
        # (they begin somewhere on this page, and are above all of the next)
        for level, heading in others:
            outline.enter(level, heading)


def _decrypt(reader: pypdf.PdfReader) -> None:
    try:
        # (many have an empty password: they can be read by all, and forbid printing or copying)
        found = reader.decrypt(password="")
    except (DependencyError, NotImplementedError) as error:
        raise FormatError(f"it is encrypted ({error})") from error
    if not found:
        raise FormatError("it is encrypted, and needs a password")


def _title(reader: pypdf.PdfReader) -> str:
    try:
        return (reader.metadata.title if reader.metadata is not None else "") or ""
    except (PyPdfError, ValueError, TypeError, KeyError, AttributeError):
        # a document without its title can be read
        return ""


def _headings(reader: pypdf.PdfReader) -> dict[int, list[tuple[int, str]]]:
    """The entries of the outline, each with its level, by the page that they lead to."""
    found: dict[int, list[tuple[int, str]]] = {}
    try:
        pages = {
            page.indirect_reference.idnum: number
            for number, page in enumerate(reader.pages, 1)
            if page.indirect_reference is not None
        }
        pending: list[tuple[int, Sequence[object]]] = [(1, reader.outline)]
        count = 0
        while pending and count < _ENTRIES:
            level, entries = pending.pop()
            for index, entry in enumerate(entries):
                if isinstance(entry, list):
                    pending += [(level, entries[index + 1 :]), (level + 1, entry)]
                    break
                count += 1
                if isinstance(entry, Destination) and entry.page is not None:
                    number = pages.get(getattr(entry.page, "idnum", -1))
                    if number is not None:
                        found.setdefault(number, []).append((level, str(entry.title)))
    except (PyPdfError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # a document with a damaged outline can be read
        return {}
    return found
