"""The vectors of all visible chunks in memory: 4 bytes a number, so 100,000 chunks of 256 dimensions take 100 MB.

It follows the file: a search reads the number of changes, and loads the vectors of what became visible since. Rows are
added at the end of arrays with spare room, and rows of dead versions are left out of results until they are a tenth of
all; then the arrays are copied without them. A search works on a `View`, which later changes do not touch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.stores.sqlite.damage import LAST_KEY, MOST_DIMENSIONS, Damage, of_type
from agentscope_rx.knowledge.stores.sqlite.tables import DEAD, VISIBLE
from agentscope_rx.reactive.kernel.forking import new_lock

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

SPARE = 0.1
"""The part of the arrays that is kept free for new rows, and that dead rows may be."""
_LEAST_SPARE = 256
DIGITS = 6
"""The digits of a similarity: more would depend on the order of addition."""
_MARGIN = 3e-6
_AT_ONCE = 4096
_BLOCK = 256
_TINY, _HUGE = 1e-200, 1e200
"""Squares of lengths between these are exact enough without scaling."""
_NONE: Ints = np.empty(0, np.int64)
_NEVER = np.float32(-np.inf)


@dataclass(frozen=True, slots=True)
class View:
    """The vectors at one moment: row n is that of chunk `keys[n]` of version `documents[n]`."""

    generation: str
    dimensions: int
    changes: int
    vectors: Floats
    keys: Ints
    documents: Ints
    dead: Ints

    @property
    def count(self) -> int:
        """The rows, dead ones included."""
        return len(self.keys)

    def best(self, vector: Floats, limit: int, rows: Ints | None) -> tuple[Ints, NDArray[np.float64]]:
        """The rows (of these, if given) with the greatest cosines, in no order, with the cosines.

        There are more than `limit` if several are equally good: the caller orders and cuts them.
        """
        scores = self.vectors @ vector if rows is None else self.vectors[rows] @ vector
        if rows is None and len(self.dead):
            scores[self.dead] = _NEVER
        chosen = _greatest(scores, limit) if len(scores) > limit else np.flatnonzero(scores > _NEVER)
        if rows is not None:
            chosen = rows[chosen]
        return chosen, self.cosines(chosen, vector)

    def cosines(self, rows: Ints, vector: Floats) -> NDArray[np.float64]:
        """The cosines of these rows, the same for equal vectors."""
        wanted = vector.astype(np.float64)
        parts = [
            self.vectors[rows[start : start + _AT_ONCE]].astype(np.float64) @ wanted
            for start in range(0, len(rows), _AT_ONCE)
        ]
        if not parts:
            return np.empty(0, np.float64)
        # (+ 0.0: a rounded -0.0 becomes 0.0)
        return np.clip(np.round(np.concatenate(parts), DIGITS), -1.0, 1.0) + 0.0

    def rows_of(self, documents: Ints | None, chunks: Ints | None) -> Ints:
        """The live rows of these versions and of these chunks; None is all."""
        fits = np.ones(self.count, np.bool_)
        if documents is not None:
            fits &= np.isin(self.documents, documents)
        if chunks is not None:
            fits &= np.isin(self.keys, chunks)
        fits[self.dead] = False
        return np.flatnonzero(fits)


EMPTY = View("", 0, 0, np.empty((0, 0), np.float32), _NONE, _NONE, _NONE)


class Matrix:
    """The latest view, brought up to date in a transaction of the caller."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._view = EMPTY
        # the arrays that the view is the begin of
        self._vectors: Floats = EMPTY.vectors
        self._keys: Ints = _NONE
        self._documents: Ints = _NONE

    def forget(self) -> None:
        """Free the memory."""
        with self._lock:
            self._set(EMPTY, EMPTY.vectors, _NONE, _NONE)

    def at(self, connection: sqlite3.Connection) -> View | None:
        """The vectors as the transaction sees them; None if others have gone beyond it: begin a later one."""
        changes, generation, dimensions = _state(connection)
        view = self._view
        if view.changes == changes and view.generation == generation:
            return view
        with self._lock:
            view = self._view
            if view.generation != generation:
                self._load(connection, changes, generation, dimensions)
            elif view.changes > changes:
                return None
            elif not self._follow(connection, changes):
                self._load(connection, changes, generation, dimensions)
            return self._view

    # --- bringing up to date, under the lock ---------------------------------------------------------------------

    def _follow(self, connection: sqlite3.Connection, changes: int) -> bool:
        """Apply the changes since the view; False if they are not known any more, or are most of the file."""
        view = self._view
        if view.changes == changes:
            return True
        rows = connection.execute(
            "SELECT number, document, state FROM kb_changes WHERE number > ? ORDER BY number", (view.changes,)
        ).fetchall()
        if not rows or rows[0][0] != view.changes + 1:
            return False
        states = {document: state for _, document, state in rows}
        gone = [document for document, state in states.items() if state == DEAD]
        new = [document for document, state in states.items() if state == VISIBLE]
        keys, documents, vectors = _read(connection, view.dimensions, new)
        self._append(keys, documents, vectors)
        dead = np.union1d(view.dead, np.flatnonzero(np.isin(self._documents[: view.count], np.array(gone, np.int64))))
        self._show(view.count + len(keys), dead.astype(np.int64), changes)
        if len(dead) > max(_LEAST_SPARE, int(SPARE * self._view.count)):
            self._compact()
        return True

    def _load(self, connection: sqlite3.Connection, changes: int, generation: str, dimensions: int) -> None:
        # the old arrays are freed before the new ones are made
        self._set(EMPTY, EMPTY.vectors, _NONE, _NONE)
        # (by what is there, and not by a number that is written beside it: a file may lie)
        (size,) = connection.execute(
            "SELECT coalesce(sum(length(v.vectors)), 0) FROM kb_documents d JOIN kb_vectors v ON v.document = d.key"
            " WHERE d.state = 1"
        ).fetchone()
        room = _room(size // max(1, 4 * dimensions))
        vectors, keys, documents = np.empty((room, dimensions), np.float32), *_ints(room, 2)
        filled = 0
        for first, document, blob in connection.execute(
            "SELECT v.first, v.document, v.vectors FROM kb_documents d JOIN kb_vectors v ON v.document = d.key"
            " WHERE d.state = 1"
        ):
            part = _vectors_in(first, document, blob, dimensions)
            end = filled + len(part)
            vectors[filled:end] = part
            keys[filled:end] = np.arange(first, first + len(part))
            documents[filled:end] = document
            filled = end
        self._set(
            View(generation, dimensions, changes, vectors[:filled], keys[:filled], documents[:filled], _NONE),
            vectors,
            keys,
            documents,
        )

    def _append(self, keys: Ints, documents: Ints, vectors: Floats) -> None:
        count, more = self._view.count, len(keys)
        if count + more > len(self._keys):
            room = _room(count + more)
            wider, longer, further = np.empty((room, self._view.dimensions), np.float32), *_ints(room, 2)
            wider[:count], longer[:count], further[:count] = self._view.vectors, self._view.keys, self._view.documents
            self._vectors, self._keys, self._documents = wider, longer, further
        self._vectors[count : count + more] = vectors
        self._keys[count : count + more] = keys
        self._documents[count : count + more] = documents

    def _compact(self) -> None:
        view = self._view
        kept = np.ones(view.count, np.bool_)
        kept[view.dead] = False
        vectors, keys, documents = view.vectors[kept], view.keys[kept], view.documents[kept]
        compact = View(view.generation, view.dimensions, view.changes, vectors, keys, documents, _NONE)
        self._set(compact, vectors, keys, documents)

    def _show(self, count: int, dead: Ints, changes: int) -> None:
        view = self._view
        vectors, keys, documents = self._vectors[:count], self._keys[:count], self._documents[:count]
        self._view = View(view.generation, view.dimensions, changes, vectors, keys, documents, dead)

    def _set(self, view: View, vectors: Floats, keys: Ints, documents: Ints) -> None:
        self._view, self._vectors, self._keys, self._documents = view, vectors, keys, documents


def _greatest(scores: Floats, limit: int) -> Ints:
    """The places of the `limit` greatest scores, and of those that may be equal to the least of them."""
    blocks = len(scores) // _BLOCK
    if blocks <= limit:
        return _at_least(scores, limit)
    # so many scores reach the best one of the `limit`th best block: only blocks with such a score are looked at
    parts = scores[: blocks * _BLOCK].reshape(blocks, _BLOCK)
    tops = parts.max(axis=1)
    good = np.flatnonzero(tops >= np.partition(tops, blocks - limit)[blocks - limit] - _MARGIN)
    near = (good[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
    near = np.concatenate([near, np.arange(blocks * _BLOCK, len(scores))])
    return near[_at_least(scores[near], limit)]


def _at_least(scores: Floats, limit: int) -> Ints:
    """The places of the scores that may be among the `limit` greatest."""
    least = np.partition(scores, len(scores) - limit)[len(scores) - limit] - _MARGIN
    return np.flatnonzero(scores >= max(least, np.float32(-2)))


def unit(vectors: Sequence[Sequence[float]] | Floats, dimensions: int) -> Floats:
    """These vectors with length 1, one a row; a vector of zeros stays as it is."""
    given = np.asarray(vectors, np.float64).reshape(-1, dimensions)
    squares = np.einsum("ij,ij->i", given, given)
    if squares.min(initial=1.0) > _TINY and squares.max(initial=1.0) < _HUGE:
        return (given / np.sqrt(squares)[:, None]).astype(np.float32)
    # (scaled first: the square of a great number is infinite)
    greatest = np.abs(given).max(axis=1, keepdims=True, initial=0.0)
    given = given / np.where(greatest > 0, greatest, 1.0)
    lengths = np.linalg.norm(given, axis=1, keepdims=True)
    return (given / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def _read(connection: sqlite3.Connection, dimensions: int, documents: Sequence[int]) -> tuple[Ints, Ints, Floats]:
    """Keys, versions and vectors of the chunks of these versions."""
    keys, versions = [_NONE], [_NONE]
    vectors: list[Floats] = [np.empty((0, dimensions), np.float32)]
    for document in documents:
        rows: list[tuple[int, bytes]] = connection.execute(
            "SELECT first, vectors FROM kb_vectors WHERE document = ?", (document,)
        ).fetchall()
        for first, blob in rows:
            part = _vectors_in(first, document, blob, dimensions)
            keys.append(np.arange(first, first + len(part)))
            versions.append(np.full(len(part), document, np.int64))
            vectors.append(part)
    return np.concatenate(keys), np.concatenate(versions), np.concatenate(vectors)


def _state(connection: sqlite3.Connection) -> tuple[int, str, int]:
    """The number of changes, the generation and the dimensions."""
    row = connection.execute("SELECT changes, generation, dimensions FROM kb_state").fetchone()
    if row is None:
        raise Damage("kb_state is empty")
    changes, generation, dimensions = row
    if not 0 <= of_type(dimensions, int, "the number of dimensions") <= MOST_DIMENSIONS:
        raise Damage(f"the number of dimensions is {dimensions}")
    return of_type(changes, int, "the number of changes"), of_type(generation, str, "the generation"), dimensions


def _vectors_in(first: object, document: object, blob: object, dimensions: int) -> Floats:
    """The vectors of a row; `Damage` if they are not whole, or hold what is no finite number."""
    if not 0 <= of_type(first, int, "the key of a chunk") < LAST_KEY or type(document) is not int:
        raise Damage(f"the key of a chunk is {first}, of the document {document!r:.60}")
    data = of_type(blob, bytes, "a vector")
    if not dimensions or len(data) % (4 * dimensions):
        raise Damage(f"{len(data):,} bytes are not vectors of {dimensions} dimensions")
    flat: Floats = np.frombuffer(data, np.float32)
    # (NaN and infinity make the sum one of them; finite vectors have length 1)
    if not np.isfinite(flat @ flat):
        raise Damage("a vector has NaN or infinity")
    return flat.reshape(-1, dimensions)


def _room(count: int) -> int:
    return count + max(_LEAST_SPARE, int(count * SPARE))


def _ints(count: int, how_many: int) -> list[Any]:
    return [np.empty(count, np.int64) for _ in range(how_many)]
