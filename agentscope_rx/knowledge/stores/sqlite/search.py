"""Searching: the nearest chunks by the matrix in memory, the matching ones by the full-text index of the file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from agentscope_rx.errors import KnowledgeStorageError
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.stores.arguments import check_vector
from agentscope_rx.knowledge.stores.sqlite.conditions import Sql, compiled
from agentscope_rx.knowledge.stores.sqlite.damage import Damage
from agentscope_rx.knowledge.stores.sqlite.database import Database
from agentscope_rx.knowledge.stores.sqlite.matrix import Floats, Ints, Matrix, View, unit
from agentscope_rx.knowledge.stores.sqlite.rows import chunks_by_key, place
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages.terms import query_terms

T = TypeVar("T")

_TRIES = 100
COMMON = 5000
"""A word in more chunks than this one is common: it ranks chunks that rarer words find."""


def nearest(
    database: Database, matrix: Matrix, vector: Sequence[float], limit: int, where: Where | None
) -> tuple[Found, ...]:
    """The chunks with the greatest cosines, best first."""

    def search(connection: sqlite3.Connection, view: View) -> tuple[Found, ...]:
        wanted = _unit(vector, view)
        rows = _rows(connection, view, where)
        if not view.count or (rows is not None and not len(rows)):
            return ()
        chosen, cosines = view.best(wanted, limit, rows)
        keys = view.keys[chosen].tolist()
        scores = dict(zip(keys, cosines.tolist(), strict=True))
        if len(keys) > limit:
            keys = _first(connection, scores, limit)
        return _found(connection, keys, lambda key: (scores[key], None))

    return _at_one_moment(database, matrix, search) or ()


def matching(
    database: Database,
    matrix: Matrix,
    text: str,
    limit: int,
    where: Where | None,
    vector: Sequence[float] | None,
) -> tuple[Found, ...]:
    """The chunks that share words with the text, the most relevant first."""
    terms = [term.expression for term in query_terms(text, names=True)]

    def words(connection: sqlite3.Connection) -> dict[int, float]:
        every = " OR ".join(terms)
        rare = _rare(connection, terms, every)
        if rare:
            found = _relevances(connection, f"({rare}) AND ({every})", limit, where)
            if len(found) == limit:
                return found
        return _relevances(connection, every, limit, where)

    def beside(connection: sqlite3.Connection, view: View) -> tuple[Found, ...]:
        assert vector is not None
        wanted = _unit(vector, view)
        relevances = words(connection) if terms else {}
        rows = np.flatnonzero(np.isin(view.keys, np.array(list(relevances), np.int64)))
        cosines = dict(zip(view.keys[rows].tolist(), view.cosines(rows, wanted).tolist(), strict=True))
        if len(cosines) < len(relevances):
            raise Damage("there are chunks without vectors")
        return _found(connection, list(relevances), lambda key: (cosines[key], relevances[key]))

    if vector is not None:
        return _at_one_moment(database, matrix, beside) or ()
    if not terms:
        return ()
    with database.read() as connection:
        if connection is None:
            return ()
        relevances = words(connection)
        return _found(connection, list(relevances), lambda key: (None, relevances[key]))


def _relevances(connection: sqlite3.Connection, match: str, limit: int, where: Where | None) -> dict[int, float]:
    """The keys of the most relevant chunks."""
    conditions = compiled(where)
    given = [each for each in (conditions.documents, conditions.chunks) if each is not None]
    rows = connection.execute(
        "SELECT c.key, bm25(kb_words) AS cost FROM kb_words w CROSS JOIN kb_chunks c ON c.key = w.rowid"  # noqa: S608
        " CROSS JOIN kb_documents d ON d.key = c.document WHERE kb_words MATCH ? AND d.state = 1"
        f"{''.join(f' AND ({each.text})' for each in given)} ORDER BY cost, d.id, c.number LIMIT ?",
        (match, *(value for each in given for value in each.values), limit),
    )
    return {key: max(0.0, -cost) for key, cost in rows}


def _rare(connection: sqlite3.Connection, terms: Sequence[str], every: str) -> str:
    """The terms that few chunks have, if others are in many; '' if all terms are to be looked at.

    The relevance of one chunk costs microseconds, and common words are in most chunks: so chunks with a rarer word are
    ranked, by all words.
    """
    if len(terms) < 2 or _count(connection, every) <= COMMON:
        return ""
    counts = [_count(connection, term) for term in terms]
    return " OR ".join(term for term, count in zip(terms, counts, strict=True) if 0 < count <= COMMON)


def _count(connection: sqlite3.Connection, match: str) -> int:
    return connection.execute("SELECT count(*) FROM kb_words WHERE kb_words MATCH ?", (match,)).fetchone()[0]


def _at_one_moment(database: Database, matrix: Matrix, search: Callable[[sqlite3.Connection, View], T]) -> T | None:
    """Search in a transaction and in the vectors of the same moment; None if there is no file."""
    for _ in range(_TRIES):
        with database.read() as connection:
            if connection is None:
                return None
            view = matrix.at(connection)
            if view is not None:
                return search(connection, view)
    raise KnowledgeStorageError(database.path, "it changes faster than a search can begin", retryable=True)


def _unit(vector: Sequence[float], view: View) -> Floats:
    if not view.dimensions:
        return np.empty(0, np.float32)
    return unit([check_vector(vector, view.dimensions)], view.dimensions)[0]


def _rows(connection: sqlite3.Connection, view: View, where: Where | None) -> Ints | None:
    """The rows of the chunks that fulfil the conditions; None is all."""
    conditions = compiled(where)
    if conditions.documents is None and conditions.chunks is None:
        return None
    documents = _keys(connection, "SELECT d.key FROM kb_documents d WHERE d.state = 1 AND", conditions.documents)
    chunks = _keys(connection, "SELECT c.key FROM kb_chunks c WHERE", conditions.chunks)
    return view.rows_of(documents, chunks)


def _keys(connection: sqlite3.Connection, select: str, condition: Sql | None) -> Ints | None:
    if condition is None:
        return None
    rows = connection.execute(f"{select} ({condition.text})", condition.values)
    return np.fromiter((key for (key,) in rows), np.int64)


def _first(connection: sqlite3.Connection, scores: dict[int, float], limit: int) -> list[int]:
    """The best of these keys; those of equal score by document id and number."""
    ordered = sorted(scores.values(), reverse=True)
    least = ordered[limit - 1]
    sure = [key for key, score in scores.items() if score > least]
    tied = [key for key, score in scores.items() if score == least]
    rows = connection.execute(
        "SELECT c.key FROM json_each(?) j JOIN kb_chunks c ON c.key = j.value JOIN kb_documents d ON d.key = c.document"
        " ORDER BY d.id, c.number LIMIT ?",
        (json.dumps(tied), limit - len(sure)),
    )
    return [*sure, *(key for (key,) in rows)]


def _found(
    connection: sqlite3.Connection,
    keys: Sequence[int],
    scores: Callable[[int], tuple[float | None, float | None]],
) -> tuple[Found, ...]:
    """The chunks with these keys, with similarity and relevance, best first."""
    found = [
        Found(chunk=chunk, similarity=similarity, relevance=relevance)
        for key, chunk in chunks_by_key(connection, keys).items()
        for similarity, relevance in [scores(key)]
    ]
    return tuple(sorted(found, key=lambda each: (-_rank(each), *place(each))))


def _rank(found: Found) -> float:
    return (found.similarity if found.relevance is None else found.relevance) or 0.0
