"""`numbers_in`: the numbers by which a text refers to passages: `[1]`, `[1, 3]`, `[1][2]`, `[2-4]`, `[^1]`, `【1】`.

| not read                 | such as                                     | because                       |
|--------------------------|---------------------------------------------|-------------------------------|
| code                     | fences of ``` and ~~~, `inline`             | `row[1]` is an index          |
| links, pictures          | `[1](url)`, `[see [1]](url)`, `<http://[1]>` | the number belongs to the link |
| reference links          | `[price][1]`, with a line `[1]: https://a`  | the number names the link     |
| escaped or other numbers | `\\[1]`, `[0]`, `[01]`, `[1.5]`              | no passage has such a number  |

Pure; the time grows with the length of the text only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentscope_rx.lazy import pattern

MAX_RANGE = 20
"""The numbers that `[2-4]` may stand for; of a longer one, only both ends are read."""

_NUMBER = r"[1-9]\d{0,5}"
_PART = rf"\^?{_NUMBER}(?:\s?[-\u2013]\s?{_NUMBER})?"
_LIST = rf"{_PART}(?:\s?[,;\uff0c\u3001]\s?{_PART}){{0,40}}"
# (OpenAI's models put the place behind a dagger: 【1†guide.md】)
_MARK = pattern(rf"(?<!\\)(?:\[\s?({_LIST})\s?\](?!\()|\u3010\s?({_LIST})\s?(?:\u2020[^\u3011\n]{{0,200}})?\u3011)")
_ENTRY = pattern(rf"({_NUMBER})(?:\s?[-\u2013]\s?({_NUMBER}))?")

_FENCE = pattern(r" {0,3}(`{3,}|~{3,})")
_TICKS = pattern(r"`+")
_LINK = pattern(
    r"!?\[(?:[^\[\]\n]|\[[^\[\]\n]{0,80}\]){0,300}\]\([^()\n]{0,500}\)|<[a-z][a-z0-9+.-]{1,20}:[^<>\s]{0,500}>", re.I
)
_REFERENCE = pattern(rf"(\[[^\[\]\n]{{1,300}}\])\[({_NUMBER})\]")
_DEFINED = pattern(rf"^ {{0,3}}\[({_NUMBER})\]:\s{{0,3}}<?(?:[a-z][a-z0-9+.-]{{1,20}}://|/|#|mailto:)", re.I | re.M)
_DEFINITION = pattern(rf"^ {{0,3}}\[{_NUMBER}\]:", re.M)


def numbers_in(text: str) -> tuple[int, ...]:
    """The numbers, each once, in the order of their first marks."""
    if "[" not in text and "\u3010" not in text:
        return ()
    prose = "\n".join(_prose(text))
    defined = {int(number) for number in _DEFINED().findall(prose)}
    prose = _LINK().sub(" ", _DEFINITION().sub(" ", prose))
    if defined:
        prose = _without_reference_links(prose, defined)
    found: dict[int, None] = {}
    for mark in _MARK().finditer(prose):
        for number in _numbers(mark[1] or mark[2]):
            found[number] = None
    return tuple(found)


def _numbers(listed: str) -> Iterator[int]:
    for first, last in _ENTRY().findall(listed):
        begin = int(first)
        end = int(last) if last else begin
        yield from range(begin, end + 1) if begin <= end < begin + MAX_RANGE else (begin, end)


def _without_reference_links(prose: str, defined: set[int]) -> str:
    """The text without `[words][1]`, where a line says what the link 1 is."""

    def replaced(found: re.Match[str]) -> str:
        stays = int(found[2]) not in defined or _MARK().fullmatch(found[1])
        return found[0] if stays else " "

    return _REFERENCE().sub(replaced, prose)


def _prose(text: str) -> Iterator[str]:
    """The paragraphs of the text without code."""
    paragraph: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opening = _FENCE().match(line)
        if fence:
            if opening is not None and opening[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if opening is not None and not (opening[1][0] == "`" and "`" in line[opening.end() :]):
            fence = opening[1]
        elif line.strip():
            paragraph.append(line)
            continue
        yield _without_spans("\n".join(paragraph))
        paragraph = []
    yield _without_spans("\n".join(paragraph))


def _without_spans(paragraph: str) -> str:
    """The paragraph without code between equal runs of backticks; a run without its like is text."""
    if "`" not in paragraph:
        return paragraph
    runs = list(_TICKS().finditer(paragraph))
    # for each run the next one of its length, from the end
    closing: dict[int, int] = {}
    closes: list[int | None] = [None] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        closes[index] = closing.get(len(runs[index][0]))
        closing[len(runs[index][0])] = index
    kept: list[str] = []
    place, index = 0, 0
    while index < len(runs):
        end = closes[index]
        if end is None:
            index += 1
            continue
        kept += [paragraph[place : runs[index].start()], " "]
        place, index = runs[end].end(), end + 1
    return "".join([*kept, paragraph[place:]])
