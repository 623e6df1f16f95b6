"""Media as parts of a content or of a function's response, and the parts that only Gemini understands as blocks.

| block                              | part                                                       |
|------------------------------------|------------------------------------------------------------|
| image, audio, video, file (base64) | `inlineData` with its media type                           |
| image, audio, video, file (URL)    | `fileData`: web address, Files API, Cloud Storage, YouTube |
| `VideoBlock.fps`                   | `videoMetadata`                                            |
| a video of frames                  | its images                                                 |
| `FileBlock.name`                   | text before the part: the wire has no field for it         |

A `ThinkingBlock` keeps what must go back in its place:

| part                                                  | as a ThinkingBlock                                |
|-------------------------------------------------------|---------------------------------------------------|
| a thought                                             | its text; the signature if it has one             |
| the signature of a text                               | after the text: no text, `spans` in the metadata  |
| the signature of an image                             | after the image: no text, `media` in the metadata |
| code that ran at the server, its result, server tools | no text; the `parts` as JSON in the metadata      |

A call's signature is in the call's own metadata. Spans are (start, end, signature) in the text: those pieces were parts
of their own, and go back as such. The metadata names the `vendor`, so that other providers leave the block out.
"""

from __future__ import annotations

import json
import mimetypes
from collections.abc import Iterator, Sequence
from typing import cast
from urllib.parse import urlsplit

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Base64Source, FileBlock, FramesSource, Source, ThinkingBlock, VideoBlock
from agentscope_rx.models.wire.media import MediaBlock, address_of, data_source, sources_of

WirePart = dict[str, object]

VENDOR = "gemini"
SIGNATURE = "thoughtSignature"

Span = tuple[int, int, str]

_IN_RESPONSES = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def media_parts(block: MediaBlock) -> list[WirePart]:
    """The parts for a block; `InvalidInputError` for a file that was not read."""
    parts = [_media(source) for source in sources_of(block)]
    if isinstance(block, VideoBlock) and block.fps is not None and not isinstance(block.source, FramesSource):
        parts[0]["videoMetadata"] = {"fps": block.fps}
    if isinstance(block, FileBlock) and block.name:
        return [{"text": f"File {block.name}:"}, *parts]
    return parts


def fits_in_response(block: MediaBlock) -> bool:
    """True if a function's response can hold the block."""
    return all(_media_type(part) in _IN_RESPONSES for part in response_parts(block))


def response_parts(block: MediaBlock) -> list[WirePart]:
    """The parts of a function's response for a block that fits there."""
    return [_media(source) for source in sources_of(block)]


def thought(text: str, signature: str | None) -> ThinkingBlock:
    """A piece of a thought."""
    return ThinkingBlock(text, signature, {"vendor": VENDOR} if signature else {})


def text_signatures(spans: Sequence[Span]) -> ThinkingBlock:
    """The signatures of the text before."""
    return ThinkingBlock("", spans[-1][2], {"vendor": VENDOR, "spans": [list(span) for span in spans]})


def media_signature(signature: str) -> ThinkingBlock:
    """The signature of the image before."""
    return ThinkingBlock("", signature, {"vendor": VENDOR, "media": True})


def kept_parts(parts: Sequence[str]) -> ThinkingBlock:
    """The block that keeps parts, each as JSON."""
    return ThinkingBlock("", None, {"vendor": VENDOR, "parts": list(parts)})


def is_own(block: ThinkingBlock) -> bool:
    """True if the block is Gemini's; one without metadata may be another's, and is left out."""
    return block.metadata.get("vendor") == VENDOR


def spans_of(block: object) -> Sequence[Span]:
    """The signatures of the text before this block; none if it is another block."""
    spans = block.metadata.get("spans") if isinstance(block, ThinkingBlock) and is_own(block) else None
    return cast("Sequence[Span]", spans) if isinstance(spans, (list, tuple)) else ()


def wire_text(text: str, spans: Sequence[Span]) -> Iterator[WirePart]:
    """The parts of a text: the signed pieces, and the text between them. A text that has changed is one part."""
    if any(end > len(text) or start > end for start, end, _ in spans):
        spans = ()
    done = 0
    for start, end, signature in spans:
        if text[done:start]:
            yield {"text": text[done:start]}
        yield {"text": text[start:end], SIGNATURE: signature}
        done = end
    if text[done:]:
        yield {"text": text[done:]}


def wire_thinking(block: ThinkingBlock) -> Iterator[WirePart]:
    """The parts that a block came from, without the signatures of the text or image before it."""
    if not is_own(block):
        return
    parts = block.metadata.get("parts")
    if isinstance(parts, (list, tuple)):
        for part in cast("Sequence[object]", parts):
            yield _kept_part(part)
    if block.signature and block.thinking and "spans" not in block.metadata:
        yield {"text": block.thinking, "thought": True, SIGNATURE: block.signature}


def _kept_part(text: object) -> WirePart:
    try:
        part: object = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        part = None
    if not isinstance(part, dict):
        raise InvalidInputError(
            f"A thinking block of vendor {VENDOR!r} has a part that is no JSON object: {text!r:.80}"
        )
    return cast("WirePart", part)


def _media(source: Source) -> WirePart:
    source = data_source(source)
    if isinstance(source, Base64Source):
        return {"inlineData": {"mimeType": source.media_type, "data": source.data}}
    url = address_of(source)
    media_type = mimetypes.guess_type(urlsplit(url).path)[0]
    file = {"fileUri": url}
    return {"fileData": {**file, "mimeType": media_type} if media_type else file}


def _media_type(part: WirePart) -> str | None:
    data = cast("dict[str, str]", next(iter(part.values())))
    return data.get("mimeType")
