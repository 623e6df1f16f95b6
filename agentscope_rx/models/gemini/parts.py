"""Media blocks as parts of a content, and of a function's response.

| block                              | part                                                       |
|------------------------------------|------------------------------------------------------------|
| image, audio, video, file (base64) | `inlineData` with its media type                           |
| image, audio, video, file (URL)    | `fileData`: web address, Files API, Cloud Storage, YouTube |
| `VideoBlock.fps`                   | `videoMetadata`                                            |
| a video of frames                  | its images                                                 |
| `FileBlock.name`                   | words before the part: the wire has no field for it        |
"""

from __future__ import annotations

import mimetypes
from typing import cast
from urllib.parse import urlsplit

from agentscope_rx.messages import Base64Source, FileBlock, FramesSource, Source, VideoBlock
from agentscope_rx.models.wire.media import MediaBlock, address_of, data_source, sources_of

WirePart = dict[str, object]

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
