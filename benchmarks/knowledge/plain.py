"""What retrieval is compared with: BM25 and nearest vectors in their plain forms, over the same chunks."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Words in lower case; of Chinese the characters and the pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if re.match(rf"[{_UNSPACED}]", word):
            found += [*word, *(word[i : i + 2] for i in range(len(word) - 1))]
        else:
            found.append(word)
    return found


class PlainBM25:
    """Okapi BM25 as in the textbook: no stop words, no stemming."""

    def __init__(self, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> None:
        self._k1 = k1
        self._postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = np.zeros(len(texts))
        for number, text in enumerate(texts):
            counts = Counter(words(text))
            lengths[number] = sum(counts.values())
            for word, count in counts.items():
                self._postings[word].append((number, count))
        self._norms = k1 * (1 - b + b * lengths / max(1.0, float(lengths.mean())))

    def best(self, query: str, limit: int) -> list[int]:
        """The numbers of the best texts."""
        scores = np.zeros(len(self._norms))
        for word in words(query):
            if found := self._postings.get(word):
                numbers, counts = (np.array(side) for side in zip(*found, strict=True))
                rarity = math.log(1 + (len(scores) - len(found) + 0.5) / (len(found) + 0.5))
                scores[numbers] += rarity * counts * (self._k1 + 1) / (counts + self._norms[numbers])
        return [int(number) for number in _best(scores, limit) if scores[number] > 0]


class PlainVectors:
    """One product of a matrix and a vector."""

    def __init__(self, vectors: Sequence[Sequence[float]]) -> None:
        self._matrix: Vectors = np.array(vectors, "float32")

    def best(self, query: Sequence[float], limit: int) -> list[int]:
        """The numbers of the nearest vectors."""
        return [int(number) for number in _best(self._matrix @ np.array(query, "float32"), limit)]


def _best(scores: NDArray[np.floating], limit: int) -> NDArray[np.intp]:
    some = np.argpartition(-scores, min(limit, len(scores) - 1))[:limit]
    return some[np.argsort(-scores[some], kind="stable")]
