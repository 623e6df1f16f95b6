"""Readers whose parsers run in a child process: HTML, PDF, DOCX, PPTX and XLSX.

    DocumentSource --bytes, by a pipe--> child: limits, then the parser --sections, by a pipe--> Flow[Section]

Such a document is a program for its parser, and some are written to break it. The child has limits of memory and
processor time, can write no file, and is killed when its time is over or the subscription is disposed. The pipe holds
the parser back while no section is asked for.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from threading import Event
from typing import ClassVar

from agentscope_rx.errors import MissingExtraError
from agentscope_rx.knowledge.document import DocumentSource, Section
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.readers.limits import DEFAULT_LIMITS, ReadLimits
from agentscope_rx.knowledge.readers.opening import opened, sections
from agentscope_rx.knowledge.readers.parser_pool import PARSERS
from agentscope_rx.knowledge.readers.parser_process import ParserProcess
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, Outcome, iterate_on_worker, just, on_worker, using

END_SECONDS = 5.0
"""How long the end of a disposed reading is waited for."""


class ParserReader(Reader):
    """Reads documents of one format by a parser in a child process."""

    format: ClassVar[str]
    """The module of the parser, in `formats`."""
    packages: ClassVar[dict[str, str]]
    """The packages that it needs, by the names of their modules."""

    def __init__(self, *, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits

    def read(self, source: DocumentSource) -> Flow[Section]:
        """The document is sent to a child process, which parses as far as sections are asked for.

        Signals: sections; a `DocumentError`; `MissingExtraError` without its packages (the extra `documents`);
        `SetupError` if its parser does not start.
        Cancels: the parsing; the child is killed.
        """
        return using(
            lambda: just(_Reading(self, source)),
            lambda reading: iterate_on_worker(reading.sections, ENGINE_WORKERS),
            lambda reading, outcome: on_worker(reading.wait, ENGINE_WORKERS) if outcome is Outcome.DISPOSED else None,
            on_dispose=lambda reading: reading.end(),
        )

    def check_packages(self) -> None:
        """`MissingExtraError` if a package is not installed."""
        for module, package in self.packages.items():
            if find_spec(module) is None:
                raise MissingExtraError(package, "documents")


class HtmlReader(ParserReader):
    """Reads the visible parts of HTML pages: text under its headings, tables, code. Scripts are never run.

    Navigation, forms, comments and hidden elements are left out. The page's title is the outermost heading.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")
    media_types: ClassVar[tuple[str, ...]] = ("text/html", "application/xhtml+xml")
    format: ClassVar[str] = "html"
    packages: ClassVar[dict[str, str]] = {"lxml": "lxml"}


class PdfReader(ParserReader):
    """Reads the text of PDFs, page by page; the headings are those of the outline. Pictures of text have no text."""

    suffixes: ClassVar[tuple[str, ...]] = (".pdf",)
    media_types: ClassVar[tuple[str, ...]] = ("application/pdf",)
    format: ClassVar[str] = "pdf"
    packages: ClassVar[dict[str, str]] = {"pypdf": "pypdf"}


class DocxReader(ParserReader):
    """Reads Word documents: paragraphs under headings by their styles, and tables. Pages are not in the file."""

    suffixes: ClassVar[tuple[str, ...]] = (".docx", ".docm")
    media_types: ClassVar[tuple[str, ...]] = (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    )
    format: ClassVar[str] = "docx"
    packages: ClassVar[dict[str, str]] = {"docx": "python-docx"}


class PptxReader(ParserReader):
    """Reads presentations: slides are pages, with their titles as headings; texts, tables and notes."""

    suffixes: ClassVar[tuple[str, ...]] = (".pptx", ".pptm")
    media_types: ClassVar[tuple[str, ...]] = (
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    )
    format: ClassVar[str] = "pptx"
    packages: ClassVar[dict[str, str]] = {"pptx": "python-pptx"}


class XlsxReader(ParserReader):
    """Reads workbooks: sheets are pages. Each row becomes a line `name: value; name: value` by the first row's names.

    Values are those that the program has saved; formulas are not computed.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".xlsx", ".xlsm")
    media_types: ClassVar[tuple[str, ...]] = ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",)
    format: ClassVar[str] = "xlsx"
    packages: ClassVar[dict[str, str]] = {"openpyxl": "openpyxl"}


class _Reading:
    """One reading of a document: a generator on worker threads, and its end from any thread."""

    def __init__(self, reader: ParserReader, source: DocumentSource) -> None:
        self._reader = reader
        self._source = source
        self._parser: ParserProcess | None = None
        self._left = False
        self._closed = Event()
        self._closed.set()

    def sections(self) -> Generator[Section]:
        """The sections; the child ends with the generator, or waits for another document."""
        reader, source = self._reader, self._source
        reader.check_packages()
        self._closed.clear()
        whole = False
        try:
            with opened(source, reader.limits) as file:
                # each thread writes its own field before it reads the other's, so that one of them sees both
                self._parser = parser = PARSERS.take(reader.format, reader.limits)
                if self._left:
                    parser.kill()
                try:
                    yield from sections(source, parser.parts(file, source.document.id, reader.limits), reader.limits)
                    whole = not self._left
                finally:
                    self._parser = None
                    if whole:
                        PARSERS.give_back(parser, reader.format, reader.limits)
                    else:
                        parser.close()
        finally:
            self._closed.set()

    def end(self) -> None:
        """Kill the child, now or as soon as it has started."""
        self._left = True
        if (parser := self._parser) is not None:
            parser.kill()

    def wait(self) -> None:
        """Block until the child has ended, for a limited time."""
        self._closed.wait(END_SECONDS)
