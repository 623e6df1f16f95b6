"""Words of a text as evidence: what two texts share, in meaning or in shape. Pure.

A word counts by its stem; function words do not count. A word that is not language counts by its shape:

| shape      | such as                   |
|------------|---------------------------|
| `<number>` | 12, 3.5, 10%, 17:30       |
| `<sign>`   | +, *, =                   |
| `<file>`   | notes.txt, docs/index.md  |
| `<path>`   | docs/api                  |
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

Features = frozenset[str]

_TOKEN = re.compile(r"[\w./:*+^%()=@-]+")
_NUMBER = re.compile(r"\d[\d.,:]*%?")
_SIGN = re.compile(r"[-+*/^%=]+")
_FILE = re.compile(r".*\w\.[A-Za-z]\w*")
_PATH = re.compile(r".*\w/.*")
_ENDINGS = ("ing", "es", "ed", "s")
_SHORTEST_STEM = 4
_GRAMMAR = """
a an the is are was were be been am it its in on at of to for from by and or as with what which who whom whose how much
does do did me my mine you your yours we us our i he she they them this that these those there here have has had can
could will would shall should may might must if then so not no yes please just about into than also out up when where
why any some all tell show give get let want need help thank thanks hello hi
"""
_FUNCTION_WORDS = frozenset(_GRAMMAR.split())


def words(text: str) -> list[str]:
    """The words of a text, bare of the punctuation around them."""
    bare = (token.strip("()").rstrip(".:") for token in _TOKEN.findall(text))
    return [word for word in bare if word]


def is_function_word(word: str) -> bool:
    """Whether a word carries grammar and no matter."""
    return word.lower() in _FUNCTION_WORDS


def shape(word: str) -> str | None:
    """The shape of a word that is not language; None of one that is."""
    if _NUMBER.fullmatch(word):
        return "<number>"
    if _SIGN.fullmatch(word):
        return "<sign>"
    if _FILE.fullmatch(word):
        return "<file>"
    return "<path>" if _PATH.fullmatch(word) else None


def is_name(word: str, *, first: bool = False) -> bool:
    """Whether a word looks like a name: a path, an identifier, capitals (a sentence's `first` word has one anyway)."""
    if shape(word) in ("<file>", "<path>"):
        return True
    looked_at = word[1:] if first else word
    return "_" in word or any(letter.isupper() for letter in looked_at)


def stem(word: str) -> str:
    """A word without the ending that grammar gives it."""
    word = word.lower()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def feature(word: str) -> str:
    """What a word counts as."""
    return shape(word) or stem(word)


def features(text: str) -> Features:
    """The features of a text's words, function words left out."""
    return frozenset(feature(word) for word in words(text) if not is_function_word(word))


def matter(text: str) -> Features:
    """The features of a text's words, but a number counts as itself."""
    counting = (word for word in words(text) if not is_function_word(word))
    return frozenset(word if shape(word) == "<number>" else feature(word) for word in counting)


def shapes(text: str) -> Features:
    """The shapes in a text alone."""
    return frozenset(found for word in words(text) if (found := shape(word)) is not None)


def rarity(documents: Iterable[Features]) -> dict[str, float]:
    """How much each feature tells: the more, the fewer of the documents have it."""
    listed = list(documents)
    counts = Counter(found for document in listed for found in document)
    return {found: math.log(1 + len(listed) / count) for found, count in counts.items()}


def overlaps(query: Features, documents: Sequence[Features]) -> list[float]:
    """For each document the sum of what it shares with the query, each feature by its rarity."""
    weight = rarity(documents)
    return [sum(weight[found] for found in query & document) for document in documents]
