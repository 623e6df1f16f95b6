"""Token costs of everything but text: a vendor's rules as data, with sources, because their pages change.

The cost of a picture depends on its size, which is read from the first bytes of its data. The size of a picture at a
web address or in a file is unknown; the rule's `unknown` size is assumed.

(Sizes are parsed here, not by `imagesize`: it takes 37 ms for a malformed header of 64 KB, reports wrong sizes for
scaled WebP files and for GIFs wider than 32,767, and opens URLs. The four formats that models accept need 45 lines.)
"""

from __future__ import annotations

import base64
import binascii
import struct
from dataclasses import field
from math import ceil
from typing import Final, Protocol

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.sources import Base64Source, Source
from agentscope_rx.models.providers import PROVIDERS, models_of

_HEAD = 64 * 1024
Size = tuple[int, int]


class PictureRule(Protocol):
    """The token cost of a picture."""

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        ...


@dataclass(frozen=True, slots=True)
class FlatRule:
    """Every picture costs `tokens` tokens."""

    tokens: int

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        return self.tokens


@dataclass(frozen=True, slots=True)
class TileRule:
    """`base`, and `tile` per square of 512 pixels, after scaling down to `fit` and a shorter side of `shorter`."""

    base: int
    tile: int
    fit: int = 2048
    shorter: int = 768
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        width, height = _scaled(*(size_of(source) or self.unknown), fit=self.fit)
        factor = min(1.0, self.shorter / min(width, height))
        return self.base + self.tile * ceil(width * factor / 512) * ceil(height * factor / 512)


@dataclass(frozen=True, slots=True)
class CropRule:
    """`tokens` for a picture of at most `small` pixels each way, else for each of its square crops."""

    tokens: int
    small: int
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        width, height = size_of(source) or self.unknown
        if width <= self.small and height <= self.small:
            return self.tokens
        unit = max(1, int(min(width, height) / 1.5))
        return self.tokens * ceil(width / unit) * ceil(height / unit)


@dataclass(frozen=True, slots=True)
class PatchRule:
    """One token per square of `patch` pixels, at most `most`, times `factor`, plus `extra`."""

    patch: int
    most: int
    factor: float = 1.0
    extra: int = 0
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        width, height = size_of(source) or self.unknown
        patches = ceil(width / self.patch) * ceil(height / self.patch)
        return ceil(min(patches, self.most) * self.factor) + self.extra


@dataclass(frozen=True, slots=True)
class AreaRule:
    """One token per `pixels` pixels, after scaling down to fit `fit`, at most `most`."""

    pixels: int
    fit: int
    most: int
    unknown: Size = (1024, 1024)

    def of(self, source: Source) -> int:
        """The tokens of the picture in this source."""
        width, height = _scaled(*(size_of(source) or self.unknown), fit=self.fit)
        return min(self.most, ceil(width * height / self.pixels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """A vendor's token costs of everything but text.

    `request`, `message`, `name`, `call`, `result` and `tool` are the overhead of each of these. `thinking` is True if
    earlier thinking is sent back. `picture` is a rule by the picture's size, which is read from its data; one at a web
    address counts as 1024 x 1024. `audio`, `video` and `file` are flat, as their lengths are unknown. Change a rule
    with `dataclasses.replace(OPENAI, picture=TileRule(70, 140))`.
    """

    request: int = 3
    message: int = 4
    name: int = 1
    call: int = 8
    result: int = 4
    tool: int = 8
    thinking: bool = True
    picture: PictureRule = field(default_factory=lambda: FlatRule(1_100))
    audio: int = 1_500
    video: int = 4_000
    file: int = 3_000


OPENAI: Final = Costs(
    # OpenAI cookbook, "How to count tokens with tiktoken": 3 for a message, 1 for a name, 3 before the answer;
    # thinking is not sent back in Chat Completions
    request=3,
    message=3,
    name=1,
    thinking=False,
    # OpenAI, "Images and vision": 85 + 170 for each tile of 512 (gpt-4o, gpt-4.1); gpt-5 takes 70 + 140, less
    picture=TileRule(85, 170),
)
"""The costs of OpenAI's models gpt-4o and gpt-5."""
OPENAI_MINI: Final = Costs(
    request=3,
    message=3,
    name=1,
    thinking=False,
    # the same page: patches of 32, at most 1,536, times 1.62 (gpt-4.1-mini, gpt-5-mini) or less
    picture=PatchRule(32, 1_536, 1.62),
)
"""The costs of OpenAI's mini models, which count pictures by patches."""
ANTHROPIC: Final = Costs(
    # Anthropic, "Vision": width * height / 750, scaled down to 1,568 the longer side, about 1,600 at most
    picture=AreaRule(750, fit=1_568, most=1_600),
)
"""The costs of Anthropic's models."""
GEMINI: Final = Costs(
    # Google, "Understand and count tokens": 258 up to 384 each way, else 258 for each crop;
    # 32 for a second of sound, 263 for one of video: flat for about 45 and 15 seconds
    picture=CropRule(258, 384),
    audio=1_440,
    video=3_945,
)
"""The costs of Google's models."""
QWEN: Final = Costs(
    # Model Studio, "Visual understanding": a token per 28 * 28 pixels and 2 more, at most 1,280 unless max_pixels is
    # set; thinking is not sent back
    thinking=False,
    picture=PatchRule(28, 1_280, extra=2),
)
"""The costs of Qwen's models, at DashScope or elsewhere."""

_KNOWN: Final = {"openai": OPENAI, "anthropic": ANTHROPIC, "gemini": GEMINI, "dashscope": QWEN}
COSTS_OF: Final = {name: _KNOWN[models_of(name)] for name in PROVIDERS if models_of(name) in _KNOWN}
"""The costs of each vendor's models, by `ChatModel.provider`."""


def size_of(source: Source) -> Size | None:
    """Width and height of a PNG, GIF, JPEG or WebP in base64; None if unknown."""
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
        # a frame header holds the size; C4, C8 and CC are tables
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", head[at + 2 : at + 4])[0]
    return None
