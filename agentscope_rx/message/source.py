"""Where the bytes of an image, audio, video or file come from: a URL or base64 data; a video's, its frames, too."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Discriminator

from agentscope_rx.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class URLSource:
    """A web address, a `file:` URL or a local path."""

    url: str
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"URLSource needs a url, as a str, not {self.url!r:.80}.")


@dataclass(frozen=True, slots=True)
class Base64Source:
    """Data in base64 with its media type, such as `image/png`."""

    media_type: str
    data: str
    type: Literal["base64"] = "base64"

    def __post_init__(self) -> None:
        if not (self.media_type and self.data and isinstance(self.data, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(
                "Base64Source needs a media_type (such as 'image/png') and data in base64. Base64Source.of takes bytes."
            )

    @classmethod
    def of(cls, data: bytes, media_type: str) -> Base64Source:
        """The source that holds these bytes."""
        return cls(media_type, base64.b64encode(data).decode("ascii"))

    @classmethod
    def of_file(cls, path: str | Path, media_type: str) -> Base64Source:
        """The source that holds this file's bytes, read now."""
        return cls.of(Path(path).read_bytes(), media_type)

    def decode(self) -> bytes:
        """The bytes; `InvalidInputError` if the data is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise InvalidInputError(f"The data of this {self.media_type} source is not base64: {error}") from error


SOURCE_TYPES = (URLSource, Base64Source)

Source = Annotated[URLSource | Base64Source, Discriminator("type")]


@dataclass(frozen=True, slots=True)
class FramesSource:
    """A video as pictures, in their order; `VideoBlock.fps` says how many were taken in a second."""

    frames: tuple[Source, ...]
    type: Literal["frames"] = "frames"

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", tuple(self.frames))
        if not self.frames or not all(isinstance(frame, SOURCE_TYPES) for frame in self.frames):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"FramesSource needs the sources of its pictures, not {self.frames!r:.80}.")


VideoSource = Annotated[URLSource | Base64Source | FramesSource, Discriminator("type")]
