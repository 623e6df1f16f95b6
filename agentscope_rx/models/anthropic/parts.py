"""Blocks as the parts of a Messages content, and the parts that only Anthropic understands as blocks.

| block                  | part       | source                                                                 |
|------------------------|------------|------------------------------------------------------------------------|
| ImageBlock             | `image`    | JPEG, PNG, GIF or WebP as base64 or `data:` URL; a web address         |
| FileBlock              | `document` | a PDF as base64, `data:` URL or web address; text of any kind, as text |
| VideoBlock of frames   | `image`s   | as images                                                              |
| AudioBlock, VideoBlock | none       | `InvalidInputError`: Claude reads neither                              |

A `ThinkingBlock` keeps what must go back in its place:

| part                                    | as a ThinkingBlock                                         |
|-----------------------------------------|------------------------------------------------------------|
| `thinking`                              | its text, its signature                                    |
| `redacted_thinking`                     | no text; the data as signature, `redacted` in the metadata |
| parts of server tools, and unknown ones | no text; they are kept whole in the metadata's `blocks`    |

The metadata names the `vendor`, so that other providers leave the block out; thinking with a signature and without
metadata is taken for Anthropic's. Thinking without a signature (cut off, or another vendor's) cannot be sent back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FramesSource,
    ImageBlock,
    Source,
    ThinkingBlock,
    VideoBlock,
)
from agentscope_rx.models.wire.media import MediaBlock, address_of, data_source

WirePart = dict[str, object]

_IMAGES = frozenset(("image/jpeg", "image/png", "image/gif", "image/webp"))
_TEXTS = frozenset(("application/json", "application/xml", "application/yaml", "application/x-yaml"))
PDF = "application/pdf"

VENDOR = "anthropic"
OWN = {"vendor": VENDOR}
_REDACTED = {"vendor": VENDOR, "redacted": True}


def text_part(text: str) -> WirePart:
    """The part of a text."""
    return {"type": "text", "text": text}


def media_parts(block: MediaBlock) -> list[WirePart]:
    """The parts for a block; `InvalidInputError` says what to do about one that the API does not take."""
    match block:
        case ImageBlock(source=source):
            return [{"type": "image", "source": _image(data_source(source))}]
        case FileBlock():
            part: WirePart = {"type": "document", "source": _document(data_source(block.source))}
            return [part | {"title": block.name} if block.name else part]
        case VideoBlock(source=FramesSource(frames=frames)):
            return [{"type": "image", "source": _image(data_source(frame))} for frame in frames]
        case AudioBlock():
            raise InvalidInputError("Claude takes no audio. Send a transcript as text.")
        case VideoBlock():
            raise InvalidInputError("Claude takes no video. Send some of its frames: VideoBlock(FramesSource([...])).")


def redacted(data: str) -> ThinkingBlock:
    """The block that keeps encrypted thinking."""
    return ThinkingBlock("", data, _REDACTED)


def kept_parts(blocks: Sequence[Mapping[str, object]]) -> ThinkingBlock:
    """The block that keeps parts as they are."""
    return ThinkingBlock("", None, {"vendor": VENDOR, "blocks": list(blocks)})


def wire_thinking(block: ThinkingBlock) -> Iterator[dict[str, object]]:
    """The parts that a block came from, in order; none for another vendor's block."""
    if block.metadata and block.metadata.get("vendor") != VENDOR:
        return
    blocks = block.metadata.get("blocks")
    if isinstance(blocks, (list, tuple)):
        for each in cast("Sequence[Mapping[str, object]]", blocks):
            yield dict(each)
    if not block.signature:
        return
    if block.metadata.get("redacted"):
        yield {"type": "redacted_thinking", "data": block.signature}
    else:
        yield {"type": "thinking", "thinking": block.thinking, "signature": block.signature}


def _image(source: Source) -> WirePart:
    if not isinstance(source, Base64Source):
        return _url(source)
    media_type = source.media_type.partition(";")[0].strip().lower().replace("image/jpg", "image/jpeg")
    if media_type not in _IMAGES:
        raise InvalidInputError(f"An image must be JPEG, PNG, GIF or WebP, not {source.media_type}; convert it first.")
    return {"type": "base64", "media_type": media_type, "data": source.data}


def _document(source: Source) -> WirePart:
    if not isinstance(source, Base64Source):
        return _url(source)
    media_type = source.media_type.partition(";")[0].strip().lower()
    if media_type == PDF:
        return {"type": "base64", "media_type": PDF, "data": source.data}
    if media_type.startswith("text/") or media_type in _TEXTS:
        try:
            text = source.decode().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"This {source.media_type} file is not UTF-8 text: {error}") from error
        return {"type": "text", "media_type": "text/plain", "data": text}
    raise InvalidInputError(f"A file must be a PDF or text, not {source.media_type}; convert it, or send its text.")


def _url(source: Source) -> WirePart:
    assert not isinstance(source, Base64Source)
    return {"type": "url", "url": address_of(source)}
