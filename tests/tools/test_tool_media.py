"""Bytes and pictures as blocks."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass

import pytest
from calling import result
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.messages import AudioBlock, Base64Source, FileBlock, ImageBlock, TextBlock, VideoBlock
from agentscope_rx.tools.results.convert import output_of
from agentscope_rx.tools.results.media import media_block, media_type

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
WEBP = b"RIFF\x10\x00\x00\x00WEBPVP8 "


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
        (b"GIF87a...", "image/gif"),
        (b"GIF89a...", "image/gif"),
        (WEBP, "image/webp"),
        (b"\x00\x00\x00\x1cftypavif....", "image/avif"),
        (b"\x00\x00\x00\x18ftypheic....", "image/heic"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"ID3\x04\x00...", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"OggS\x00\x02", "audio/ogg"),
        (b"fLaC\x00\x00", "audio/flac"),
        (b"\x00\x00\x00\x20ftypM4A ....", "audio/mp4"),
        (b"\x00\x00\x00\x20ftypisom....", "video/mp4"),
        (b"\x00\x00\x00\x14ftypqt  ....", "video/quicktime"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "video/webm"),
        (b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\x82\x88matroska", "video/x-matroska"),
        (b"%PDF-1.7", "application/pdf"),
        (b"RIFF\x24\x00\x00\x00AVI LIST", None),
        (b"plain text", None),
        (b"\xff\xfet\x00e\x00", None),
        (b"PK\x03\x04", None),
        (b"", None),
    ],
)
def test_what_bytes_are_is_read_from_their_beginning(data: bytes, found: str | None):
    assert media_type(data) == found
    block = media_block(data)
    if found is None:
        assert block is None
        return
    kinds = {"image": ImageBlock, "audio": AudioBlock, "video": VideoBlock, "application": FileBlock}
    assert type(block) is kinds[found.split("/")[0]]
    assert isinstance(block, (ImageBlock, AudioBlock, VideoBlock, FileBlock))
    assert block.source == Base64Source.of(data, found)


@given(st.binary(max_size=100))
def test_any_bytes_are_a_block_or_none(data: bytes):
    block = media_block(data)
    assert block is None or (isinstance(block.source, Base64Source) and block.source.decode() == data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_tool_may_return_the_bytes_of_a_picture(kind: type):
    def picture() -> object:
        return kind(PNG)

    assert result(picture).output == (ImageBlock(Base64Source.of(PNG, "image/png")),)


def test_a_tool_may_return_a_document():
    def document() -> bytes:
        return b"%PDF-1.7 ..."

    assert result(document).output == (FileBlock(Base64Source.of(b"%PDF-1.7 ...", "application/pdf")),)


class Picture:
    """As a PIL image: it can be shown in a notebook."""

    drawn_on = ""

    def _repr_png_(self) -> bytes:
        Picture.drawn_on = threading.current_thread().name
        return PNG


class Photo:
    def _repr_png_(self) -> None:
        return None

    def _repr_jpeg_(self) -> tuple[bytes, dict[str, object]]:
        return b"\xff\xd8\xff", {}


class Formula:
    """As sympy's: may be drawn, unless it is switched off."""

    def _repr_png_(self) -> None:
        return None

    def __str__(self) -> str:
        return "x**2"


class _Figure:
    def savefig(self, file: io.BytesIO, format: str) -> None:
        assert format == "png"
        file.write(PNG)


# matplotlib is not installed here: what matters is where the class is from
Figure = type("Figure", (_Figure,), {"__module__": "matplotlib.figure"})


class Saving(_Figure):
    def __str__(self) -> str:
        return "saved"


class Proxy:
    def __getattr__(self, name: str) -> object:
        return lambda: PNG

    def __str__(self) -> str:
        return "proxy"


def test_what_can_be_drawn_is_a_picture():
    picture = (ImageBlock(Base64Source.of(PNG, "image/png")),)
    assert output_of(Picture()) == picture
    assert output_of(Figure()) == picture
    assert output_of(Photo()) == (ImageBlock(Base64Source.of(b"\xff\xd8\xff", "image/jpeg")),)


@pytest.mark.parametrize(("value", "text"), [(Formula(), "x**2"), (Saving(), "saved"), (Proxy(), "proxy")])
def test_what_gives_no_picture_is_text(value: object, text: str):
    assert output_of(value) == (TextBlock(text),)


def test_a_picture_is_drawn_on_a_worker_not_on_the_loop():
    async def plot() -> Picture:
        return Picture()

    assert isinstance(result(plot).output[0], ImageBlock)
    assert Picture.drawn_on == "agentscope-rx-worker"


def test_a_picture_that_cannot_be_drawn_is_the_tools_failure():
    class Broken:
        def _repr_png_(self) -> bytes:
            raise ValueError("no ink")

    def plot() -> Broken:
        return Broken()

    assert result(plot).text == "Error: ValueError: no ink"


def test_mixed_lists():
    mixed = ["A cat:", PNG, Picture(), {"legs": 4}, None]
    image = ImageBlock(Base64Source.of(PNG, "image/png"))
    assert output_of(mixed) == (TextBlock("A cat:"), image, image, TextBlock('{"legs":4}'), TextBlock("Done."))
    # bytes that are no picture make a list no output: it is data
    assert output_of(["key", b"abc"]) == (TextBlock('["key","YWJj"]'),)


@dataclass
class Row:
    name: str
    thumbnail: bytes


def test_bytes_within_data_are_base64():
    assert output_of(Row("cat", b"abc")) == (TextBlock('{"name":"cat","thumbnail":"YWJj"}'),)
