"""`Chunker`: the port to a way of cutting documents."""

from __future__ import annotations

from abc import ABC, abstractmethod

from agentscope_rx.knowledge.document import Chunk, Document, Section
from agentscope_rx.reactive import Flow


class Chunker(ABC):
    """Cuts the sections of a document to chunks."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The chunker's name and options. A document is cut again when they change."""

    @abstractmethod
    def chunk(self, document: Document, sections: Flow[Section]) -> Flow[Chunk]:
        """The chunks of the sections, numbered from 0; a section without text or image makes none.

        A chunk's text is the document's text from its `start` to its `end`.

        Signals: chunks as soon as they are complete; errors of `sections`.
        Cancels: `sections`.
        """
