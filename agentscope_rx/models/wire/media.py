"""Media for the wire: local files are read into base64 first, so that formatters stay pure.

`read_files` blocks, so it runs on a worker; `has_files` avoids that where there are none. Addresses are sent unchanged:
nothing is fetched here.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, unquote_to_bytes

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    FileSource,
    FramesSource,
    ImageBlock,
    Msg,
    Source,
    ToolResultBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.messages.local_file import MAX_FILE_BYTES

MediaBlock = ImageBlock | AudioBlock | VideoBlock | FileBlock
B = TypeVar("B", bound=ContentBlock)

MAX_REQUEST_BYTES = 2 * MAX_FILE_BYTES
"""The most bytes of all files of one request together: a short message can name one large file many times."""

_DEFAULT_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def address_of(source: URLSource | FileSource) -> str:
    """The address; `InvalidInputError` for a file, which should have been read into base64."""
    if isinstance(source, FileSource):
        raise InvalidInputError(f"The file {source.path} was not read before it was formatted; see read_files().")
    return source.url


def data_source(source: Source) -> Source:
    """The source, with a `data:` URL decoded into base64; `InvalidInputError` for such a URL without data."""
    if not isinstance(source, URLSource) or source.url[:5].lower() != "data:":
        return source
    head, comma, data = source.url[5:].partition(",")
    media_type, *parameters = head.split(";")
    if not comma or not data:
        raise InvalidInputError(f"This data: URL holds no data: {source.url[:60]}")
    if "base64" in parameters:
        return Base64Source(media_type or "text/plain", unquote(data))
    return Base64Source.of(unquote_to_bytes(data), media_type or "text/plain")


def sources_of(block: MediaBlock) -> tuple[Source, ...]:
    """The sources of the block's bytes: one, or those of a video's frames."""
    return block.source.frames if isinstance(block.source, FramesSource) else (block.source,)


def has_files(messages: Sequence[Msg]) -> bool:
    """True if any block of the messages, or of a tool result in them, is a local file, locked or not."""
    return any(_is_file(block) for message in messages for block in message.content)


def read_files(messages: Sequence[Msg]) -> list[Msg]:
    """The messages with local files read into base64; it blocks. `InvalidInputError` names an unreadable file."""
    reader = _Reader()
    return [
        message.replace(content=tuple(reader.block(block) for block in message.content))
        if has_files((message,))
        else message
        for message in messages
    ]


def _is_file(block: ContentBlock) -> bool:
    if isinstance(block, ToolResultBlock):
        return any(_is_file(part) for part in block.output)
    return isinstance(block, MediaBlock) and any(isinstance(source, FileSource) for source in sources_of(block))


class _Reader:
    """Reads the files of one request, up to `MAX_REQUEST_BYTES`."""

    __slots__ = ("_room",)

    def __init__(self) -> None:
        self._room = MAX_REQUEST_BYTES

    def block(self, block: B) -> B:
        if isinstance(block, ToolResultBlock):
            return replace(block, output=tuple(self.block(part) for part in block.output))
        if not isinstance(block, MediaBlock):
            return block
        if isinstance(block.source, FramesSource):
            frames = tuple(self._source(frame, "image") for frame in block.source.frames)
            return replace(block, source=FramesSource(frames))
        if not isinstance(block.source, FileSource):
            return block
        source = self._source(block.source, block.type)
        if isinstance(block, FileBlock):
            return replace(block, source=source, name=block.name or Path(block.source.path).name)
        return replace(block, source=source)

    def _source(self, source: Source, kind: str) -> Source:
        if not isinstance(source, FileSource):
            return source
        data = source.read(MAX_FILE_BYTES)
        self._room -= len(data)
        if self._room < 0:
            raise InvalidInputError(
                f"The files of this request have more than {MAX_REQUEST_BYTES:,} bytes together; {source.path} goes "
                "over that. Leave some out, or send addresses."
            )
        guessed = mimetypes.guess_type(source.path)[0] or ""
        fits = guessed if kind == "file" or guessed.startswith(f"{kind}/") else ""
        if not data:
            raise InvalidInputError(f"The {kind} file {source.path} is empty.")
        return Base64Source.of(data, fits or _DEFAULT_TYPE[kind])
