"""A database that comes with a downloaded folder: what no store has written ends in typed errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from reactivex import operators as ops

from agentscope_rx.errors import KnowledgeFormatError, KnowledgeStorageError
from agentscope_rx.knowledge import Chunk, Document, EmbeddedChunk, SqliteChunkStore
from agentscope_rx.knowledge.store import IndexInfo
from agentscope_rx.reactive import just

INFO = IndexInfo(embedding="m", dimensions=4)
VECTOR = (1.0, 0.0, 0.0, 0.0)
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x)"
NAN = "UPDATE kb_vectors SET vectors = x'" + "0000c07f" * 12 + "'"
DEEP = "UPDATE kb_documents SET metadata = '" + "[" * 100_000 + "'"

PROGRAMS: dict[str, str] = {
    "view of the format": f"DROP TABLE kb_format; CREATE VIEW kb_format AS {ENDLESS} AS version FROM c",
    "view of the state": f"ALTER TABLE kb_state RENAME TO o; CREATE VIEW KB_State AS {ENDLESS} AS changes FROM c",
    "trigger": f"CREATE TRIGGER t AFTER INSERT ON kb_documents BEGIN INSERT INTO kb_format {ENDLESS} FROM c; END",
    "computed format": "DROP TABLE kb_format; CREATE TABLE kb_format (a, version AS (hex(zeroblob(400000000))))",
    "other index": "CREATE INDEX i ON kb_texts (hex(zeroblob(9)))",
    "no full-text index": "DROP TABLE kb_words; CREATE TABLE kb_words (terms)",
    "no table": "DROP TABLE kb_changes",
    "no state": "DELETE FROM kb_state",
    "no format": "DELETE FROM kb_format",
}
VALUES: tuple[str, ...] = (
    "UPDATE kb_state SET dimensions = 'x'",
    "UPDATE kb_state SET dimensions = 2000000000, generation = 'q'",
    "UPDATE kb_state SET dimensions = -4",
    "UPDATE kb_state SET changes = x'00'",
    "UPDATE kb_vectors SET vectors = x'0000'",
    "UPDATE kb_vectors SET vectors = 'abc'",
    NAN,
    "UPDATE kb_vectors SET first = 9223372036854775806 WHERE first = 1",
    "UPDATE kb_vectors SET document = 77",
    "UPDATE kb_documents SET metadata = '{'",
    "UPDATE kb_documents SET metadata = '[1]'",
    'UPDATE kb_documents SET metadata = \'{"a": {"b": 1}}\'',
    DEEP,
    "UPDATE kb_documents SET id = ' ' WHERE id = 'a'",
    "UPDATE kb_documents SET title = x'00'",
    "UPDATE kb_documents SET size = 'x'",
    "UPDATE kb_texts SET headings = '{}'",
    "UPDATE kb_texts SET headings = '[5]'",
    "UPDATE kb_texts SET text = x'00'",
    "UPDATE kb_texts SET text = CAST(x'ff' AS TEXT)",
    "UPDATE kb_texts SET image = '5'",
    "UPDATE kb_chunks SET kind = 'evil'",
    "UPDATE kb_chunks SET number = 'x' WHERE number = 1",
    "UPDATE kb_chunks SET page = 'x'",
    "UPDATE kb_documents SET state = 0, owner = '5'",
    "UPDATE kb_documents SET state = 0, touched = 'x'",
    "UPDATE kb_state SET next_chunk = 'x'",
    "UPDATE kb_state SET next_chunk = 9223372036854775807",
)


def embedded(document: Document, number: int) -> EmbeddedChunk:
    chunk = Chunk(document=document, number=number, text=f"text {number}", start=0, end=6, headings=("h",))
    return EmbeddedChunk(chunk, (1.0, 2.0, 3.0, float(number)))


@cache
def small() -> bytes:
    """The file of a store with two documents of three chunks."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "k.db"
        store = SqliteChunkStore(path)
        store.open(INFO).run()
        for id in ("a", "b"):
            document = Document(id=id, metadata={"x": 1})
            store.put(document, just([embedded(document, number) for number in range(3)])).run()
        store.close().run()
        return path.read_bytes()


def changed(path: Path, statements: str) -> SqliteChunkStore:
    path.write_bytes(small())
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(statements)
    return SqliteChunkStore(path)


def used(store: SqliteChunkStore) -> Iterator[Exception]:
    """The errors of all operations; there may be no others."""
    new = Document(id="c")
    for operation in (
        store.open(INFO),
        store.nearest(VECTOR, 9),
        store.matching("text", 9, {"x": 1}, VECTOR),
        store.between("a", 0, 9),
        store.documents().pipe(ops.to_list()),
        store.put(new, just([embedded(new, 0)])),
        store.remove(["a"]),
    ):
        try:
            operation.run()
        except (KnowledgeFormatError, KnowledgeStorageError) as error:
            yield error
    store.close().run()


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_tables_are_refused_before_they_are_used(tmp_path: Path, name: str):
    assert list(used(changed(tmp_path / "k.db", PROGRAMS[name])))


@pytest.mark.parametrize("statement", VALUES, ids=range(len(VALUES)))
def test_other_values_are_refused(tmp_path: Path, statement: str):
    errors = list(used(changed(tmp_path / "k.db", statement)))
    assert any("Restore a copy, or delete the file" in str(error) for error in errors)


@pytest.mark.parametrize("chunks", ["-100000", "1000000000000"])
def test_a_wrong_number_of_chunks_takes_no_memory(tmp_path: Path, chunks: str):
    store = changed(tmp_path / "k.db", " ".join(("UPDATE kb_documents SET chunks =", chunks)))
    assert len(store.nearest(VECTOR, 9).run()) == 6
    store.close().run()


def test_tables_of_another_program_are_left_alone(tmp_path: Path):
    store = changed(tmp_path / "k.db", "CREATE TABLE kb_articles (a); CREATE VIEW mine AS SELECT a FROM kb_articles")
    assert not list(used(store))
