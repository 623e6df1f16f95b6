"""Writing documents: staged in pieces, made visible in one step, removed in one step, swept in pieces.

Every function runs in one transaction of its caller, but `sweep`, which makes short ones, so that others can write.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from agentscope_rx.errors import InvalidInputError, KnowledgeFormatError, KnowledgeStorageError
from agentscope_rx.knowledge.document import Document, EmbeddedChunk
from agentscope_rx.knowledge.store import Indexed, IndexInfo
from agentscope_rx.knowledge.stores.arguments import check_batch, check_vector, refuse_other
from agentscope_rx.knowledge.stores.sqlite.damage import (
    LAST_KEY,
    MOST_DIMENSIONS,
    UNEXPECTED,
    Damage,
    damage_of,
    of_type,
)
from agentscope_rx.knowledge.stores.sqlite.database import Database
from agentscope_rx.knowledge.stores.sqlite.matrix import unit
from agentscope_rx.knowledge.stores.sqlite.rows import document_values, metadata_values, text_values
from agentscope_rx.knowledge.stores.sqlite.tables import CHANGES_KEPT, DEAD, STAGED, VISIBLE
from agentscope_rx.messages.terms import index_terms
from agentscope_rx.session.lease.machine import THIS_MACHINE, Process

STALE_SECONDS = 24 * 3600.0
"""A staged version that nothing was added to for so long is swept, even if its process may live."""
SWEPT_AT_ONCE = 256
"""The chunks that one transaction of a sweep deletes."""


class Staging:
    """A document that is being put; `key` is that of its staged version, once there is one."""

    __slots__ = ("chunks", "document", "fingerprint", "info", "key")

    def __init__(self, document: Document, fingerprint: str) -> None:
        self.document: Document = document
        self.fingerprint: str = fingerprint
        self.info: IndexInfo | None = None
        self.key: int | None = None
        self.chunks: int = 0


def info_of(connection: sqlite3.Connection) -> IndexInfo | None:
    """What the vectors of the file are made with; None if it was not opened for any yet."""
    row = connection.execute("SELECT embedding, dimensions FROM kb_state").fetchone()
    if row is None:
        raise Damage("kb_state is empty")
    embedding, dimensions = row
    if embedding is None:
        return None
    if not 1 <= of_type(dimensions, int, "the number of dimensions") <= MOST_DIMENSIONS:
        raise Damage(f"the number of dimensions is {dimensions}")
    return IndexInfo(embedding=of_type(embedding, str, "the embedding model"), dimensions=dimensions)


def set_info(connection: sqlite3.Connection, info: IndexInfo, path: str) -> None:
    """Make the file one for these vectors, if it has no documents or is one for these already."""
    has = info_of(connection)
    if has == info:
        return
    empty = connection.execute("SELECT 1 FROM kb_documents WHERE state = 1 LIMIT 1").fetchone() is None
    if has is not None and not empty:
        refuse_other(path, has, info)
    connection.execute(
        "UPDATE kb_state SET generation = hex(randomblob(16)), embedding = ?, dimensions = ?",
        (info.embedding, info.dimensions),
    )


def append(connection: sqlite3.Connection, staging: Staging, batch: Sequence[EmbeddedChunk], path: str) -> None:
    """Write a batch of the document's chunks, which stay hidden."""
    chunks = [each.chunk for each in check_batch(batch, staging.document)]
    info = _checked_info(connection, staging, path)
    vectors = unit([check_vector(each.vector, info.dimensions) for each in batch], info.dimensions)
    if staging.key is None:
        staging.key = _stage(connection, staging)
    else:
        _touch(connection, staging, path)
    if not chunks:
        return
    (first,) = connection.execute("SELECT next_chunk FROM kb_state").fetchone()
    if not 1 <= of_type(first, int, "the next key of a chunk") < LAST_KEY:
        raise Damage(f"the next key of a chunk is {first}")
    connection.execute("UPDATE kb_state SET next_chunk = next_chunk + ?", (len(chunks),))
    places = [
        (first + n, staging.key, each.number, each.kind, each.page, each.start, each.end)
        for n, each in enumerate(chunks)
    ]
    try:
        connection.executemany("INSERT INTO kb_chunks VALUES (?, ?, ?, ?, ?, ?, ?)", places)
    except (sqlite3.IntegrityError, OverflowError) as error:
        raise InvalidInputError(f"The chunks of {staging.document.id!r:.60} need numbers, each once.") from error
    texts = [(first + n, *text_values(each)) for n, each in enumerate(chunks)]
    connection.executemany("INSERT INTO kb_texts VALUES (?, ?, ?, ?)", texts)
    terms = [(first + n, index_terms(each.in_context, names=True)) for n, each in enumerate(chunks)]
    connection.executemany("INSERT INTO kb_words (rowid, terms) VALUES (?, ?)", terms)
    connection.execute("INSERT INTO kb_vectors VALUES (?, ?, ?)", (first, staging.key, vectors.tobytes()))
    staging.chunks += len(chunks)


def show(connection: sqlite3.Connection, staging: Staging, path: str) -> Indexed:
    """Make the staged version visible, in the place of the one before."""
    _checked_info(connection, staging, path)
    if staging.key is None:
        staging.key = _stage(connection, staging)
    else:
        _touch(connection, staging, path)
    _hide(connection, [staging.document.id])
    connection.execute(
        "UPDATE kb_documents SET state = ?, chunks = ?, owner = '' WHERE key = ?",
        (VISIBLE, staging.chunks, staging.key),
    )
    _note(connection, staging.key, VISIBLE)
    return Indexed(document=staging.document, chunks=staging.chunks, fingerprint=staging.fingerprint)


