"""Documents and chunks as the bytes that databases keep: JSON, which may hold any text, NUL too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from agentscope_rx.errors.text import encodable, encode_json
from agentscope_rx.knowledge.document import Chunk, Document, Scalar, SectionKind
from agentscope_rx.messages import ImageBlock
from agentscope_rx.messages.sources import reading
from agentscope_rx.messages.structured import adapter_of


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
        values["image"] = adapter_of(ImageBlock).dump_python(chunk.image, mode="json")
    return _json(values)


def chunk_of(document: Document, record: str | bytes) -> Chunk:
    """The chunk of a record, in its document."""
    values: dict[str, Any] = json.loads(record)
    image = values.get("image")
    if image is not None:
        # the database may come from elsewhere: a path in it is kept, and not read
        image = adapter_of(ImageBlock).validate_python(image, context=reading(None, lock=True))
    return Chunk(
        document=document,
        number=values["number"],
        text=values["text"],
        start=values["start"],
        end=values["end"],
        page=values.get("page"),
        headings=tuple(values.get("headings", ())),
        kind=cast("SectionKind", values.get("kind", "text")),
        image=image,
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


def _json(values: Mapping[str, object]) -> bytes:
    return encode_json(json.dumps(values, ensure_ascii=False, separators=(",", ":")))
