"""`Part`: what a parser finds, before it becomes a section. The standard library only: child processes import it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

MOST = 32 * 1024
"""The characters of one part: a section is held in memory as a whole."""
TABLE = 1_000
"""The characters of one part of a table, unless a single row is longer: about what one chunk holds."""

Kind = Literal["text", "table", "code", "image"]


class Part(NamedTuple):
    """A section without its position. Its text ends with an empty line, so that the next one stands apart."""

    text: str
    page: int | None = None
    headings: tuple[str, ...] = ()
    kind: Kind = "text"
    language: str = ""


class FormatError(Exception):
    """The document is damaged: what is wrong, without its name."""


class LimitError(Exception):
    """The document is beyond a limit: what is wrong, and the name of the limit."""

    def __init__(self, what: str, limit: str) -> None:
        super().__init__(what)
        self.limit = limit


def cut(part: Part, most: int = MOST) -> Iterator[Part]:
    """The part in parts of at most so many characters, cut at empty lines, line ends or spaces where there are any."""
    text = part.text
    start = 0
    while len(text) - start > most:
        end = _end(text, start, start + most)
        yield part._replace(text=text[start:end])
        start = end
    yield part._replace(text=text[start:]) if start else part


def _end(text: str, start: int, end: int) -> int:
    # (the first half stays whole: a cut there would leave a part that is too small)
    least = start + (end - start) // 2
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, least, end)
        if found >= 0:
            return found + len(mark)
    return end


def one_line(text: str) -> str:
    """The text without line ends and runs of white space."""
    return " ".join(text.split())


def clean(text: str) -> str:
    """The text with what cannot be stored replaced: NUL, and halves of surrogate pairs. Its length stays."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    return text


def table_parts(
    rows: Iterable[Sequence[str]], page: int | None = None, headings: tuple[str, ...] = ()
) -> Iterator[Part]:
    """A table of a document as Markdown; each part repeats the first row, which is taken for its header."""
    header = ""
    lines: list[str] = []
    size = 0
    for row in rows:
        cells = [one_line(each).replace("|", "\\|") for each in row]
        if not any(cells):
            continue
        line = f"| {' | '.join(cells)} |\n"
        if not header:
            header = line + "|" + " --- |" * len(cells) + "\n"
            if len(header) > TABLE:
                # no header, but a layout, or made to be repeated
                yield from cut(Part(header + "\n", page, headings, "table"))
                header = "| |\n| --- |\n"
            continue
        if lines and size + len(line) > TABLE:
            yield from cut(Part(header + "".join(lines) + "\n", page, headings, "table"))
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if header:
        yield from cut(Part(header + "".join(lines) + "\n", page, headings, "table"))


def record_parts(
    rows: Iterable[Sequence[str]], page: int | None = None, headings: tuple[str, ...] = ()
) -> Iterator[Part]:
    """The rows of a sheet, each as a line `name: value; name: value`, so that it says what it is wherever it is cut.

    The first row that is not empty has the names. Empty cells are left out.
    """
    names: list[str] | None = None
    lines: list[str] = []
    size = 0
    alone = ""
    for row in rows:
        cells = [one_line(each) for each in row]
        if not any(cells):
            continue
        if names is None:
            alone = "; ".join(filter(None, cells)) + "\n"
            names = cells if len(alone) <= TABLE else []
            if names:
                continue
            # no names, but made to be repeated
            yield from cut(Part(alone + "\n", page, headings, "table"))
            alone = ""
            continue
        line = "; ".join(_named(names, index, cell) for index, cell in enumerate(cells) if cell) + "\n"
        if lines and size + len(line) > TABLE:
            yield from cut(Part("".join(lines) + "\n", page, headings, "table"))
            lines, size = [], 0
        lines.append(line)
        size += len(line)
        alone = ""
    if lines or alone:
        # (a sheet that has its names only, or a single row)
        yield from cut(Part((alone or "".join(lines)) + "\n", page, headings, "table"))


def _named(names: Sequence[str], index: int, cell: str) -> str:
    return f"{names[index]}: {cell}" if index < len(names) and names[index] else cell


class Outline:
    """The headings above a place in a document; the title, if there is one, is the outermost."""

    def __init__(self, title: str = "") -> None:
        self.title: str = one_line(title)[:200]
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> None:
        """A heading of this level, which ends those of its level and below."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if text := one_line(heading):
            self._open.append((level, text[:200]))

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings, outermost first."""
        texts = [text for _, text in self._open]
        return tuple(texts) if not self.title or self.title in texts[:1] else (self.title, *texts)
