"""The tables of a `SqliteChunkStore`. Their names begin with `kb_`, so the file may hold other tables, too.

A document has one row for each version that is in the file, and `state` says what the version is:

    STAGED    --(the last batch is written)-->   VISIBLE   --(replaced, removed)-->   DEAD   --(swept)-->   gone

Chunks and vectors are written once and belong to a version, so a change of state shows or hides all of them in one
step. `kb_changes` notes each version that became visible or dead, and so a matrix in memory reads only what is new.
The keys of chunks and versions are never used again; `generation` is another one in another file, and for vectors of
another model.
"""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1

STAGED: Final = 0
VISIBLE: Final = 1
DEAD: Final = 2

CHANGES_KEPT: Final = 10_000
"""A matrix that is further behind is read anew."""

SCHEMA: Final = """
CREATE TABLE kb_format (version INTEGER NOT NULL);
CREATE TABLE kb_state (
    generation TEXT NOT NULL, changes INTEGER NOT NULL, next_chunk INTEGER NOT NULL,
    embedding TEXT, dimensions INTEGER NOT NULL
);
CREATE TABLE kb_documents (
    key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, state INTEGER NOT NULL,
    title TEXT NOT NULL, media_type TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL,
    metadata TEXT NOT NULL, fingerprint TEXT NOT NULL, chunks INTEGER NOT NULL,
    owner TEXT NOT NULL, touched REAL NOT NULL
);
CREATE UNIQUE INDEX kb_visible ON kb_documents (id) WHERE state = 1;
CREATE INDEX kb_hidden ON kb_documents (state) WHERE state <> 1;
CREATE TABLE kb_metadata (
    document INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, PRIMARY KEY (document, name)
) WITHOUT ROWID;
CREATE TABLE kb_chunks (
    key INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, page INTEGER,
    start INTEGER NOT NULL, end INTEGER NOT NULL
);
CREATE UNIQUE INDEX kb_numbers ON kb_chunks (document, number);
CREATE TABLE kb_texts (key INTEGER PRIMARY KEY, text TEXT NOT NULL, headings TEXT NOT NULL, image TEXT);
CREATE TABLE kb_vectors (first INTEGER PRIMARY KEY, document INTEGER NOT NULL, vectors BLOB NOT NULL);
CREATE INDEX kb_vectors_of ON kb_vectors (document);
CREATE TABLE kb_changes (number INTEGER PRIMARY KEY, document INTEGER NOT NULL, state INTEGER NOT NULL);
CREATE VIRTUAL TABLE kb_words USING fts5 (terms, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO kb_state VALUES (hex(randomblob(16)), 0, 1, NULL, 0)
"""
"""Narrow rows of chunks apart from their texts: a search by words looks at many chunks and reads the texts of few."""
