"""What a picture costs: a vendor's rule as a value, and the size of a picture read from the first bytes of its data.

The size of a picture at a web address or in a file is not known; it costs what `unknown` says.
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from agentscope_rx.messages.sources import Base64Source, Source

_HEAD = 64 * 1024
Size = tuple[int, int]


class PictureRule(Protocol):
    """Tokens of a picture."""

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        ...


@dataclass(frozen=True, slots=True)
class FlatRule:
    """Every picture costs the same."""

    tokens: int

    def of(self, source: Source) -> int:
        return self.tokens


@dataclass(frozen=True, slots=True)
class TileRule:
    """`base`, and `tile` for each square of 512, once scaled down into `fit` and to `shorter` on the shorter side."""

    base: int
    tile: int
    fit: int = 2048
    shorter: int = 768
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        width, height = _scaled(*(size_of(source) or self.unknown), fit=self.fit)
        factor = min(1.0, self.shorter / min(width, height))
        return self.base + self.tile * ceil(width * factor / 512) * ceil(height * factor / 512)


@dataclass(frozen=True, slots=True)
class CropRule:
    """`tokens` for a picture of at most `small` each way, else for each of its square crops."""

    tokens: int
    small: int
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        width, height = size_of(source) or self.unknown
        if width <= self.small and height <= self.small:
            return self.tokens
        unit = max(1, int(min(width, height) / 1.5))
        return self.tokens * ceil(width / unit) * ceil(height / unit)


@dataclass(frozen=True, slots=True)
class PatchRule:
    """One token for each square of `patch` pixels, at most `most`, times `factor`, plus `extra`."""

    patch: int
    most: int
    factor: float = 1.0
    extra: int = 0
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        width, height = size_of(source) or self.unknown
        patches = ceil(width / self.patch) * ceil(height / self.patch)
        return ceil(min(patches, self.most) * self.factor) + self.extra


@dataclass(frozen=True, slots=True)
class AreaRule:
    """One token for `pixels` pixels, once fitted into `fit`, at most `most`."""

    pixels: int
    fit: int
    most: int
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        width, height = _scaled(*(size_of(source) or self.unknown), fit=self.fit)
        return min(self.most, ceil(width * height / self.pixels))


def size_of(source: Source) -> Size | None:
    """Width and height of a PNG, GIF, JPEG or WebP in base64; None if they are not known."""
    if not isinstance(source, Base64Source):
        return None
    try:
        head = base64.b64decode(source.data[:_HEAD])
        size = _png(head) or _gif(head) or _webp(head) or _jpeg(head)
    except (binascii.Error, ValueError, struct.error, IndexError):
        return None
    return size if size and size[0] > 0 and size[1] > 0 else None


def _scaled(width: int, height: int, *, fit: int) -> tuple[float, float]:
    factor = min(1.0, fit / max(width, height))
    return width * factor, height * factor


def _png(head: bytes) -> Size | None:
    return struct.unpack(">II", head[16:24]) if head[:8] == b"\x89PNG\r\n\x1a\n" else None


def _gif(head: bytes) -> Size | None:
    return struct.unpack("<HH", head[6:10]) if head[:6] in (b"GIF87a", b"GIF89a") else None


def _webp(head: bytes) -> Size | None:
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return None
    kind = head[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", head[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1


def _jpeg(head: bytes) -> Size | None:
    if head[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if marker == 0xFF or 0xD0 <= marker <= 0xD9 or marker == 1:
            at += 1 if marker == 0xFF else 2
            continue
        # a frame's head holds the size; C4, C8 and CC are tables
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", head[at + 2 : at + 4])[0]
    return None
