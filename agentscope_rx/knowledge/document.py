"""The values between a file and an answer: `Document`, `Section` (read), `Chunk` (cut), `EmbeddedChunk` (stored).

    DocumentSource --Reader--> Section ... --Chunker--> Chunk ... --EmbeddingModel--> EmbeddedChunk ... --> ChunkStore

Positions are characters of the document's text, which is the text of its sections one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ImageBlock
from agentscope_rx.messages.frozen import EMPTY, check_encodable, freeze

Scalar = str | int | float | bool
Metadata = Mapping[str, Scalar]
SectionKind = Literal["text", "table", "code", "image"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document of a knowledge base, without its content. `id` names it there: its path beneath the folder, or a URL.

    `digest` is the SHA-256 of its bytes, as hexadecimal digits, '' if it is not known. `metadata` has what searches are
    filtered by: texts, numbers and booleans.
    """

    id: str
    title: str = ""
    media_type: str = ""
    digest: str = ""
    size: int = 0
    metadata: Metadata = EMPTY  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A Document needs an id, such as the path of its file, not {self.id!r:.60}.")
        check_encodable(self.id, "Document.id")
        for name, value in self.metadata.items():
            if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInputError(
                    f"Document.metadata holds texts, numbers and booleans by name, not {name!r:.60}: {value!r:.60}."
                )
        object.__setattr__(self, "metadata", freeze(self.metadata, "Document.metadata"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSource:
    """A document with its content: a file (`path`) or its bytes (`data`).

    With `root`, the file is opened only if it lies beneath this folder after links are followed.
    """

    document: Document
    path: Path | None = None
    data: bytes | None = None
    root: Path | None = None

    def __post_init__(self) -> None:
        if (self.path is None) == (self.data is None):
            raise InvalidInputError(f"A DocumentSource needs a path or data, one of them: {self.document.id!r:.60}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document that belongs together, as a reader found it: a paragraph or more of one page and heading.

    `start` is the position of its text. `page` counts from 1; slides and sheets count as pages. `headings` are those
    above it, outermost first. `language` is that of code. An image has its block, and a text if there is one.
    """

    text: str
    start: int = 0
    page: int | None = None
    headings: tuple[str, ...] = ()
    kind: SectionKind = "text"
    language: str = ""
    image: ImageBlock | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A part of a document that is found as a whole: its characters from `start` to `end`, the `number`th from 0."""

    document: Document
    number: int
    text: str
    start: int
    end: int
    page: int | None = None
    headings: tuple[str, ...] = ()
    kind: SectionKind = "text"
    image: ImageBlock | None = field(default=None, repr=False)

    @property
    def in_context(self) -> str:
        """The text below its title and headings, which is embedded and indexed: a passage may not name its subject."""
        above = [each for each in (self.document.title, *self.headings) if each.strip()]
        return f"{' > '.join(dict.fromkeys(above))}\n{self.text}" if above else self.text


@dataclass(frozen=True, slots=True)
class EmbeddedChunk:
    """A chunk with its vector."""

    chunk: Chunk
    vector: tuple[float, ...] = field(repr=False)
