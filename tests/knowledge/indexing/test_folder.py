"""`Indexer.folder`: what is indexed, skipped, reported and removed, and what is left after a stop at any moment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentscope_rx.errors import (
    AuthenticationError,
    ConfigurationError,
    DamagedDocumentError,
    DocumentError,
    DocumentTooLargeError,
    InvalidInputError,
    KnowledgeFormatError,
)
from agentscope_rx.knowledge import Indexer, IndexProgress, InMemoryChunkStore, KnowledgeBase
from tests.knowledge.indexing.parts import (
    LetterEmbedding,
    LineChunker,
    LineReader,
    ids,
    indexer,
    texts,
    write,
)


def counts(report: IndexProgress) -> dict[str, int]:
    names = ("found", "done", "unchanged", "failed", "removed")
    return {name: value for name in names if (value := getattr(report, name))}


def test_new_documents_are_indexed(tmp_path: Path):
    write(tmp_path, a="one\ntwo\n", sub__b="three\n")
    store = InMemoryChunkStore()
    report = indexer(store).folder(tmp_path).run()
    assert counts(report) == {"found": 2, "done": 2} and report.phase == "done"
    assert report.chunks == 3 and report.bytes_done == report.bytes_total == 14 and report.time_left == 0
    assert report.tokens == 3
    assert ids(store) == ["a.txt", "sub/b.txt"] and texts(store, "a.txt") == ["one\n", "two\n"]


def test_what_has_not_changed_is_not_read_again(tmp_path: Path):
    write(tmp_path, a="one", b="two")
    store, reader = InMemoryChunkStore(), LineReader()
    index = indexer(store, readers=[reader])
    index.folder(tmp_path).run()
    assert counts(index.folder(tmp_path).run()) == {"found": 2, "unchanged": 2}
    assert sorted(reader.read_documents) == ["a.txt", "b.txt"]


def test_a_change_of_same_size_and_time_is_seen(tmp_path: Path):
    write(tmp_path, a="one", b="two")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()
    before = (tmp_path / "a.txt").stat()
    (tmp_path / "a.txt").write_text("uno")
    os.utime(tmp_path / "a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert counts(indexer(store).folder(tmp_path).run()) == {"found": 2, "done": 1, "unchanged": 1}
    assert texts(store, "a.txt") == ["uno"]


def test_what_is_gone_is_removed(tmp_path: Path):
    write(tmp_path, a="one", sub__b="two", sub__c="three")
    store = InMemoryChunkStore()
    index = indexer(store)
    index.folder(tmp_path).run()
    (tmp_path / "sub").rename(tmp_path / "moved")
    kept = index.folder(tmp_path, delete_missing=False).run()
    assert counts(kept) == {"found": 3, "done": 2, "unchanged": 1} and len(ids(store)) == 5
    assert counts(index.folder(tmp_path).run()) == {"found": 3, "unchanged": 3, "removed": 2}
    assert ids(store) == ["a.txt", "moved/b.txt", "moved/c.txt"]


def test_folders_of_one_base_keep_to_their_prefixes(tmp_path: Path):
    write(tmp_path, one__a="1", two__a="2")
    store = InMemoryChunkStore()
    index = indexer(store)
    index.add({"note": "kept"}).run()
    for name in ("one", "two"):
        index.folder(tmp_path / name, prefix=f"{name}/").run()
    (tmp_path / "one" / "a.txt").unlink()
    index.folder(tmp_path / "one", prefix="one/").run()
    assert ids(store) == ["note", "two/a.txt"]
    # a document that was added belongs to no folder
    index.folder(tmp_path / "one").run()
    assert ids(store) == ["note"]


def test_damaged_documents_are_reported(tmp_path: Path):
    write(tmp_path, a="one", b="BAD", c="three", d="BUG")
    store = InMemoryChunkStore()
    report = indexer(store).folder(tmp_path).run()
    assert counts(report) == {"found": 4, "done": 2, "failed": 2} and ids(store) == ["a.txt", "c.txt"]
    assert sorted(each.document for each in report.errors) == ["b.txt", "d.txt"]
    assert all(isinstance(each, DamagedDocumentError) for each in report.errors)
    assert "ZeroDivisionError: a bug of the reader" in str(report.errors)
    assert {"document": "b.txt", "error": "b.txt: it has BAD in it."} in report.to_dict()["errors"]  # type: ignore[operator]


def test_the_first_damaged_document_can_fail_the_run(tmp_path: Path):
    write(tmp_path, a="BAD")
    with pytest.raises(DamagedDocumentError):
        indexer().folder(tmp_path, on_error="fail").run()
    with pytest.raises(ConfigurationError, match="on_error"):
        indexer().folder(tmp_path, on_error="ignore")  # type: ignore[arg-type]


def test_a_document_that_breaks_keeps_what_it_had(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()
    write(tmp_path, a="fine\nBAD")
    assert counts(indexer(store).folder(tmp_path).run()) == {"found": 1, "failed": 1}
    assert texts(store, "a.txt") == ["one"]


def test_large_documents_are_not_read(tmp_path: Path):
    write(tmp_path, a="x" * 101, b="x")
    reader = LineReader()
    report = indexer(readers=[reader], max_bytes=100).folder(tmp_path).run()
    assert counts(report) == {"found": 2, "done": 1, "failed": 1} and reader.read_documents == ["b.txt"]
    assert isinstance(report.errors[0], DocumentTooLargeError) and report.errors[0].limit == "max_bytes"


def test_other_parts_index_again(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()
    for options in ({"readers": [LineReader(2)]}, {"chunker": LineChunker(2)}, {"metadata": lambda id: {"year": 1}}):
        assert counts(indexer(store, **options).folder(tmp_path).run()) == {"found": 1, "done": 1}


def test_another_embedding_model_is_refused(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()
    with pytest.raises(KnowledgeFormatError, match="letters"):
        indexer(store, LetterEmbedding("other")).folder(tmp_path).run()
    assert texts(store, "a.txt") == ["one"]


def test_an_error_of_the_model_ends_the_run(tmp_path: Path):
    write(tmp_path, a="one", b="two")
    store, embedding = InMemoryChunkStore(), LetterEmbedding()
    index = indexer(store, embedding)
    index.folder(tmp_path).run()
    write(tmp_path, c="three")
    embedding.error = AuthenticationError("no key", status=401)
    with pytest.raises(AuthenticationError):
        index.folder(tmp_path).run()
    assert ids(store) == ["a.txt", "b.txt"]
    embedding.error = None
    assert counts(index.folder(tmp_path).run()) == {"found": 3, "done": 1, "unchanged": 2}


def test_an_input_that_the_model_refuses_is_the_documents(tmp_path: Path):
    write(tmp_path, a="one")
    embedding = LetterEmbedding(error=InvalidInputError("texts only"))
    embedding.dimensions = 26  # type: ignore[attr-defined]
    report = indexer(embedding=embedding).folder(tmp_path).run()
    assert report.failed == 1 and "texts only" in str(report.errors[0])


def test_hidden_ignored_and_linked_files_are_left_out(tmp_path: Path):
    inside = tmp_path / "in"
    write(inside, a="1", b__c="2", node_modules__d="3", drafts__e="4", deep__drafts__f="5")
    write(tmp_path, secret="6", other__g="7")
    for hidden in (".hidden.txt", ".git/x.txt", ".agentscope/y.txt"):
        path = inside / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_text("8")
    (inside / "image.png").write_bytes(b"9")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "linked").symlink_to(tmp_path / "other")
    (inside / "cycle").symlink_to(inside)
    os.mkfifo(inside / "pipe.txt")
    store = InMemoryChunkStore()
    report = indexer(store, ignore=["drafts"]).folder(inside).run()
    assert ids(store) == ["a.txt", "b/c.txt"] and report.skipped == 1
    # what is ignored now is removed
    assert indexer(store, include=["b/*.txt"]).folder(inside).run().removed == 1
    assert ids(store) == ["b/c.txt"]


def test_a_folder_that_cannot_be_read_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, a="1", closed__b="2")
    store = InMemoryChunkStore()
    index = indexer(store)
    index.folder(tmp_path).run()
    scandir = os.scandir

    def refusing(path: Path) -> object:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    report = index.folder(tmp_path).run()
    assert report.failed == 1 and "Permission denied" in str(report.errors[0]) and report.removed == 0
    assert ids(store) == ["a.txt", "closed/b.txt"]
    with pytest.raises(DocumentError, match="closed"):
        index.folder(tmp_path, on_error="fail").run()


def test_a_folder_that_is_not_there(tmp_path: Path):
    store = InMemoryChunkStore()
    write(tmp_path / "docs", a="1")
    indexer(store).folder(tmp_path / "docs").run()
    with pytest.raises(InvalidInputError, match="does not exist"):
        indexer(store).folder(tmp_path / "gone").run()
    with pytest.raises(InvalidInputError, match="is no folder"):
        indexer(store).folder(tmp_path / "docs" / "a.txt").run()
    assert ids(store) == ["a.txt"]


def test_a_file_that_changes_while_it_is_read_is_not_stored(tmp_path: Path):
    write(tmp_path, a="one")
    store = InMemoryChunkStore()

    class Changing(LineReader):
        def read(self, source):  # type: ignore[no-untyped-def]
            found = super().read(source)
            source.path.write_text("two")
            return found

    report = indexer(store, readers=[Changing()]).folder(tmp_path).run()
    assert report.failed == 1 and "changed while it was read" in str(report.errors[0]) and ids(store) == []
    assert indexer(store).folder(tmp_path).run().done == 1 and texts(store, "a.txt") == ["two"]


def test_a_file_that_vanishes_is_gone(tmp_path: Path):
    write(tmp_path, a="one", b="two")
    store = InMemoryChunkStore()
    indexer(store).folder(tmp_path).run()

    class Vanishing(LineReader):
        fingerprint = "other"

        def read(self, source):  # type: ignore[no-untyped-def]
            (tmp_path / "b.txt").unlink(missing_ok=True)
            return super().read(source)

    report = indexer(store, readers=[Vanishing()], max_concurrency=1).folder(tmp_path).run()
    assert counts(report) == {"found": 1, "done": 1, "removed": 1} and ids(store) == ["a.txt"]


def test_a_folder_that_goes_away_takes_no_document_with_it(tmp_path: Path):
    folder = write(tmp_path / "docs", a="one", b="two", c="three")
    store = InMemoryChunkStore()
    indexer(store).folder(folder).run()

    class Leaving(LineReader):
        fingerprint = "other"

        def read(self, source):  # type: ignore[no-untyped-def]
            if folder.exists():
                folder.rename(tmp_path / "away")
            return super().read(source)

    with pytest.raises(InvalidInputError, match="does not exist"):
        indexer(store, readers=[Leaving()], max_concurrency=1).folder(folder).run()
    assert ids(store) == ["a.txt", "b.txt", "c.txt"]


def test_a_document_without_text_is_done(tmp_path: Path):
    write(tmp_path, a="", b=" \n")
    report = indexer().folder(tmp_path).run()
    assert counts(report) == {"found": 2, "done": 2} and report.empty == 2 and report.chunks == 0


def test_metadata_is_there_for_searches(tmp_path: Path):
    write(tmp_path, y2020__a="cat", y2021__a="cat")
    store = InMemoryChunkStore()
    index = indexer(store, metadata=lambda id: {"year": int(id[1:5])})
    index.folder(tmp_path).run()
    found = index.base.retrieve("cat", where={"year": 2021}).run()
    assert [each.chunk.document.id for each in found] == ["y2021/a.txt"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"embedding": LetterEmbedding()}, "embedding"),
    ],
)
def test_bad_options(options: dict[str, object], named: str):
    with pytest.raises(ConfigurationError, match=named):
        Indexer(KnowledgeBase(InMemoryChunkStore(), LetterEmbedding()), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["include", "ignore"])
def test_bad_patterns(tmp_path: Path, option: str):
    for bad in ("*.txt", ["../x"], [""]):
        with pytest.raises(ConfigurationError, match=option):
            indexer(**{option: bad}).folder(tmp_path).run()
