"""`Indexer.add`: texts, files and sources; their ids, their readers, and what is unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    DamagedDocumentError,
    DocumentError,
    InvalidInputError,
    UnsupportedDocumentError,
)
from agentscope_rx.knowledge import Document, DocumentSource, Indexer, InMemoryChunkStore, KnowledgeBase, TokenChunker
from tests.knowledge.indexing.parts import WordEmbedding, ids, indexer, texts, write


def test_texts_files_and_sources(tmp_path: Path):
    write(tmp_path, a="from a file")
    store = InMemoryChunkStore()
    source = DocumentSource(document=Document(id="https://example.org/x", media_type="text/plain"), data=b"bytes")
    report = indexer(store).add(["a text", tmp_path / "a.txt", source]).run()
    assert (report.found, report.done, report.phase) == (3, 3, "done")
    text, web, file = sorted(ids(store), key=lambda id: (id.startswith("/"), not id.startswith("text-")))
    assert texts(store, text) == ["a text"] and text.startswith("text-")
    assert web == "https://example.org/x" and texts(store, web) == ["bytes"]
    assert Path(file) == tmp_path / "a.txt" and texts(store, file) == ["from a file"]


def test_one_text_and_texts_by_id():
    store = InMemoryChunkStore()
    index = indexer(store)
    index.add("alone").run()
    index.add({"faq": "what?", "notes.md": "that"}).run()
    assert ids(store)[:2] == ["faq", "notes.md"] and texts(store, "faq") == ["what?"]


def test_what_is_there_is_unchanged(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    given = [tmp_path / "a.txt", "text"]
    indexer(store).add(given).run()
    again = indexer(store).add(given).run()
    assert (again.unchanged, again.done) == (2, 0)
    write(tmp_path, a="two")
    assert indexer(store).add(given).run().done == 1
    assert indexer(store, batch_size=1).add({"faq": "1"}).run().done == 1
    assert indexer(store).add({"faq": "2"}).run().done == 1 and texts(store, "faq") == ["2"]


def test_failures(tmp_path: Path):
    write(tmp_path, bad="BAD", good="good")
    (tmp_path / "a.xyz").write_text("what")
    store = InMemoryChunkStore()
    index = indexer(store)
    with pytest.raises(DamagedDocumentError):
        index.add(tmp_path / "bad.txt").run()
    with pytest.raises(DocumentError, match="no such file"):
        index.add(tmp_path / "none.txt").run()
    with pytest.raises(DocumentError, match=r"Indexer\(base\)\.folder"):
        index.add(tmp_path).run()
    with pytest.raises(UnsupportedDocumentError, match=r"\.xyz"):
        index.add(tmp_path / "a.xyz").run()
    report = index.add([tmp_path / "bad.txt", tmp_path / "good.txt"], on_error="report").run()
    assert (report.failed, report.done) == (1, 1) and len(ids(store)) == 1


@pytest.mark.parametrize("given", [3, [3], {"a": 3}, {3: "a"}, [None]])
def test_what_is_no_document(given: object):
    with pytest.raises(InvalidInputError, match="no document"):
        indexer().add(given).run()  # type: ignore[arg-type]


def test_the_name_of_a_file_is_no_text(tmp_path: Path):
    write(tmp_path, a="text")
    for name in (tmp_path / "a.txt", tmp_path):
        with pytest.raises(InvalidInputError, match="is the name of a file or folder"):
            indexer(InMemoryChunkStore()).add([str(name)]).run()
    report = indexer(InMemoryChunkStore()).add({"names": str(tmp_path), "long": "x" * 10_000, "null": "a\0b"}).run()
    assert report.done == 3


@pytest.mark.parametrize("parts", [{"readers": "pdf"}, {"readers": [str]}, {"chunker": TokenChunker}])
def test_parts_of_other_kinds(parts: dict[str, Any]):
    with pytest.raises(ConfigurationError, match="such as"):
        Indexer(InMemoryChunkStore(), WordEmbedding(), **parts)


def test_the_same_id_twice():
    with pytest.raises(InvalidInputError, match="have the id"):
        indexer().add(["a", "a"]).run()


def test_nothing_to_add():
    report = indexer().add([]).run()
    assert (report.found, report.phase) == (0, "done")


def test_a_base_adds_documents_by_itself(tmp_path: Path):
    (tmp_path / "guide.md").write_text("# Zoo\n\nA ticket costs 12 euros.\n")
    base = KnowledgeBase(InMemoryChunkStore(), WordEmbedding())
    report = base.add(["Cats eat fish.", tmp_path / "guide.md"]).run()
    assert report.done == 2 and report.phase == "done"
    assert base.retrieve("ticket", limit=1).run()[0].text.endswith("A ticket costs 12 euros.")
