"""`Cutter`: cuts the text of one document as it is read; pure. A chunk is cut when all that it depends on is there.

    sections ---- text up to a boundary, then flush ---->  window = what begins here, `longest` + a little, characters
    window   ---- the most that has `size` tokens ----->  best place before it  ---->  chunk, and a new beginning

A decision looks at the window only, which begins at the chunk's beginning and is complete before anything is decided.
So the same text gives the same chunks in whatever pieces it comes, and no more than a window and a slice is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.chunkers.code_lines import Enclosing
from agentscope_rx.knowledge.chunkers.places import Part, Style, beginnings, best_place
from agentscope_rx.knowledge.document import Chunk, Document, Section

_SLICE = 16_384
_BEYOND = 64
"""The characters after a window that are looked at: what follows a full stop, and the like."""
_PER_TOKEN = 10
"""No chunk has more characters than this for each token: white space counts little, and would be held without end."""

_TABLE = re.compile(r"\s*\|([^\n]*)\|[ \t]*\n[ \t]*\|[ \t:|-]+\|[ \t]*(?:\n|$)")


@dataclass(frozen=True, slots=True)
class Rules:
    """How to cut. `ends_before(a, b, small)` is true if no chunk goes on from section a to b; `small` if the text since
    the last boundary is; `style_of` chooses the places."""

    size: int
    overlap: int
    smallest: int
    count: Callable[[str], int]
    style_of: Callable[[Section], Style]
    ends_before: Callable[[Section, Section, bool], bool]
    names_definitions: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """The text from `start` on (until the next span) is of this section; `header` names the columns of its table."""

    start: int
    section: Section
    header: str = ""


class Cutter:
    """The chunks of one document. Call `take` with each section in order, then `rest`; exhaust each of them."""

    def __init__(self, document: Document, rules: Rules) -> None:
        self._document = document
        self._rules = rules
        self._longest = rules.size * _PER_TOKEN
        self._number = 0
        self._text = ""
        self._base = 0
        """The position of `_text` in the document: where the next chunk begins."""
        self._new = 0
        """The position up to which text is in chunks; what comes before it in `_text` is the overlap."""
        self._has_cut = False
        """True if there is a chunk since the last boundary."""
        self._spans: list[_Span] = []
        self._enclosing = Enclosing()

    def take(self, section: Section) -> Iterator[Chunk]:
        """The chunks that this section completes."""
        if section.image is not None:
            yield from self._image(section)
            return
        if not section.text:
            return
        if self._spans and self._rules.ends_before(self._spans[-1].section, section, self._is_small()):
            yield from self.rest()
        self._open(section)
        for at in range(0, len(section.text), _SLICE):
            self._text += section.text[at : at + _SLICE]
            while len(self._text) >= self._longest + _BEYOND:
                yield from self._cut(final=False)

    def rest(self) -> Iterator[Chunk]:
        """The chunks of what is left: nothing that follows belongs to it."""
        while self._end > self._new:
            yield from self._cut(final=True)
        self._base = self._new = self._end
        self._text = ""
        self._has_cut = False
        self._spans.clear()
        self._enclosing = Enclosing()

    @property
    def _end(self) -> int:
        return self._base + len(self._text)

    def _open(self, section: Section) -> None:
        header = _table_header(section)
        if not self._spans or header or _attributes(self._spans[-1].section) != _attributes(section):
            # (the text is in `_text`, and would be held for as long as the span is)
            self._spans.append(_Span(self._end, replace(section, text=""), header))

    def _is_small(self) -> bool:
        text, rules = self._text.strip(), self._rules
        if self._has_cut or len(text) > rules.smallest * _PER_TOKEN:
            return False
        return rules.count(text) < rules.smallest

    def _image(self, section: Section) -> Iterator[Chunk]:
        """One chunk; if its text is too long for one, the image goes with the first part."""
        yield from self.rest()
        first, block = self._number, section.image
        for chunk in chain(self.take(replace(section, image=None)), self.rest()):
            yield replace(chunk, image=block) if chunk.number == first else chunk
        if self._number == first:
            yield replace(self._made("", section, section.headings), image=block)

    def _cut(self, *, final: bool) -> Iterator[Chunk]:
        """Moves on to the next beginning; the chunk before it, if there is one."""
        if self._skipped_blank():
            return
        window = self._text[: self._longest + _BEYOND]
        low = max(0, self._new - self._base)
        fits = self._most_that_fits(window[: self._longest])
        if fits <= low:
            # no room beside the overlap
            self._move_to(self._new)
            return
        end = fits if final and fits == len(self._text) else best_place(window, low, fits, self._parts())
        while end - low > 1 and self._rules.count(window[:end].rstrip()) > self._rules.size:
            # some tokenizers need more tokens for less text
            end = low + (end - low) * 3 // 4
        blank = not window[low:end].strip()
        self._new = self._base + end
        if not blank:
            self._has_cut = True
            yield self._next_chunk(window[:end].rstrip())
        self._move_to(self._new if blank else self._base + self._next_beginning(window, end))

    def _skipped_blank(self) -> bool:
        """Move to the first character that is not blank, or to the indentation before it. False if it is here."""
        blank = len(self._text) - len(self._text.lstrip())
        kept = self._rules.size
        if blank == len(self._text):
            # (indentation may go on with what is to come)
            blank = max(blank - kept, 0) if self._new < self._end - kept else blank
        elif self._style_of(self._base + blank) in ("code", "lines"):
            line = self._text.rfind("\n", 0, blank) + 1
            blank = line if blank - line < kept else blank
        self._new = max(self._new, self._base + blank)
        self._move_to(self._base + blank)
        return blank > 0

    def _most_that_fits(self, window: str) -> int:
        """The length of the longest beginning of at most `size` tokens, to within 2 %; at least 1."""
        size, count = self._rules.size, self._rules.count
        near = size - size // 64 if size >= 64 else size + 1
        fits, beyond = 0, len(window) + 1
        guess = min(len(window), size * 4)
        while beyond - fits > 1:
            tokens = count(window[:guess])
            if tokens <= size:
                fits = guess
                if tokens >= near:
                    break
            else:
                beyond = guess
            aim = guess * size // max(tokens, 1)
            guess = aim if fits < aim < beyond else (fits + beyond) // 2
        return max(fits, 1)

    def _next_beginning(self, window: str, end: int) -> int:
        """Where the next chunk begins: at `end`, or before it, so that at most `overlap` tokens are repeated."""
        overlap, count = self._rules.overlap, self._rules.count
        if not overlap:
            return end
        least = max(0, end - overlap * _PER_TOKEN)
        found = beginnings(window, least, end, self._style_of(self._base + end - 1))
        place = bisect_left(found, x=True, key=lambda at: count(window[at:end].rstrip()) <= overlap)
        return found[place] if place < len(found) else end

    def _move_to(self, position: int) -> None:
        """Begin here; what comes before is dropped."""
        passed, self._text = self._text[: position - self._base], self._text[position - self._base :]
        if self._rules.names_definitions and passed:
            if self._style_of(self._base) == "code":
                self._enclosing.read(passed)
            else:
                self._enclosing = Enclosing()
        self._base = position
        while len(self._spans) > 1 and self._spans[1].start <= position:
            del self._spans[0]

    def _span_at(self, position: int) -> _Span:
        return self._spans[max(0, bisect_right(self._spans, position, key=lambda span: span.start) - 1)]

    def _style_of(self, position: int) -> Style:
        return self._rules.style_of(self._span_at(position).section)

    def _parts(self) -> list[Part]:
        """The styles of the text; a part ends where another kind of text or another table begins."""
        parts: list[Part] = []
        before = self._spans[0]
        for span in self._spans[1:]:
            if span.header or span.section.kind != before.section.kind:
                parts.append(Part(span.start - self._base, self._rules.style_of(before.section)))
            before = span
        return [*parts, Part(len(self._text), self._rules.style_of(before.section))]

    def _next_chunk(self, text: str) -> Chunk:
        span = self._span_at(self._base)
        headings = span.section.headings
        if self._rules.names_definitions and span.section.kind == "code":
            headings = (*headings, *self._enclosing.of(text))
        if span.header and self._base > span.start:
            headings = (*headings, span.header)
        return self._made(text, span.section, headings)

    def _made(self, text: str, section: Section, headings: tuple[str, ...]) -> Chunk:
        number = self._number
        self._number += 1
        return Chunk(
            document=self._document,
            number=number,
            text=text,
            start=self._base,
            end=self._base + len(text),
            page=section.page,
            headings=headings,
            kind=section.kind,
        )


def _attributes(section: Section) -> tuple[object, ...]:
    return section.page, section.headings, section.kind, section.language


def _table_header(section: Section) -> str:
    """The names of the columns, if the section begins with those of a Markdown table."""
    if section.kind != "table":
        return ""
    match = _TABLE.match(section.text[:1_000])
    return match[1].strip()[:200] if match is not None else ""
