"""Media blocks as parts of a content, and of a function's response.

| block                              | part                                                       |
|------------------------------------|------------------------------------------------------------|
| image, audio, video, file (base64) | `inlineData` with its media type                           |
| image, audio, video, file (URL)    | `fileData`: web address, Files API, Cloud Storage, YouTube |
| `VideoBlock.fps`                   | `videoMetadata`                                            |
| `FileBlock.name`                   | words before the part: the wire has no field for it        |
"""

from __future__ import annotations

import mimetypes
from urllib.parse import urlsplit

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import Base64Source, FileBlock, VideoBlock
from agentscope_rx.model.media import MediaBlock, data_source, local_path

WirePart = dict[str, object]

_IN_RESPONSES = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")


def media_parts(block: MediaBlock) -> list[WirePart]:
    """The parts for a block; `InvalidInputError` for a file that was not read."""
    part = _media(block)
    if isinstance(block, VideoBlock) and block.fps is not None:
        part["videoMetadata"] = {"fps": block.fps}
    if isinstance(block, FileBlock) and block.name:
        return [{"text": f"File {block.name}:"}, part]
    return [part]


def response_part(block: MediaBlock) -> WirePart | None:
    """The part of a function's response for a block; None if a response cannot hold it."""
    source = data_source(block.source)
    if isinstance(source, Base64Source):
        return _media(block) if source.media_type in _IN_RESPONSES else None
    return _media(block) if mimetypes.guess_type(urlsplit(source.url).path)[0] in _IN_RESPONSES else None


def _media(block: MediaBlock) -> WirePart:
    source = data_source(block.source)
    if isinstance(source, Base64Source):
        return {"inlineData": {"mimeType": source.media_type, "data": source.data}}
    if local_path(source) is not None:
        raise InvalidInputError(f"The file {source.url} was not read before it was formatted; see read_files().")
    file: WirePart = {"fileUri": source.url}
    media_type = mimetypes.guess_type(urlsplit(source.url).path)[0]
    if media_type:
        file["mimeType"] = media_type
    return {"fileData": file}
