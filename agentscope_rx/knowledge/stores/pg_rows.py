"""What a `PgVectorChunkStore` reads and writes: a search is one statement, a change one transaction."""

# ruff: noqa: S608 (the texts of statements are made of texts of this library; values are bound)

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from pgvector import SparseVector, Vector

from agentscope_rx.knowledge.document import Chunk
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_vector, refuse_other
from agentscope_rx.knowledge.stores.best import Best, rounded
from agentscope_rx.knowledge.stores.pg_conditions import Arguments, conditions, fields_json
from agentscope_rx.knowledge.stores.pg_database import PgDatabase
from agentscope_rx.knowledge.stores.records import chunk_of, document_of, document_record, fields_of
from agentscope_rx.knowledge.stores.sparse import SIZE, Sparse, rarity
from agentscope_rx.knowledge.stores.spool import Spool, opened, unit_floats
from agentscope_rx.knowledge.where import Where

if TYPE_CHECKING:
    from agentscope_rx.knowledge.stores.pg_protocols import Connection

_PAGE = 256
"""The documents that are read at once."""
_SECONDS_PER_CHUNK = 0.01
_TURN = 64
"""After so many chunks the loop gets a turn."""
_MOST_EXAMINED = 1000
"""The most candidates that HNSW's search keeps."""

_JOINED = "@_chunks c JOIN @_documents d ON d.number = c.document"


async def info(database: PgDatabase) -> IndexInfo | None:
    """What the vectors are made with."""
    async with database.connected() as connection:
        return await database.info(connection)


async def replace(database: PgDatabase, spool: Spool, fingerprint: str) -> Indexed:
    """Put the document with these rows in the place of the one that is there."""
    document = spool.document
    id = document.id.encode()
    async with database.changing(database.timeout + spool.count * _SECONDS_PER_CHUNK) as connection:
        await database.lock_documents(connection, [id])
        refuse_other(database.place.name, opened(await database.info(connection, "FOR SHARE")), spool.info)
        await _forget(database, connection, [id])
        number = await connection.fetchval(
            database.sql(
                "INSERT INTO @_documents (id, chunks, fingerprint, record, fields) "
                "VALUES ($1, $2, $3, $4, $5::text::jsonb) RETURNING number"
            ),
            *(id, spool.count, fingerprint.encode("utf-8", "surrogatepass")),
            *(document_record(document), fields_json(fields_of(document))),
        )
        await connection.copy_records_to_table(
            database.sql("@_chunks"),
            records=_chunk_rows(number, spool),
            columns=["document", "place", "page", "kind", "record", "words", "weights"],
        )
        await connection.copy_records_to_table(
            database.sql("@_vectors"),
            records=_vector_rows(number, spool),
            columns=["document", "place", "vector"],
        )
    return Indexed(document=document, chunks=spool.count, fingerprint=fingerprint)


async def _chunk_rows(number: int, spool: Spool) -> AsyncIterator[tuple[object, ...]]:
    for count, row in enumerate(spool.rows()):
        words = Sparse.unpack(row.words)
        weights = SparseVector(dict(zip(words.words, words.weights, strict=True)), SIZE) if words.words else None
        yield (number, row.number, row.page, row.kind, row.record, list(words.words), weights)
        if count % _TURN == 0:
            await asyncio.sleep(0)


async def _vector_rows(number: int, spool: Spool) -> AsyncIterator[tuple[object, ...]]:
    for count, row in enumerate(spool.rows()):
        yield (number, row.number, Vector(array("f", row.vector).tolist()))
        if count % _TURN == 0:
            await asyncio.sleep(0)


async def remove(database: PgDatabase, ids: list[bytes]) -> int:
    """Remove these documents; returns how many there were."""
    async with database.changing() as connection:
        await database.lock_documents(connection, ids)
        return await _forget(database, connection, ids)


async def _forget(database: PgDatabase, connection: Connection, ids: list[bytes]) -> int:
    removed = await connection.fetch(database.sql("DELETE FROM @_documents WHERE id = ANY($1) RETURNING number"), ids)
    if numbers := [each["number"] for each in removed]:
        for table in ("@_chunks", "@_vectors"):
            await connection.execute(database.sql(f"DELETE FROM {table} WHERE document = ANY($1)"), numbers)
    return len(numbers)


async def documents_from(database: PgDatabase, sign: str, id: bytes) -> Sequence[Indexed]:
    """Some documents from this id on, in order."""
    text = f"SELECT record, chunks, fingerprint FROM @_documents WHERE id {sign} $1 ORDER BY id LIMIT {_PAGE}"
    async with database.connected() as connection:
        rows = await connection.fetch(database.sql(text), id)
    return [
        Indexed(
            document=document_of(row["record"]),
            chunks=row["chunks"],
            fingerprint=row["fingerprint"].decode("utf-8", "surrogatepass"),
        )
        for row in rows
    ]


