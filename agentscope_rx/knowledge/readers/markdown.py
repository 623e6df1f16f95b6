"""`MarkdownReader`: Markdown by its headings, with code blocks and tables as sections of their own.

It reads line by line and keeps every character, so that positions are those in the file, and a file of any length is
read with little memory. (A parser would need the whole file, and drop the positions.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from agentscope_rx.knowledge.document import DocumentSource
from agentscope_rx.knowledge.readers.formats.parts import MOST, Kind, Outline, Part, cut
from agentscope_rx.knowledge.readers.languages import LANGUAGES
from agentscope_rx.knowledge.readers.text import StreamReader
from agentscope_rx.knowledge.readers.text_file import lines_of, text_of

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*\n?\Z")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*\n?\Z")
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([^\s`]*)")
_DELIMITERS = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?\Z")
_CONTAINER = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]|\Z)| {0,3}>|[ \t]*<")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\n?\Z")
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()]*\)")
_TITLE = re.compile(r"title:[ \t]*(.+)", re.IGNORECASE)
_FRONT = 200
"""The lines that front matter may have."""


class MarkdownReader(StreamReader):
    """Reads Markdown. A section is the text under one heading, a code block (with `language`) or a table.

    Front matter is the first section; its `title:` is the outermost heading. The text is the file's, all of it.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd")
    media_types: ClassVar[tuple[str, ...]] = ("text/markdown", "text/x-markdown")

    def parts(self, file: BinaryIO, source: DocumentSource) -> Iterator[Part]:
        """The parts of the file, line by line."""
        scanner = _Scanner()
        for line in lines_of(text_of(file, source.document.id, self.encoding), MOST):
            yield from scanner.take(line)
        yield from scanner.flush()


class _Scanner:
    """Takes lines and gives parts as they end."""

    def __init__(self) -> None:
        self._outline = Outline()
        self._lines: list[str] = []
        self._size = 0
        self._kind: Kind = "text"
        self._language = ""
        self._fence = ""
        # how many of the last lines are a paragraph; None inside of a list or a quotation
        self._paragraph: int | None = 0
        self._front = 0

    def take(self, line: str) -> Iterator[Part]:
        """The parts that end with this line, or before it."""
        if not self._size and line.rstrip() == "---" and not self._front:
            self._front = 1
        elif self._front > 0:
            yield from self._front_matter(line)
            return
        else:
            self._front = -1
            if self._fence:
                yield from self._in_code(line)
                return
            if self._kind != "text":
                # (empty lines behind a block belong to it)
                if not line.strip() or (self._kind == "table" and self._lines[-1].strip() and _is_row(line)):
                    yield from self._add(line)
                    return
                yield from self.flush()
            yield from self._in_text(line)
            return
        yield from self._add(line)

    def flush(self) -> Iterator[Part]:
        """The part that is open."""
        text = "".join(self._lines)
        if text:
            yield from cut(Part(text, None, self._outline.headings, self._kind, self._language))
        self._lines, self._size = [], 0
        self._kind, self._language, self._paragraph = "text", "", 0

    def _add(self, line: str) -> Iterator[Part]:
        if self._size + len(line) > MOST:
            kind, language, paragraph = self._kind, self._language, self._paragraph
            yield from self.flush()
            self._kind, self._language, self._paragraph = kind, language, 0 if paragraph else paragraph
        self._lines.append(line)
        self._size += len(line)

    def _front_matter(self, line: str) -> Iterator[Part]:
        self._front += 1
        yield from self._add(line)
        if line.rstrip() in ("---", "..."):
            titles = [found[1] for each in self._lines if (found := _TITLE.match(each))]
            self._outline.title = " ".join(titles[0].strip().strip("\"'").split())[:200] if titles else ""
            self._front = -1
            yield from self.flush()
        elif self._front > _FRONT or not line.endswith("\n"):
            # a rule at the beginning, and no front matter
            lines, self._lines, self._size, self._front = self._lines, [], 0, -1
            for each in lines:
                yield from self._again(each)

    def _again(self, line: str) -> Iterator[Part]:
        return self._in_code(line) if self._fence else self._in_text(line)

    def _in_code(self, line: str) -> Iterator[Part]:
        yield from self._add(line)
        mark = line.strip()
        if mark and set(mark) == {self._fence[0]} and len(mark) >= len(self._fence):
            self._fence = ""

    def _in_text(self, line: str) -> Iterator[Part]:
        if found := _FENCE.match(line):
            yield from self.flush()
            named = found[2].strip("{}.").lower()[:40]
            self._fence, self._kind, self._language = found[1], "code", LANGUAGES.get(f".{named}", named)
            yield from self._add(line)
        elif found := _ATX.match(line):
            yield from self._heading([], line, len(found[1]), found[2] or "")
        elif self._paragraph and (found := _SETEXT.match(line)):
            above = self._taken(self._paragraph)
            yield from self._heading(above, line, 1 if found[1][0] == "=" else 2, "".join(above))
        elif self._paragraph and "|" in self._lines[-1] and "|" in line and _DELIMITERS.match(line):
            above = self._taken(1)
            yield from self.flush()
            self._kind = "table"
            for each in (*above, line):
                yield from self._add(each)
        else:
            yield from self._add(line)
            self._paragraph = self._after(line)

    def _after(self, line: str) -> int | None:
        if not line.strip() or _RULE.match(line):
            return 0
        if self._paragraph is None or _CONTAINER.match(line):
            return None
        if not self._paragraph and line.startswith(("    ", "\t")):
            # indented code
            return 0
        return self._paragraph + 1

    def _taken(self, count: int) -> list[str]:
        """The last lines, taken out of the part that is open."""
        taken = self._lines[-count:]
        del self._lines[-count:]
        self._size -= sum(map(len, taken))
        return taken

    def _heading(self, above: list[str], line: str, level: int, text: str) -> Iterator[Part]:
        yield from self.flush()
        self._outline.enter(level, _LINK.sub(r"\1", text).replace("`", "").replace("*", ""))
        for each in (*above, line):
            yield from self._add(each)


def _is_row(line: str) -> bool:
    """True if this line behind the row of a table is another one: what begins no other block."""
    return not any(pattern.match(line) for pattern in (_FENCE, _ATX, _CONTAINER, _RULE))
