"""Media for the wire: local files are read into base64 first, so that the formatter stays pure.

A path or `file:` URL means nothing to a server. `read_files` blocks and belongs on a worker; `has_files` says whether
it is needed at all. Web addresses and `data:` URLs go out as they are.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit
from urllib.request import url2pathname

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.message import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    FramesSource,
    ImageBlock,
    Msg,
    Source,
    ToolResultBlock,
    URLSource,
    VideoBlock,
)

MediaBlock = ImageBlock | AudioBlock | VideoBlock | FileBlock
B = TypeVar("B", bound=ContentBlock)

MAX_FILE_BYTES = 50 * 1024 * 1024
"""The largest file that is put into a request."""

_DEFAULT_TYPE = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "file": "application/octet-stream"}


def local_path(source: Source) -> Path | None:
    """The file that a source means, or None if it is data or a web address."""
    if not isinstance(source, URLSource):
        return None
    parts = urlsplit(source.url)
    if parts.scheme.lower() == "file":
        return Path(url2pathname(parts.path))
    # one letter before a colon is a drive
    return Path(source.url) if len(parts.scheme) <= 1 else None


def data_source(source: Source) -> Source:
    """The source with a `data:` URL taken apart into base64; any other as it is. `InvalidInputError` if it is none."""
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
    """Where the block's bytes come from: one source, or those of a video's frames."""
    return block.source.frames if isinstance(block.source, FramesSource) else (block.source,)


def has_files(messages: Sequence[Msg]) -> bool:
    """Whether any block of the messages, or of a tool result in them, is a local file."""
    return any(_is_file(block) for message in messages for block in message.content)


def read_files(messages: Sequence[Msg]) -> list[Msg]:
    """The messages with their local files read into base64; blocks. `InvalidInputError` names a file it cannot read."""
    return [
        message.replace(content=tuple(_read(block) for block in message.content)) if has_files((message,)) else message
        for message in messages
    ]


def _is_file(block: ContentBlock) -> bool:
    if isinstance(block, ToolResultBlock):
        return any(_is_file(part) for part in block.output)
    return isinstance(block, MediaBlock) and any(local_path(source) is not None for source in sources_of(block))


def _read(block: B) -> B:
    if isinstance(block, ToolResultBlock):
        return replace(block, output=tuple(_read(part) for part in block.output))
    if not isinstance(block, MediaBlock):
        return block
    if isinstance(block.source, FramesSource):
        frames = tuple(_source(frame, "image") for frame in block.source.frames)
        return replace(block, source=FramesSource(frames))
    path = local_path(block.source)
    if path is None:
        return block
    source = _source(block.source, block.type)
    if isinstance(block, FileBlock):
        return replace(block, source=source, name=block.name or path.name)
    return replace(block, source=source)


def _source(source: Source, kind: str) -> Source:
    path = local_path(source)
    if path is None:
        return source
    guessed = mimetypes.guess_type(path.name)[0] or ""
    fits = guessed if kind == "file" or guessed.startswith(f"{kind}/") else ""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InvalidInputError(f"{path} has {size} bytes; at most {MAX_FILE_BYTES} can be sent.")
        return Base64Source.of_file(path, fits or _DEFAULT_TYPE[kind])
    except OSError as error:
        raise InvalidInputError(f"The {kind} file {path} cannot be read: {error}") from error
