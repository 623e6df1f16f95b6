"""Documents and chunks as rows, and back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, cast, get_args

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.errors.text import encodable
from agentscope_rx.knowledge.document import Chunk, Document, Metadata, Scalar, SectionKind
from agentscope_rx.knowledge.passage import Found
from agentscope_rx.knowledge.store import Indexed
from agentscope_rx.knowledge.stores.sqlite.damage import UNEXPECTED, Damage, damage_of, of_type
from agentscope_rx.messages import ImageBlock
from agentscope_rx.messages.sources import reading
from agentscope_rx.messages.structured import adapter_of

MAX_IMAGE_CHARS = 64 * 1024 * 1024
"""The longest image of a chunk, as base64; a model takes far less."""

DOCUMENT = "d.id, d.title, d.media_type, d.digest, d.size, d.metadata"
CHUNK = f"c.number, t.text, c.start, c.end, c.page, t.headings, c.kind, t.image, {DOCUMENT}, c.document, c.key"

_INT = 2**63
_KINDS = frozenset(get_args(SectionKind))


def document_values(document: Document) -> tuple[object, ...]:
    """The columns of a document: id, title, media type, digest, size, metadata."""
    metadata = json.dumps(dict(document.metadata), ensure_ascii=True)
    texts = map(encodable, (document.id, document.title, document.media_type, document.digest))
    return (*texts, document.size, metadata)


def metadata_values(document: Document) -> Iterable[tuple[str, str, object]]:
    """Name, kind and value of each entry, for conditions; an entry that is not a number has none."""
    for name, value in document.metadata.items():
        if value == value:
            yield (encodable(name), kind_of(value), storable(value))


def kind_of(value: object) -> str:
    """`b` for a boolean, `n` for a number, `t` for a text: SQLite has no booleans."""
    return "b" if isinstance(value, bool) else "t" if isinstance(value, str) else "n"


def storable(value: Scalar) -> Scalar:
    """The value as SQLite compares it: a whole number of more than 64 bits as a float."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, int) and not -_INT <= value < _INT:
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return value


def text_values(chunk: Chunk) -> tuple[str, str, str | None]:
    """Text, headings and image of a chunk."""
    headings = json.dumps([encodable(each) for each in chunk.headings])
    return (encodable(chunk.text), headings, None if chunk.image is None else _image_json(chunk.image))


def chunks_of(rows: Iterable[Sequence[Any]]) -> dict[int, Chunk]:
    """The chunks of rows with the columns `CHUNK`, by their keys."""
    documents: dict[int, Document] = {}
    chunks: dict[int, Chunk] = {}
    for row in rows:
        version = row[-2]
        document = documents.get(version)
        if document is None:
            document = documents[version] = document_of(row[8:14])
        try:
            chunks[row[-1]] = _chunk_of(document, row)
        except UNEXPECTED as error:
            raise damage_of(f"a chunk of {document.id!r:.60}", error) from error
    return chunks


def document_of(row: Sequence[Any]) -> Document:
    """The document of a row with the columns `DOCUMENT`."""
    id, title, media_type, digest, size, metadata = row
    try:
        for each in (id, title, media_type, digest):
            of_type(each, str, "a text of it")
        values = cast("Metadata", of_type(json.loads(metadata), dict, "its metadata"))
        size = of_type(size, int, "its size")
        return Document(id=id, title=title, media_type=media_type, digest=digest, size=size, metadata=values)
    except UNEXPECTED as error:
        raise damage_of(f"the document {id!r:.60}", error) from error


def indexed_of(row: Sequence[Any]) -> Indexed:
    """The document of a row with the columns `DOCUMENT`, then chunks and fingerprint."""
    chunks, fingerprint = of_type(row[6], int, "a number of chunks"), of_type(row[7], str, "a fingerprint")
    return Indexed(document=document_of(row[:6]), chunks=chunks, fingerprint=fingerprint)


def chunks_by_key(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Chunk]:
    """The chunks with these keys."""
    rows = connection.execute(
        f"SELECT {CHUNK} FROM json_each(?) j JOIN kb_chunks c ON c.key = j.value"  # noqa: S608
        " JOIN kb_texts t ON t.key = c.key JOIN kb_documents d ON d.key = c.document",
        (json.dumps(keys),),
    )
    return chunks_of(rows)


def place(found: Found) -> tuple[str, int]:
    """What orders chunks that are equally good."""
    return (found.chunk.document.id, found.chunk.number)


def _chunk_of(document: Document, row: Sequence[Any]) -> Chunk:
    number, text, start, end, page, headings, kind, image = row[:8]
    for each in (number, start, end, 0 if page is None else page):
        of_type(each, int, "a position of it")
    found = [] if headings == "[]" else cast("list[object]", of_type(json.loads(headings), list, "its headings"))
    above = tuple(of_type(each, str, "a heading of it") for each in found)
    of_type(text, str, "its text")
    if kind not in _KINDS:
        raise Damage(f"its kind is {kind!r:.60}")
    return Chunk(
        document=document,
        number=number,
        text=text,
        start=start,
        end=end,
        page=page,
        headings=above,
        kind=cast("SectionKind", kind),
        image=None if image is None else _image_of(image),
    )


def _image_json(image: ImageBlock) -> str:
    text = adapter_of(ImageBlock).dump_json(image).decode()
    if len(text) > MAX_IMAGE_CHARS:
        raise InvalidInputError(f"An image of a chunk has at most {MAX_IMAGE_CHARS:,} characters, not {len(text):,}.")
    return text


def _image_of(text: str) -> ImageBlock:
    # the file of the store may come from elsewhere: a path in it is kept, and not read
    return adapter_of(ImageBlock).validate_json(text, context=reading(None, lock=True))
