"""A text as a sparse vector of its words, for databases that have no BM25 of their own.

    index   weight of a word = its count, saturated and normalized by the length of the text      (the part of BM25
    query   weight of a word = how rare it is                                                       in each text)
            their inner product is BM25, but for the average length, which is taken for constant

A word is a number, its CRC-32. English plurals lose their end and Latin letters their accents. Of a script without
spaces each pair of characters is a word, and each character, so that a query of one character finds something.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from typing import NamedTuple
from zlib import crc32

from agentscope_rx.messages.terms import index_terms, query_terms

SIZE = 1_000_000_000
"""The numbers of words are below it; it is the most dimensions of a `sparsevec`."""
_K1, _B = 1.2, 0.75
_AVERAGE = 150
_UNSPACED = "\u0e00"
"""The scripts without spaces are behind it."""


class Sparse(NamedTuple):
    """The words of a text, and what each weighs."""

    words: Sequence[int]
    weights: Sequence[float]

    def pack(self) -> bytes:
        """The vector as bytes."""
        return array("i", self.words).tobytes() + array("f", self.weights).tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Sparse:
        """The vector of these bytes."""
        words, weights = array("i"), array("f")
        words.frombytes(data[: len(data) // 2])
        weights.frombytes(data[len(data) // 2 :])
        return cls(words, weights)


def index_words(text: str) -> Sparse:
    """What is stored for a text."""
    counts = Counter(word for term in index_terms(text, names=True).split() for word in _stored(term))
    norm = _K1 * (1 - _B + _B * counts.total() / _AVERAGE)
    # (two words of one number count as one)
    numbers: Counter[int] = Counter()
    for word, number in counts.items():
        numbers[_number(word)] += number
    ordered = sorted(numbers.items())
    return Sparse([number for number, _ in ordered], [n * (_K1 + 1) / (n + norm) for _, n in ordered])


def query_words(text: str) -> list[int]:
    """The words that a query asks for."""
    terms = query_terms(text, names=True)
    return list(dict.fromkeys(_number(word) for term in terms for word in _split(term.text)))


def rarity(found_in: int, of: int) -> float:
    """The weight of a word that is in so many of the chunks."""
    return log(1 + (of - found_in + 0.5) / (found_in + 0.5))


def _stored(term: str) -> Iterator[str]:
    for word in _split(term):
        yield word
        if len(word) == 2 and word[0] >= _UNSPACED:
            yield word[0]


def _split(term: str) -> Iterator[str]:
    for word in term.replace("_", " ").split():
        yield _stem(word) if word.isascii() else _plain(word)


def _plain(word: str) -> str:
    """The word without the accents of Latin, Greek and Cyrillic letters."""
    if word[0] >= _UNSPACED:
        return word
    return "".join(each for each in unicodedata.normalize("NFKD", word) if not unicodedata.combining(each))


def _stem(word: str) -> str:
    """The word without the end of an English plural (Harman's S-stemmer)."""
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]


def _number(word: str) -> int:
    return crc32(word.encode()) % SIZE
