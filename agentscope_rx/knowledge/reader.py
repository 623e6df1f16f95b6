"""`Reader`: the port to a format of documents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from agentscope_rx.knowledge.document import DocumentSource, Section
from agentscope_rx.reactive import Flow


class Reader(ABC):
    """A reader of one format of documents. A subclass sets `suffixes` or `media_types`, and writes `read`.

    It is chosen by the ending of a file's name, or by the whole name, such as `Makefile`. It may be used on several
    threads and loops at once.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """The endings of file names, in lower case with the dot."""
    media_types: ClassVar[tuple[str, ...]] = ()
    """The media types, in lower case without parameters."""

    @property
    def fingerprint(self) -> str:
        """The name and options of the reader as a text. If it changes, documents are read again."""
        return type(self).__name__

    @abstractmethod
    def read(self, source: DocumentSource) -> Flow[Section]:
        """The sections of the document, in order, each read when there is demand for it.

        A title that the document itself names is the outermost heading of each section.

        Signals: sections, then completion; a `DocumentError`, `MissingExtraError`.
        Cancels: the rest of the reading; files and child processes are closed.
        """
