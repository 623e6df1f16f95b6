"""Where sentences end: in languages with spaces after a full stop, and in Chinese and Japanese without.

| an end                                                   | no end                                           |
|----------------------------------------------------------|--------------------------------------------------|
| `.`, `!`, `?`, `…` and closing quotes, then white space  | 3.14, a.b.c, example.org: no white space follows |
| `。`, `！`, `？`, `।`, `؟` and closing quotes            | Dr. Smith, e.g. this, J. R. Hartley, No. 5       |
| an empty line                                            | a small letter follows: approx. five             |
| a line that begins with a mark of a list, heading, table | 1. at the beginning of a line: an item's number  |
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLOSING = "\"'”’»」』】）)\\]》〉*_`"
_END = re.compile(
    rf"(?<![.!?…])(?P<stop>[.!?…]+)[{_CLOSING}]*\s+"
    rf"|(?<![。！？｡।॥؟۔])[。！？｡।॥؟۔]+[{_CLOSING}]*\s*"
    r"|\n\s*\n\s*"
    r"|\n(?=[ \t]*(?:[-*+•>#|]|\d{1,4}[.)])[ \t#|-])"
)
_ABBREVIATIONS = """
mr mrs ms dr prof st sr jr vs etc eg e.g ie i.e cf al fig figs no nos vol pp ed eds ch sec art inc ltd co corp dept univ
approx est gen col lt sgt capt rev hon gov sen rep pres u.s u.k a.m p.m ca bzw z.b d.h usw nr bd str ggf vgl sog inkl
evtl m.e p.ex av env
"""
_SHORT = frozenset(_ABBREVIATIONS.split())
_WORD_BEFORE = re.compile(r"[\w.]*\Z")
_ITEM = re.compile(r"(?:\A|\n)[ \t]*\(?\d+\Z")


def sentence_starts(text: str, begin: int, end: int) -> Iterator[tuple[int, bool]]:
    """The positions in (begin, end] where a sentence starts, and if it starts a paragraph. `text` goes on behind."""
    for match in _END.finditer(text, begin):
        if match.end() > end:
            return
        is_paragraph = match.group().count("\n") > 1
        if is_paragraph or match["stop"] != "." or not _goes_on(text, match):
            yield match.end(), is_paragraph


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """True if the stop belongs to an abbreviation, an initial or the number of an item."""
    following = text[match.end() : match.end() + 1]
    if following.islower():
        return True
    at = match.start()
    found = _WORD_BEFORE.search(text[max(0, at - 16) : at])
    word = found.group() if found is not None else ""
    if word.casefold() in _SHORT or (len(word) == 1 and word.isupper()):
        return True
    return word.isdigit() and _ITEM.search(text[max(0, at - 16) : at]) is not None
