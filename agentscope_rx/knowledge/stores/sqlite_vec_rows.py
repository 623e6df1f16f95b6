"""What a `SqliteVecChunkStore` reads and writes inside a transaction."""

# ruff: noqa: S608 (the texts of statements are made of texts of this library; values are bound)

from __future__ import annotations

from collections.abc import Sequence

import apsw

from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import Indexed
from agentscope_rx.knowledge.stores.arguments import check_vector
from agentscope_rx.knowledge.stores.best import Best, rounded
from agentscope_rx.knowledge.stores.records import chunk_of, document_of, document_record, fields_of
from agentscope_rx.knowledge.stores.spool import Spool, unit_floats
from agentscope_rx.knowledge.stores.sqlite_vec_conditions import Sql, conditions, fields_json
from agentscope_rx.knowledge.stores.sqlite_vec_file import info_of, rows, value
from agentscope_rx.knowledge.where import Where

_PAGE = 256
"""The documents that are read at once."""
_MOST = 4096
"""The most neighbours that `vec0` returns; for more, the distance of each vector is calculated."""

_JOINED = "chunks c JOIN documents d ON d.number = c.document"
_FOUND = f"SELECT d.record, c.record, found.score, {{}} FROM {_JOINED} JOIN found ON c.number = found.number"
_COSINE = "(SELECT vec_distance_cosine(v.vector, ?) FROM vectors v WHERE v.rowid = c.number)"


def replace(db: apsw.Connection, spool: Spool, fingerprint: str) -> None:
    """Put the document with these rows in the place of the one that is there."""
    document = spool.document
    forget(db, document.id)
    number = value(
        db,
        "INSERT INTO documents (id, chunks, fingerprint, record, fields) VALUES (?, ?, ?, ?, ?) RETURNING number",
        *(document.id, spool.count, fingerprint, document_record(document), fields_json(fields_of(document))),
    )
    add = "INSERT INTO chunks (document, place, page, kind, blank, record) VALUES (?, ?, ?, ?, ?, ?) RETURNING number"
    for row in spool.rows():
        blank = not any(row.vector)
        chunk = value(db, add, number, row.number, row.page, row.kind, blank, row.record)
        rows(db, "INSERT INTO words (rowid, terms) VALUES (?, ?)", chunk, row.words.decode())
        if not blank:
            rows(db, "INSERT INTO vectors (rowid, vector) VALUES (?, ?)", chunk, row.vector)


def forget(db: apsw.Connection, id: str) -> bool:
    """Remove this document; False if it is not there."""
    found = rows(db, "SELECT number FROM documents WHERE id = ?", id)
    if not found:
        return False
    number = found[0][0]
    chunks = [each[0] for each in rows(db, "SELECT number FROM chunks WHERE document = ?", number)]
    for each in chunks:
        rows(db, "DELETE FROM words WHERE rowid = ?", each)
        rows(db, "DELETE FROM vectors WHERE rowid = ?", each)
    rows(db, "DELETE FROM chunks WHERE document = ?", number)
    rows(db, "DELETE FROM documents WHERE number = ?", number)
    return True


def documents_from(db: apsw.Connection, sign: str, id: str) -> list[Indexed]:
    """Some documents from this id on, in order."""
    found = rows(
        db,
        f"SELECT record, chunks, fingerprint FROM documents WHERE id {sign} ? ORDER BY id LIMIT {_PAGE}",
        id,
    )
    return [Indexed(document=document_of(each[0]), chunks=each[1], fingerprint=each[2]) for each in found]


def nearest(db: apsw.Connection, vector: Sequence[float], best: Best, where: Where | None) -> tuple[Found, ...]:
    """The chunks with the greatest cosine similarity."""
    if (info := info_of(db)) is None:
        return ()
    wanted = unit_floats(check_vector(vector, info.dimensions)).tobytes()
    narrow = conditions(where)
    while True:
        query = _blank(narrow, best.ask) if not any(wanted) else _near(narrow, wanted, best.ask)
        found = [
            Found(chunk=chunk_of(document_of(document), chunk), similarity=_similarity(distance))
            for document, chunk, distance, _ in rows(db, query.text, *query.values)
        ]
        if (result := best.take(found)) is not None:
            return result


def matching(
    db: apsw.Connection, match: str, best: Best, where: Where | None, vector: Sequence[float] | None
) -> tuple[Found, ...]:
    """The chunks with the greatest BM25 of the words."""
    if (info := info_of(db)) is None:
        return ()
    wanted = None if vector is None else unit_floats(check_vector(vector, info.dimensions)).tobytes()
    narrow = conditions(where)
    query = Sql()
    query.text = (
        "WITH found (number, score) AS (SELECT words.rowid, -bm25(words) FROM words "
        f"WHERE words MATCH ?{_within(narrow, 'words.rowid')} ORDER BY rank LIMIT ?) "
        + _FOUND.format("NULL" if wanted is None else _COSINE)
    )
    while True:
        query.values = [match, *narrow.values, best.ask, *([] if wanted is None else [wanted])]
        found = [
            Found(
                chunk=chunk_of(document_of(document), chunk),
                relevance=round(score, 6),
                similarity=None if wanted is None else _similarity(distance),
            )
            for document, chunk, score, distance in rows(db, query.text, *query.values)
        ]
        if (result := best.take(found)) is not None:
            return result


def _near(narrow: Sql, wanted: bytes, ask: int) -> Sql:
    """The vectors that are nearest. One of zeros is not among them, and has the distance of what is like nothing."""
    near = (
        f"SELECT rowid, distance FROM vectors WHERE vector MATCH ? AND k = ?{_within(narrow, 'rowid')}"
        if ask <= _MOST
        else "SELECT rowid, vec_distance_cosine(vector, ?) AS distance FROM vectors "
        f"WHERE ? > 0{_within(narrow, 'rowid')}"
    )
    blank = f"SELECT number, 1.0 FROM chunks AS b WHERE blank{_within(narrow, 'b.number')}"
    query = Sql()
    query.text = f"WITH found (number, score) AS ({near} UNION ALL {blank} ORDER BY 2 LIMIT ?) " + _FOUND.format("NULL")
    query.values = [wanted, ask, *narrow.values, *narrow.values, ask]
    return query


def _blank(narrow: Sql, ask: int) -> Sql:
    """Any chunks: all of them are equally far from a query of zeros."""
    narrowed = f"WHERE {narrow.text} " if narrow.text else ""
    query = Sql()
    query.text = (
        f"WITH found (number, score) AS (SELECT c.number, 1.0 FROM {_JOINED} {narrowed}"
        "ORDER BY d.id, c.place LIMIT ?) " + _FOUND.format("NULL")
    )
    query.values = [*narrow.values, ask]
    return query


def _within(narrow: Sql, number: str) -> str:
    return f" AND {number} IN (SELECT c.number FROM chunks c WHERE {narrow.text})" if narrow.text else ""


def _similarity(distance: float | None) -> float:
    return rounded(None if distance is None else 1.0 - distance)
