"""Vectors of length 1, whose inner product is their cosine similarity."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


def unit(vector: Sequence[float]) -> Sequence[float]:
    """The vector with length 1; one of zeros stays as it is."""
    # (by the greatest first: the squares of very small and of very large numbers are no floats)
    greatest = max(map(abs, vector), default=0.0)
    if not greatest:
        return vector
    scaled = [x / greatest for x in vector]
    length = sqrt(sum(x * x for x in scaled))
    return [x / length for x in scaled]
