"""The structure of source code by its lines: how good each is as the first one of a chunk, and what encloses it.

It is found by indentation and empty lines, without a parser: so it holds for every language that people indent, for
files that do not parse, and for files that are read in parts. It does not look into strings: a line of a long string
that begins in the first column counts as code.

| better                                       | never, if another line will do                                   |
|----------------------------------------------|------------------------------------------------------------------|
| less indented: a class before its methods    | a line that closes or continues: `}`, `)`, `end`, `else`, `.`    |
| after an empty line                          | what follows a decorator, an attribute or a comment              |
|                                              | the first line of a block                                        |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE = re.compile(r"^([ \t]*)(\S[^\n]{0,100})", re.M)
_CONTINUES = re.compile(
    r"[})\]]|(?:end|else|elif|elsif|except|finally|catch|rescue|ensure|then|fi|done|esac|while\s*\(.*\);)\b|[.&|?:]"
)
_ATTACHED = re.compile(r"@|#(?!include|define|if|endif|else|pragma|import)|//|/\*|\*|--|;|<!--|template\s*<")
_DEFINES = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|sealed|abstract|async|virtual|override|"
    r"partial|open|inline|unsafe|const|extern|data|declare|local|pub(?:\([^)]*\))?)\s+)*"
    r"(?:class|def|defmodule|defp|function|func|fun|fn|impl|interface|struct|enum|trait|module|namespace|object|record|"
    r"protocol|extension|mixin|sub|procedure)\b[^\n]*"
)
_TAB = 4


def line_starts(text: str, begin: int, end: int) -> Iterator[tuple[int, float]]:
    """The lines that begin in (begin, end], each with its level: at most 5, the higher the better as a beginning."""
    before, depth_before = "", 0
    for match in _LINE.finditer(text, text.rfind("\n", 0, begin) + 1):
        at = match.start()
        if at > end:
            return
        depth = _width(match[1])
        if at > begin and (at == 0 or text[at - 1] == "\n"):
            follows_empty = text[max(0, at - 2) : at] == "\n\n"
            yield at, _level(match[2], depth, before, depth_before, follows_empty=follows_empty)
        before, depth_before = match[2], depth


def _level(line: str, depth: int, before: str, depth_before: int, *, follows_empty: bool) -> float:
    if _CONTINUES.match(line):
        return 0.0
    if depth > depth_before or (_ATTACHED.match(before) and not follows_empty):
        return 0.5
    return 5.0 - min(depth, 16) * 0.22 - (0.0 if follows_empty else 0.8)


def _width(indentation: str) -> int:
    return sum(_TAB if each == "\t" else 1 for each in indentation)


class Enclosing:
    """The definitions around a place of a source file, as it is read from its beginning."""

    __slots__ = ("_at_line_start", "_open")

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []
        self._at_line_start = True

    def read(self, text: str) -> None:
        """Read on; `text` is what follows what was read before."""
        if not text:
            return
        begin = 0 if self._at_line_start else text.find("\n") + 1
        if begin or self._at_line_start:
            for match in _LINE.finditer(text, begin):
                self._enter(_width(match[1]), match[2])
        self._at_line_start = text.endswith("\n")

    def _enter(self, depth: int, line: str) -> None:
        if _CONTINUES.match(line) or _ATTACHED.match(line):
            return
        while self._open and self._open[-1][0] >= depth:
            self._open.pop()
        if _DEFINES.match(line) and len(self._open) < 8:
            self._open.append((depth, line.rstrip(" \t{:").strip()))

    def of(self, text: str) -> tuple[str, ...]:
        """The definitions, outermost first, around the place where `text` begins; empty within a line."""
        match = _LINE.search(text)
        if match is None or not self._at_line_start:
            return ()
        depth = _width(match[1])
        return tuple(line for level, line in self._open if level < depth)