async def between(database: PgDatabase, id: bytes, first: int, last: int) -> tuple[Chunk, ...]:
    """The chunks of this document with these numbers."""
    within = "WHERE d.id = $1 AND c.place BETWEEN $2::bigint AND $3::bigint ORDER BY c.place"
    text = f"SELECT d.record, c.record AS chunk FROM {_JOINED} {within}"
    async with database.connected() as connection:
        rows = await connection.fetch(database.sql(text), id, first, last)
    return tuple(chunk_of(document_of(row["record"]), row["chunk"]) for row in rows)


# --- searching --------------------------------------------------------------------------------------------------------


async def nearest(database: PgDatabase, vector: Sequence[float], best: Best, where: Where | None) -> tuple[Found, ...]:
    """The chunks with the greatest cosine similarity."""
    async with database.connected() as connection:
        if (has := await database.info(connection)) is None:
            return ()
        wanted = Vector(unit_floats(check_vector(vector, has.dimensions)).tolist())
        while True:
            arguments = Arguments(wanted, best.ask)
            exact = await _examine(database, connection, best.ask)
            text = _near(database, has.dimensions, conditions(where, arguments), exact)
            rows = await connection.fetch(database.sql(text), *arguments.values)
            found = [
                Found(chunk=chunk_of(document_of(row["record"]), row["chunk"]), similarity=rounded(row["score"]))
                for row in rows
            ]
            # an index that does not find more has no more to find
            if (result := best.take(found)) is not None:
                return result


async def _examine(database: PgDatabase, connection: Connection, ask: int) -> bool:
    """Let the index look at enough; False if there is one to be used."""
    if database.place.index == "exact" or ask > _MOST_EXAMINED:
        return True
    # (the pool resets them)
    examined = max(40, min(_MOST_EXAMINED, ask * 2))
    await connection.execute(f"SET hnsw.ef_search = {examined}; SET hnsw.iterative_scan = strict_order")
    return False


def _near(database: PgDatabase, dimensions: int, narrowed: str, exact: bool) -> str:
    column, kind = ("vector", "vector") if exact else database.comparison(dimensions).rsplit(" ", 1)
    distance = f"v.{column} <#> $1" if column == "vector" else f"(v.vector::{kind}({dimensions})) <#> $1::{kind}"
    of = f"@_vectors v JOIN {_JOINED} ON c.document = v.document AND c.place = v.place" if narrowed else "@_vectors v"
    within = f"WHERE {narrowed} " if narrowed else ""
    return (
        "SELECT d.record, c.record AS chunk, -near.distance AS score FROM ("
        f"SELECT v.document, v.place, v.vector <#> $1 AS distance FROM {of} {within}ORDER BY {distance} LIMIT $2"
        f") near JOIN {_JOINED} ON c.document = near.document AND c.place = near.place ORDER BY near.distance"
    )


async def matching(
    database: PgDatabase, words: list[int], vector: Sequence[float] | None, best: Best, where: Where | None
) -> tuple[Found, ...]:
    """The chunks with the greatest BM25 of the words."""
    async with database.connected() as connection:
        if (has := await database.info(connection)) is None:
            return ()
        wanted = None if vector is None else Vector(unit_floats(check_vector(vector, has.dimensions)).tolist())
        weights = await _rarities(database, connection, words)
        while weights:
            arguments = Arguments(SparseVector(weights, SIZE), best.ask, list(weights))
            text = _words(conditions(where, arguments), None if wanted is None else arguments.mark(wanted))
            found = [
                Found(
                    chunk=chunk_of(document_of(row["record"]), row["chunk"]),
                    relevance=round(row["score"], 6),
                    similarity=None if wanted is None else rounded(row["similarity"]),
                )
                for row in await connection.fetch(database.sql(text), *arguments.values)
            ]
            if (result := best.take(found)) is not None:
                return result
    return ()


async def _rarities(database: PgDatabase, connection: Connection, words: list[int]) -> dict[int, float]:
    """The weights of the words that there are."""
    of = await connection.fetchval(database.sql("SELECT sum(chunks) FROM @_documents"))
    text = (
        "SELECT w AS word, (SELECT count(*) FROM @_chunks WHERE words @> ARRAY[w]) AS number FROM unnest($1::int[]) w"
    )
    rows = await connection.fetch(database.sql(text), words)
    return {row["word"]: rarity(row["number"], of or 0) for row in rows if row["number"]}


def _words(narrowed: str, vector: str | None) -> str:
    similarity = (
        "NULL::float8"
        if vector is None
        else f"(SELECT -(v.vector <#> {vector}) FROM @_vectors v WHERE v.document = c.document AND v.place = c.place)"
    )
    return (
        f"SELECT d.record, c.record AS chunk, near.score, {similarity} AS similarity FROM ("
        f"SELECT c.document, c.place, -(c.weights <#> $1) AS score FROM {_JOINED} "
        f"WHERE c.words && $3::int[]{' AND ' + narrowed if narrowed else ''} ORDER BY score DESC LIMIT $2"
        f") near JOIN {_JOINED} ON c.document = near.document AND c.place = near.place ORDER BY near.score DESC"
    )
