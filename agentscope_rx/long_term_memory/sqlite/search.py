"""Finding facts: one rank by words (BM25), one by meaning (cosine), joined by reciprocal rank fusion.

    words     1. a   2. b   3. c
    meaning   1. b   2. d                 score = sum of 1 / (60 + rank)        b, a, d, c

Ranks are joined, not scores, because BM25 and cosine have no common scale. Facts of equal score are ordered by their
time, the newest first. Each fact is visible only in the scopes that `MemoryScope` describes.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from operator import mul
from typing import Any, NamedTuple

from agentscope_rx.long_term_memory.note import MemoryScope
from agentscope_rx.long_term_memory.sqlite.facts import COLUMNS, Fact, fact_of
from agentscope_rx.messages.terms import match_of

POOL = 50
"""The best facts of each rank that are joined."""
_K = 60
_UNLIKE = -2.0

OWN = "f.user = ? AND f.agent IN ('', ?) AND f.session IN ('', ?)"
"""The condition for facts of a scope, old versions included; its values are `names(scope)`."""
VISIBLE = f"{OWN} AND f.ended IS NULL"
"""The condition for facts that a scope sees; the same values."""


class Asked(NamedTuple):
    """What is searched for: a text, and its vector by an embedding model of this name, if there is one."""

    text: str
    vector: Sequence[float] | None = None
    vector_model: str = ""
    min_similarity: float = 0.0


class Found(NamedTuple):
    """A fact and its score."""

    fact: Fact
    score: float


def names(scope: MemoryScope) -> tuple[str, str, str]:
    """The scope as it is stored: '' for None."""
    return scope.user or "", scope.agent or "", scope.session or ""


def owner_of(user: str) -> str:
    """A word for the user in the index, so that a search reads only this user's facts."""
    return "u" + sha256(user.encode()).hexdigest()[:24]


def find(connection: sqlite3.Connection, asked: Asked, scope: MemoryScope, limit: int) -> list[Found]:
    """The best facts."""
    pool = max(POOL, limit)
    ranks = [_by_words(connection, asked.text, scope, pool)]
    if asked.vector is not None:
        ranks.append(_by_meaning(connection, asked, scope, pool))
    scores: dict[int, float] = {}
    for rank in ranks:
        for number, place in rank.items():
            scores[number] = scores.get(number, 0.0) + 1 / (_K + place)
    if not scores:
        return []
    marks = ", ".join("?" * len(scores))
    rows = connection.execute(f"SELECT number, {COLUMNS} FROM ltm_facts WHERE number IN ({marks})", tuple(scores))  # noqa: S608
    found = [(row["number"], Found(fact_of(row), scores[row["number"]])) for row in rows]
    # (equal ranks give equal scores: the sums are rounded against the order of addition)
    found.sort(key=lambda each: (round(each[1].score, 9), each[1].fact.updated, each[0]), reverse=True)
    return [each for _, each in found[:limit]]


def _by_words(connection: sqlite3.Connection, text: str, scope: MemoryScope, pool: int) -> dict[int, int]:
    """Fact number -> rank from 1; facts with equal BM25 have one rank."""
    match = match_of(text)
    if not match:
        return {}
    rows = connection.execute(
        "SELECT f.number, bm25(ltm_words, 0.0, 1.0) AS cost FROM ltm_words "  # noqa: S608
        f"JOIN ltm_facts f ON f.number = ltm_words.rowid WHERE ltm_words MATCH ? AND {VISIBLE} "
        "ORDER BY cost, f.number DESC LIMIT ?",
        (f'owner : "{owner_of(scope.user or "")}" AND terms : ({match})', *names(scope), pool),
    )
    return _ranks([(row["number"], -row["cost"]) for row in rows])


def _by_meaning(connection: sqlite3.Connection, asked: Asked, scope: MemoryScope, pool: int) -> dict[int, int]:
    assert asked.vector is not None
    rows = connection.execute(
        "SELECT f.number, v.vector FROM ltm_facts f JOIN ltm_vectors v ON v.number = f.number "  # noqa: S608
        f"WHERE {VISIBLE} AND v.model = ?",
        (*names(scope), asked.vector_model),
    ).fetchall()
    wanted = array("f", unit(asked.vector))
    near = zip((row["number"] for row in rows), _dots([row["vector"] for row in rows], wanted), strict=True)
    kept = [(number, likeness) for number, likeness in near if likeness >= asked.min_similarity]
    kept.sort(key=lambda each: -each[1])
    return _ranks(kept[:pool])


def _ranks(ordered: Sequence[tuple[int, float]]) -> dict[int, int]:
    ranks: dict[int, int] = {}
    last, place = None, 0
    for count, (number, value) in enumerate(ordered, 1):
        value = round(value, 9)
        if value != last:
            last, place = value, count
        ranks[number] = place
    return ranks


# --- vectors ----------------------------------------------------------------------------------------------------------


def unit(vector: Sequence[float]) -> Sequence[float]:
    """The vector with length 1; a vector of zeros stays as it is."""
    length = sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else vector


def blob(vector: Sequence[float]) -> bytes:
    """The vector as it is stored: 4-byte floats of length 1."""
    return array("f", unit(vector)).tobytes()


def _dots(blobs: Sequence[bytes], wanted: array[float]) -> list[float]:
    """The cosine of each vector and this one; less than any for one with another number of dimensions."""
    size = len(wanted) * wanted.itemsize
    if len(blobs) > 64 and all(len(each) == size for each in blobs) and (numpy := _numpy()) is not None:
        matrix = numpy.frombuffer(b"".join(blobs), dtype=numpy.float32).reshape(len(blobs), len(wanted))
        return [float(each) for each in matrix @ numpy.asarray(wanted, dtype=numpy.float32)]
    return [sum(map(mul, _floats(each), wanted)) if len(each) == size else _UNLIKE for each in blobs]


def _floats(stored: bytes) -> array[float]:
    found: array[float] = array("f")
    found.frombytes(stored)
    return found


def _numpy() -> Any:
    """NumPy, if it is installed: it is no dependency, and only faster."""
    return import_module("numpy") if find_spec("numpy") is not None else None
