"""Where a chunk should end and the next one begin: the candidates of each kind of text, and the choice among them.

| level | text                              | code                                                     |
|-------|-----------------------------------|----------------------------------------------------------|
| 5.5   | between kinds of sections, tables | the same                                                 |
| 5     | an empty line                     | a line that is not indented, after an empty one          |
| 4     | a sentence, a row                 | less if it is indented, or follows another line directly |

The best is the highest sum of its level and twice the part of the chunk that it fills: a paragraph that ends in the
second half wins over a sentence that ends later. If there is none of these, it is, in the second half, the last line
(level 3), else comma and the like (2), else space or place between Han characters (1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from agentscope_rx.knowledge.chunkers.code_lines import line_starts
from agentscope_rx.knowledge.chunkers.graphemes import whole_characters
from agentscope_rx.knowledge.chunkers.sentence_ends import sentence_starts

Style = Literal["words", "sentences", "paragraphs", "lines", "code"]
"""What counts as a good place: any word, any sentence, paragraphs before sentences, any line, or lines of code."""

_KINDS, _PARAGRAPH, _SENTENCE, _LINE, _CLAUSE, _BLANK = 5.5, 5.0, 4.0, 3.0, 2.0, 1.0
_WIDE = r"\u3041-\u3096\u309b-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(
    rf"(?P<line>\n)\s*|(?P<clause>[,;:，、；：]\s+|[，、；：])(?=\S)|[^\S\n]+|(?<=[{_WIDE}])(?=[{_WIDE}])"
)


class Place(NamedTuple):
    """A position where a chunk can end, and how good it is."""

    at: int
    level: float


class Part(NamedTuple):
    """The characters before `end` (and behind the part before) are of this style."""

    end: int
    style: Style


def best_place(text: str, low: int, high: int, parts: Iterable[Part]) -> int:
    """The best position in (low, high] to end at; `high`, or a little before it, if there is none."""
    areas = list(_areas(low, high, parts))
    good = [place for begin, end, style in areas for place in _good_places(text, begin, end, style)]
    good += [Place(end, _KINDS) for _, end, _ in areas if end < high]
    if good:
        filled = 2 / (high - low)
        return max((place.level + filled * (place.at - low), place.at) for place in good)[1]
    half = low + (high - low) // 2
    fair = [
        place for begin, end, style in areas if end > half for place in _weak_places(text, max(begin, half), end, style)
    ]
    return whole_characters(text, max((place.level, place.at) for place in fair)[1] if fair else high, low)


def beginnings(text: str, low: int, high: int, style: Style) -> list[int]:
    """The positions in (low, high) where a chunk may begin that repeats the end of the one before, in order."""
    if style == "words":
        found = [place.at for place in _weak_places(text, low, high, style)]
    else:
        found = [place.at for place in _good_places(text, low, high, style)]
    return [at for at in found if at < high]


def _areas(low: int, high: int, parts: Iterable[Part]) -> Iterator[tuple[int, int, Style]]:
    begin = low
    for end, style in parts:
        if end > begin:
            yield begin, min(end, high), style
            begin = end
        if begin >= high:
            return


def _good_places(text: str, begin: int, end: int, style: Style) -> Iterator[Place]:
    if style == "code":
        for at, level in line_starts(text, begin, end):
            yield Place(at, level)
    elif style == "lines":
        at = text.find("\n", begin, end)
        while at >= 0:
            yield Place(at + 1, _SENTENCE)
            at = text.find("\n", at + 1, end)
    elif style != "words":
        for at, is_paragraph in sentence_starts(text, begin, end):
            yield Place(at, _PARAGRAPH if is_paragraph and style == "paragraphs" else _SENTENCE)


def _weak_places(text: str, begin: int, end: int, style: Style) -> Iterator[Place]:
    for match in _WORD.finditer(text, begin):
        at = match.end()
        if at > end:
            return
        if at > begin:
            words = style == "words"
            yield Place(at, _BLANK if words else _LINE if match["line"] else _CLAUSE if match["clause"] else _BLANK)
