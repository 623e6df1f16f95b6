"""The chunkers of text: by tokens, sentences, headings and the structure of code.

| chunker           | ends a chunk                                                          | does not go beyond  |
|-------------------|-----------------------------------------------------------------------|---------------------|
| `TokenChunker`    | between words, when it is full                                        | an image            |
| `SentenceChunker` | between sentences                                                     | an image            |
| `HeadingChunker`  | between paragraphs, else sentences; rows of tables; structure of code | a heading, an image |
| `CodeChunker`     | between definitions, the least indented lines first                   | an image            |

Texts are cut on workers, some chunks at a time, as there is demand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge.chunker import Chunker
from agentscope_rx.knowledge.chunkers.cutter import Cutter, Rules
from agentscope_rx.knowledge.chunkers.places import Style
from agentscope_rx.knowledge.document import Chunk, Document, Section
from agentscope_rx.models.checks import check_count
from agentscope_rx.models.tokens import estimated_tokens
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    concat,
    concat_map,
    defer,
    from_iterable,
    iterate_on_worker,
    just,
)

SIZE = 384
"""Five chunks of this size answer more questions than five smaller ones, and one fits into E5's window of 512 tokens
(whose tokens are smaller)."""
OVERLAP = 48

_AT_ONCE = 16
_LEAST = 16


class TextChunker(Chunker):
    """The base class of the chunkers of text; the default chunker is a `HeadingChunker`.

    `size` and `overlap` are tokens, as `count` counts them (default: an estimate).

    | chunker | ends a chunk | does not go beyond |
    |---|---|---|
    | `TokenChunker` | between words, when it is full | an image |
    | `SentenceChunker` | between sentences | an image |
    | `HeadingChunker` | between paragraphs, else sentences; table rows; definitions | a heading, an image |
    | `CodeChunker` | between definitions, the least indented lines first | an image |

    No chunk has more than `size`, and it repeats at most `overlap` of the one before. A visible character is not
    divided, nor, where that is possible, a word. White space at both ends is left out. Texts are cut on workers, some
    chunks at a time, as there is demand.
    """

    def __init__(self, size: int, overlap: int, *, smallest: int = 0, count: Callable[[str], int]) -> None:
        check_count("size", size, _LEAST)
        check_count("overlap", overlap, 0)
        check_count("smallest", smallest, 0)
        for name, value in (("overlap", overlap), ("smallest", smallest)):
            if value >= size:
                raise ConfigurationError(f"{name} must be less than size ({size}), not {value}.")
        if not callable(count):
            raise ConfigurationError(f"count must be a function of a text, not {count!r:.60}.")
        self.size = size
        self.overlap = overlap
        self.smallest = smallest
        self.count: Callable[[str], int] = count

    @property
    def fingerprint(self) -> str:
        """Its name, sizes, and the name of `count`: give that function a name of its own."""
        count = getattr(self.count, "__qualname__", type(self.count).__qualname__)
        return f"{type(self).__name__}/1({self.size},{self.overlap},{self.smallest},{count})"

    def chunk(self, document: Document, sections: Flow[Section]) -> Flow[Chunk]:
        """The chunks of the sections, cut on a worker; the next section is asked for when one is used up.

        Signals: chunks as soon as they are complete; errors of `sections` and of `count`.
        Cancels: `sections`, and the cutting.
        """

        def begin() -> Flow[Chunk]:
            cutter = Cutter(document, self._rules())

            def cut(section: Section | None) -> Flow[Chunk]:
                def batches() -> Iterator[tuple[Chunk, ...]]:
                    return _batches(cutter.rest() if section is None else cutter.take(section))

                return iterate_on_worker(batches, ENGINE_WORKERS).pipe(concat_map(from_iterable, prefetch=1))

            end: Flow[Section | None] = just(None)
            return concat(sections, end).pipe(concat_map(cut, prefetch=1))

        return defer(begin)

    def _rules(self) -> Rules:
        return Rules(
            size=self.size,
            overlap=self.overlap,
            smallest=self.smallest,
            count=self.count,
            style_of=self._style_of,
            ends_before=self._ends_before,
            names_definitions=self._style_of(Section(text="", kind="code")) == "code",
        )

    @abstractmethod
    def _style_of(self, section: Section) -> Style: ...

    def _ends_before(self, before: Section, after: Section, small: bool) -> bool:
        """True if a chunk that ends in `before` cannot go on in `after`; `small` says so of the text before."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, overlap={self.overlap})"


class TokenChunker(TextChunker):
    """Cuts between words: as many as fit, regardless of the structure."""

    def __init__(
        self, size: int = SIZE, overlap: int = OVERLAP, *, count: Callable[[str], int] = estimated_tokens
    ) -> None:
        super().__init__(size, overlap, count=count)

    def _style_of(self, section: Section) -> Style:
        return "words"


class SentenceChunker(TextChunker):
    """Cuts between sentences: as many as fit; a longer one is divided. The overlap is whole sentences, or nothing.

    It knows the marks of European, Indian, Arabic, Chinese and Japanese texts, and common abbreviations.
    """

    def __init__(
        self, size: int = SIZE, overlap: int = OVERLAP, *, count: Callable[[str], int] = estimated_tokens
    ) -> None:
        super().__init__(size, overlap, count=count)

    def _style_of(self, section: Section) -> Style:
        return "sentences"


class HeadingChunker(TextChunker):
    """Cuts by the structure that the reader has found: a chunk stays below one heading.

    Text ends between paragraphs or else sentences, a table between rows, code between definitions. If there are less
    than `smallest` tokens (an eighth of `size`) between a heading and the first one beneath it, they are one chunk.
    A part of a Markdown table has its header row as the last heading; a part of a class or function, the line that
    begins it.
    """

    def __init__(
        self,
        size: int = SIZE,
        overlap: int = 0,
        *,
        smallest: int | None = None,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        check_count("size", size, _LEAST)
        super().__init__(size, overlap, smallest=size // 8 if smallest is None else smallest, count=count)

    def _style_of(self, section: Section) -> Style:
        return "code" if section.kind == "code" else "lines" if section.kind == "table" else "paragraphs"

    def _ends_before(self, before: Section, after: Section, small: bool) -> bool:
        if before.headings == after.headings:
            return False
        return not (small and after.headings[: len(before.headings)] == before.headings)


class CodeChunker(TextChunker):
    """Cuts source code of any indented language: whole definitions, as many as fit, and parts of longer ones.

    The lines that begin the enclosing classes and functions are added to the headings of a chunk.
    """

    def __init__(self, size: int = SIZE, overlap: int = 0, *, count: Callable[[str], int] = estimated_tokens) -> None:
        super().__init__(size, overlap, count=count)

    def _style_of(self, section: Section) -> Style:
        return "code"


def _batches(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ...]]:
    """Chunks some at a time: a worker costs as much for one as for many."""
    found = iter(chunks)
    while batch := tuple(islice(found, _AT_ONCE)):
        yield batch
