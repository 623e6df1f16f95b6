"""`Addition`: one document that a caller gives, in a run of `Indexer.add`. `sources_of` reads what is given.

| given              | id of the document                  | its reader                            |
|--------------------|-------------------------------------|---------------------------------------|
| a text             | `text-` and the start of its digest | that of .txt files                    |
| texts by their ids | the given one                       | by the ending of the id, else .txt    |
| a path             | the path, as it is given            | by the ending                         |
| a `DocumentSource` | that of its document                | by the ending, else by the media type |
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from mimetypes import guess_extension
from pathlib import Path, PurePosixPath
from typing import Final, cast

from reactivex import operators as ops

from agentscope_rx.errors import DocumentError, InvalidInputError
from agentscope_rx.errors.text import encodable
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.knowledge.document import Document, DocumentSource
from agentscope_rx.knowledge.indexing.document_pipeline import DocumentPipeline, VanishedError
from agentscope_rx.knowledge.indexing.folder_run import OnError
from agentscope_rx.knowledge.indexing.folder_walk import digest_of
from agentscope_rx.knowledge.indexing.index_progress import IndexProgress, Tally
from agentscope_rx.knowledge.store import Indexed
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, catch, concat, concat_map, just, on_worker, throw

Given = str | os.PathLike[str] | DocumentSource
"""A document: a text, the path of a file, or a source."""

MAX_NAME: Final = 1_000
"""The characters of a text that may be the name of a file."""
ORIGIN: Final = "added"
"""Begins the fingerprints of documents that a caller has given: no folder removes them."""


def sources_of(documents: Given | Sequence[Given] | Mapping[str, str]) -> list[DocumentSource]:
    """The documents that are given; `InvalidInputError` for what is none, or if two have the same id."""
    if isinstance(documents, Mapping):
        sources = [_of_text(text, id) for id, text in cast("Mapping[object, object]", documents).items()]
    elif isinstance(documents, (str, os.PathLike, DocumentSource)):
        sources = [_source(documents)]
    elif isinstance(documents, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        sources = list(map(_source, documents))
    else:
        raise _not_a_document(documents)
    found: set[str] = set()
    for source in sources:
        if source.document.id in found:
            raise InvalidInputError(f"Two documents have the id {source.document.id!r:.80}: give each one of its own.")
        found.add(source.document.id)
    return sources


@dataclass(frozen=True, slots=True)
class Addition:
    """One document of a run."""

    pipeline: DocumentPipeline
    tally: Tally
    on_error: OnError
    source: DocumentSource

    def run(self) -> Flow[IndexProgress]:
        """Index it, unless the store has it as it is.

        Signals: progress; `DocumentError`, unless it is reported; errors of the model and the store.
        Cancels: all of it; what the store had of the document stays.
        """
        id = self.source.document.id

        def compared(digest: str) -> Flow[IndexProgress]:
            known = self.pipeline.store.documents(id).pipe(ops.take(1), ops.to_list())
            return known.pipe(concat_map(lambda found: self._unless_known(found, digest)))

        digesting = on_worker(partial(_digest, self.source), ENGINE_WORKERS).pipe(concat_map(compared))
        return concat(just(self.tally.begin(id)), digesting.pipe(catch(self._failed)))

    def _unless_known(self, found: Sequence[Indexed], digest: str) -> Flow[IndexProgress]:
        document, name, tally = self._described(), self._name(), self.tally
        fingerprint = self.pipeline.fingerprint(document, name, ORIGIN)
        # (documents come by their ids: the first one has this id, if there is one)
        known = found[0] if found and found[0].document.id == document.id else None
        if known and _is_same(known, replace(document, digest=digest), fingerprint):
            tally.end(document.id, size_of(self.source))
            tally.unchanged += 1
            return just(tally.progress())

        def on_batch(id: str, done: int, chunks: int, tokens: int) -> None:
            tally.advance(id, min(done, size_of(self.source)), chunks, tokens)

        def stored(indexed: Indexed) -> IndexProgress:
            tally.end(document.id, size_of(self.source))
            tally.done += 1
            tally.empty += not indexed.chunks
            return tally.progress()

        path = self.source.path
        if path is not None:
            storing = self.pipeline.index_file(document, path, name, ORIGIN, on_batch)
        else:
            storing = self.pipeline.index_source(replace(self.source, document=document), name, ORIGIN, on_batch)
        return storing.pipe(concat_map(stored))

    def _failed(self, error: Exception) -> Flow[IndexProgress]:
        id = self.source.document.id
        if isinstance(error, VanishedError):
            error = DocumentError(id, "there is no such file.")
        if not isinstance(error, DocumentError) or self.on_error == "fail":
            return throw(error)
        self.tally.end(id, size_of(self.source))
        self.tally.fail(error)
        return just(self.tally.progress())

    def _described(self) -> Document:
        """The document, with what its caller has left out."""
        given, name = self.source.document, self._name()
        made = self.pipeline.described(given.id, size_of(self.source), name)
        return replace(
            given,
            title=given.title,
            media_type=given.media_type or made.media_type,
            size=made.size,
            metadata={**made.metadata, **given.metadata},
        )

    def _name(self) -> str:
        """A name with an ending that chooses the reader."""
        source = self.source
        name = PurePosixPath(source.document.id).name if source.path is None else source.path.name
        if self.pipeline.readers.find(name) is not None:
            return name
        return name + (guess_extension(source.document.media_type) or "" if source.document.media_type else "")


def size_of(source: DocumentSource) -> int:
    """The bytes of a document, 0 for a file that is not there."""
    if source.data is not None:
        return len(source.data)
    try:
        return 0 if source.path is None else source.path.stat().st_size
    except OSError:
        return 0


def _is_same(known: Indexed, document: Document, fingerprint: str) -> bool:
    return known.document == replace(document, size=known.document.size) and known.fingerprint == fingerprint


def _digest(source: DocumentSource) -> str:
    if source.path is None:
        return sha256(source.data or b"").hexdigest()
    try:
        return digest_of(source.path)[0]
    except FileNotFoundError:
        raise VanishedError(source.document.id) from None
    except OSError as error:
        if source.path.is_dir():
            what = "it is a folder. Index it with Indexer(base).folder(...)."
            raise DocumentError(source.document.id, what) from error
        raise DocumentError(source.document.id, f"it cannot be read: {error.strerror or error}.") from error


def _source(given: object) -> DocumentSource:
    if isinstance(given, DocumentSource):
        return given
    if isinstance(given, str):
        _refuse_name(given)
        return _of_text(given, None)
    if isinstance(given, os.PathLike):
        path = Path(cast("os.PathLike[str]", given))
        return DocumentSource(document=Document(id=path.as_posix(), title=path.stem), path=path.expanduser())
    raise _not_a_document(given)


def _of_text(text: object, id: object) -> DocumentSource:
    if not isinstance(text, str) or not (id is None or isinstance(id, str)):
        raise _not_a_document(text if not isinstance(text, str) else id)
    data = encodable(text).encode()
    name = f"text-{sha256(data).hexdigest()[:16]}" if id is None else id
    title = "" if id is None else PurePosixPath(id).stem
    return DocumentSource(document=Document(id=name, title=title, media_type="text/plain"), data=data)


def _refuse_name(text: str) -> None:
    """`InvalidInputError` for the name of a file: as a text, only the name would be found."""
    try:
        is_name = len(text) < MAX_NAME and "\n" not in text and Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return
    if is_name and text.strip():
        raise InvalidInputError(
            f"{text!r:.80} is the name of a file or folder, and a str is a text: give pathlib.Path({text!r:.80}) for "
            "a file, Indexer(base).folder(...) for a folder, or a dict of the text by an id."
        )


def _not_a_document(given: object) -> InvalidInputError:
    return InvalidInputError(
        f"{given!r:.80} is no document: give texts (str), paths of files (pathlib.Path), DocumentSources, or a dict of "
        "texts by their ids."
    )
