"""Documents and chunks as the bytes that databases keep: JSON, which may hold any text, NUL too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter

from agentscope_rx.errors.text import encodable, encode_json
from agentscope_rx.knowledge.document import Chunk, Document, Scalar, SectionKind
from agentscope_rx.messages import ImageBlock
from agentscope_rx.messages.sources import reading


def document_record(document: Document) -> bytes:
    """The document as JSON."""
    return _json(
        {
            "id": document.id,
            "title": document.title,
            "media_type": document.media_type,
            "digest": document.digest,
            "size": document.size,
            "metadata": dict(document.metadata),
        }
    )


def document_of(record: str | bytes) -> Document:
    """The document of a record."""
    return Document(**json.loads(record))


def chunk_record(chunk: Chunk) -> bytes:
    """The chunk as JSON, without its document."""
    values: dict[str, object] = {"number": chunk.number, "text": chunk.text, "start": chunk.start, "end": chunk.end}
    if chunk.page is not None:
        values["page"] = chunk.page
    if chunk.headings:
        values["headings"] = chunk.headings
    if chunk.kind != "text":
        values["kind"] = chunk.kind
    if chunk.image is not None:
        values["image"] = _images().dump_python(chunk.image, mode="json")
    return _json(values)


def chunk_of(document: Document, record: str | bytes) -> Chunk:
    """The chunk of a record, in its document."""
    values: dict[str, Any] = json.loads(record)
    image = values.get("image")
    return Chunk(
        document=document,
        number=values["number"],
        text=values["text"],
        start=values["start"],
        end=values["end"],
        page=values.get("page"),
        headings=tuple(values.get("headings", ())),
        kind=cast("SectionKind", values.get("kind", "text")),
        image=None if image is None else _images().validate_python(image, context=reading(None, lock=True)),
    )


def storable(chunk: Chunk, document: Document) -> Chunk:
    """The chunk with texts that UTF-8 can encode."""
    headings = tuple(map(encodable, chunk.headings))
    return replace(chunk, document=document, text=encodable(chunk.text), headings=headings)


def fields_of(document: Document) -> Mapping[str, Scalar]:
    """What conditions name, beside what each chunk has of its own: metadata, and above it the document's fields."""
    own: dict[str, Scalar] = {
        "document_id": document.id,
        "title": document.title,
        "media_type": document.media_type,
    }
    return {**document.metadata, **own}


@cache
def _images() -> TypeAdapter[ImageBlock]:
    return TypeAdapter(ImageBlock)


def _json(values: Mapping[str, object]) -> bytes:
    return encode_json(json.dumps(values, ensure_ascii=False, separators=(",", ":")))
