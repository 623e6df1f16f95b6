"""Bytes and pictures as blocks: the kind of a file is read from its first bytes.

| bytes begin with                       | block                                                    |
|----------------------------------------|----------------------------------------------------------|
| PNG, JPEG, GIF, WebP, AVIF, HEIC       | `ImageBlock` with `image/png`, `image/jpeg`, ...         |
| WAV, MP3 (`ID3` or a frame), Ogg, FLAC, M4A | `AudioBlock` with `audio/wav`, `audio/mpeg`, ...    |
| MP4, QuickTime, WebM, Matroska         | `VideoBlock` with `video/mp4`, `video/quicktime`, ...    |
| PDF                                    | `FileBlock` with `application/pdf`                       |

| object                                 | block                                                    |
|----------------------------------------|----------------------------------------------------------|
| with `_repr_png_()` or `_repr_jpeg_()` (a PIL image, what a notebook shows) | the image it gives  |
| a figure of matplotlib                 | `figure.savefig(..., format="png")`                      |

Neither PIL nor matplotlib is imported: an object is a picture if it has one of these methods. One whose method returns
nothing (sympy's formulas, by default) is not a picture.

(The table is kept here: `filetype` reports audiobooks as video, misses MP4 files of DASH streams, names types that
models do not accept, such as image/apng and audio/x-flac, and takes 20 times as long for bytes of an unknown kind.)
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, cast

from agentscope_rx.messages import AudioBlock, Base64Source, FileBlock, ImageBlock, VideoBlock

_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf2", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"%PDF-", "application/pdf"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_BLOCKS = {"image": ImageBlock, "audio": AudioBlock, "video": VideoBlock, "application": FileBlock}


def media_type(data: bytes) -> str | None:
    """The media type of a file's bytes; None if their beginning is not in the table."""
    for beginning, found in _BEGINNINGS:
        if data.startswith(beginning):
            return found
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12])
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        # the first element of the header names the kind
        return "video/webm" if b"webm" in data[:64] else "video/x-matroska"
    return None


def media_block(data: bytes) -> ImageBlock | AudioBlock | VideoBlock | FileBlock | None:
    """The block for these bytes; None if their kind is unknown."""
    found = media_type(data)
    return None if found is None else _BLOCKS[found.partition("/")[0]](Base64Source.of(data, found))


PLAIN = frozenset({str, int, float, bool, type(None), dict, list, tuple})
"""The types of most results, which are never pictures."""


def can_be_drawn(value: object) -> bool:
    """True if the value has a method that draws it."""
    # looked up on the class: a proxy or mock has every attribute, and is not a picture
    kind = type(value)
    return kind not in PLAIN and (hasattr(kind, "_repr_png_") or hasattr(kind, "_repr_jpeg_") or _is_figure(kind))


def drawn(value: object) -> ImageBlock | None:
    """The picture of a value, None if its method returns none. Blocks while the value is drawn."""
    given: Any = value
    for name, kind in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        make = cast("Callable[[], object] | None", getattr(given, name, None))
        data: Any = None if make is None else make()
        if isinstance(data, tuple):
            # notebooks allow (data, metadata)
            data = cast("tuple[object, ...]", data)[0]
        if isinstance(data, bytes) and data:
            return ImageBlock(Base64Source.of(data, kind))
    if _is_figure(type(value)):
        file = io.BytesIO()
        given.savefig(file, format="png")
        return ImageBlock(Base64Source.of(file.getvalue(), "image/png"))
    return None


def _is_figure(kind: type) -> bool:
    return any(base.__module__.startswith("matplotlib.") and hasattr(base, "savefig") for base in kind.__mro__)
