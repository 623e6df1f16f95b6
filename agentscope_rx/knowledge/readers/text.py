"""`TextReader` and `CodeReader`: files of text, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, ClassVar

from agentscope_rx.knowledge.document import DocumentSource, Section
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.readers.formats.parts import MOST, Part, cut
from agentscope_rx.knowledge.readers.languages import LANGUAGES, language_of
from agentscope_rx.knowledge.readers.limits import DEFAULT_LIMITS, ReadLimits
from agentscope_rx.knowledge.readers.opening import opened, sections
from agentscope_rx.knowledge.readers.text_file import check_encoding, text_of
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, iterate_on_worker

CODE = 256 * 1024
"""The characters of one section of code: nearly every source file is a single one, and is cut by its structure."""


class StreamReader(Reader):
    """Reads a file in this process, on a worker thread; subclasses make its parts as they read."""

    def __init__(self, *, encoding: str | None = None, limits: ReadLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.encoding: str | None = check_encoding(encoding)

    @property
    def fingerprint(self) -> str:
        """The kind of reader, and the encoding if one is set."""
        return f"{type(self).__name__}({self.encoding or ''})"

    def read(self, source: DocumentSource) -> Flow[Section]:
        """The file is read on a worker thread, as much as the next section needs.

        Signals: sections; a `DocumentError`.
        Cancels: the rest; the file is closed.
        """
        return iterate_on_worker(lambda: self._sections(source), ENGINE_WORKERS)

    def _sections(self, source: DocumentSource) -> Iterator[Section]:
        with opened(source, self.limits) as file:
            yield from sections(source, self.parts(file, source), self.limits)

    def parts(self, file: BinaryIO, source: DocumentSource) -> Iterator[Part]:
        """The parts of the file, in order; runs on a worker thread."""
        raise NotImplementedError


class TextReader(StreamReader):
    """Reads plain text. Its sections are at most 32 Ki characters long, and end between paragraphs where they can.

    `encoding` names that of all documents; without it, each one's is found by its first 64 KiB.
    """

    suffixes: ClassVar[tuple[str, ...]] = (
        ".txt",
        ".text",
        ".log",
        ".rst",
        ".adoc",
        ".asciidoc",
        ".org",
        ".tex",
        ".srt",
        ".vtt",
    )
    media_types: ClassVar[tuple[str, ...]] = ("text/plain", "text/x-rst")

    def parts(self, file: BinaryIO, source: DocumentSource) -> Iterator[Part]:
        """The text, cut between paragraphs."""
        return _cut_as_read(text_of(file, source.document.id, self.encoding), Part, MOST)


class CodeReader(StreamReader):
    """Reads source code and files of data such as JSON; a section has its `language`, and up to 256 Ki characters."""

    suffixes: ClassVar[tuple[str, ...]] = tuple(LANGUAGES)
    media_types: ClassVar[tuple[str, ...]] = (
        "application/json",
        "application/xml",
        "text/xml",
        "application/yaml",
        "text/x-python",
    )

    def parts(self, file: BinaryIO, source: DocumentSource) -> Iterator[Part]:
        """The text, nearly always in one part."""
        name = source.document.id if source.path is None else source.path.name
        language = language_of(name) or language_of(source.document.id) or ""

        def made(text: str) -> Part:
            return Part(text, kind="code", language=language)

        return _cut_as_read(text_of(file, source.document.id, self.encoding), made, CODE)


def _cut_as_read(pieces: Iterator[str], made: Callable[[str], Part], most: int) -> Iterator[Part]:
    rest = ""
    for piece in pieces:
        rest += piece
        if len(rest) > most:
            *whole, last = cut(made(rest), most)
            yield from whole
            rest = last.text
    if rest:
        yield made(rest)