def remove(connection: sqlite3.Connection, ids: Sequence[str]) -> int:
    """Hide these documents; returns how many there were."""
    return _hide(connection, ids)


def discard(connection: sqlite3.Connection, staging: Staging) -> None:
    """Let the staged version be swept."""
    connection.execute("UPDATE kb_documents SET state = ? WHERE key = ? AND state = ?", (DEAD, staging.key, STAGED))


def has_hidden(connection: sqlite3.Connection) -> bool:
    """True if a sweep may have something to do."""
    return connection.execute("SELECT 1 FROM kb_documents WHERE state <> 1 LIMIT 1").fetchone() is not None


def has_dead(connection: sqlite3.Connection) -> bool:
    """True if there are dead versions."""
    return connection.execute("SELECT 1 FROM kb_documents WHERE state = ? LIMIT 1", (DEAD,)).fetchone() is not None


def sweep(database: Database) -> None:
    """Delete dead versions, and staged ones whose process has ended, in short transactions."""
    with database.write() as connection:
        for key, owner, touched in connection.execute(
            "SELECT key, owner, touched FROM kb_documents WHERE state = ?", (STAGED,)
        ).fetchall():
            try:
                gone = time.time() - touched > STALE_SECONDS or THIS_MACHINE.has_ended(_process_of(owner))
            except UNEXPECTED as error:
                raise damage_of("the owner of a staged version", error) from error
            if gone:
                connection.execute("UPDATE kb_documents SET state = ? WHERE key = ?", (DEAD, key))
    while _swept_some(database):
        pass


def _swept_some(database: Database) -> bool:
    """Delete a piece of a dead version; False if there is none."""
    with database.write() as connection:
        row = connection.execute("SELECT key FROM kb_documents WHERE state = ? LIMIT 1", (DEAD,)).fetchone()
        if row is None:
            return False
        document = cast("int", row[0])
        keys = connection.execute(
            "SELECT key FROM kb_chunks WHERE document = ? LIMIT ?", (document, SWEPT_AT_ONCE)
        ).fetchall()
        for table in ("kb_words", "kb_texts", "kb_chunks"):
            column = "rowid" if table == "kb_words" else "key"
            connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", keys)  # noqa: S608
        if len(keys) < SWEPT_AT_ONCE:
            connection.execute("DELETE FROM kb_vectors WHERE document = ?", (document,))
            connection.execute("DELETE FROM kb_metadata WHERE document = ?", (document,))
            connection.execute("DELETE FROM kb_documents WHERE key = ?", (document,))
        return True


def _stage(connection: sqlite3.Connection, staging: Staging) -> int:
    key = connection.execute(
        "INSERT INTO kb_documents (id, title, media_type, digest, size, metadata, state, fingerprint, chunks, owner,"
        " touched) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
        (*document_values(staging.document), STAGED, staging.fingerprint, _owner(), time.time()),
    ).lastrowid
    assert key is not None
    connection.executemany(
        "INSERT OR REPLACE INTO kb_metadata VALUES (?, ?, ?, ?)",
        [(key, *each) for each in metadata_values(staging.document)],
    )
    return key


def _touch(connection: sqlite3.Connection, staging: Staging, path: str) -> None:
    """Give a sign of life; an error if the staged version was swept meanwhile."""
    found = connection.execute(
        "UPDATE kb_documents SET touched = ? WHERE key = ? AND state = ?", (time.time(), staging.key, STAGED)
    )
    if not found.rowcount:
        written = f"what was written of {staging.document.id!r:.60} was swept, because no batch came for a day"
        raise KnowledgeStorageError(path, f"{written}; put it again")


def _hide(connection: sqlite3.Connection, ids: Sequence[str]) -> int:
    hidden = 0
    for id in ids:
        row = connection.execute("SELECT key FROM kb_documents WHERE id = ? AND state = 1", (id,)).fetchone()
        if row is not None:
            connection.execute("UPDATE kb_documents SET state = ? WHERE key = ?", (DEAD, row[0]))
            _note(connection, row[0], DEAD)
            hidden += 1
    return hidden


def _note(connection: sqlite3.Connection, document: int, state: int) -> None:
    connection.execute("UPDATE kb_state SET changes = changes + 1")
    connection.execute(
        "INSERT INTO kb_changes SELECT changes, ?, ? FROM kb_state",
        (document, state),
    )
    connection.execute("DELETE FROM kb_changes WHERE number <= (SELECT changes FROM kb_state) - ?", (CHANGES_KEPT,))


def _checked_info(connection: sqlite3.Connection, staging: Staging, path: str) -> IndexInfo:
    """What the vectors must be of: the same for all batches of a document."""
    info = info_of(connection)
    if info is None:
        raise KnowledgeFormatError(path, "it was not opened for any embedding model yet: open(IndexInfo(...)) first.")
    if staging.info is None:
        staging.info = info
    refuse_other(path, info, staging.info)
    return info


def _owner() -> str:
    return json.dumps(asdict(THIS_MACHINE.process()))


def _process_of(owner: str) -> Process:
    return Process(**json.loads(owner))
