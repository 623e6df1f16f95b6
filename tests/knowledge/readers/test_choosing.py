"""Which reader a document is for; pictures, with a model that describes them and without."""

from __future__ import annotations

import asyncio
import base64

import pytest

from agentscope_rx.errors import (
    ConfigurationError,
    DamagedDocumentError,
    ModelConnectionError,
    UnsupportedDocumentError,
)
from agentscope_rx.knowledge import (
    DocumentSource,
    ImageReader,
    Reader,
    ReadLimits,
    Section,
    TextReader,
    default_readers,
    reader_of,
)
from agentscope_rx.messages import Base64Source
from agentscope_rx.models.capabilities import Capabilities
from agentscope_rx.reactive import Flow, just
from agentscope_rx.testing import HANG, ScriptedModel, run_virtual
from tests.knowledge.readers.reading import read, source

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class LogReader(Reader):
    suffixes = (".log", ".log.old")

    def read(self, source: DocumentSource) -> Flow[Section]:
        return just(Section(text="a log"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("docs/Guide.MD", "MarkdownReader"),
        ("a.b/notes.txt", "TextReader"),
        ("C:\\data\\sales.tsv", "CsvReader"),
        ("index.htm", "HtmlReader"),
        ("paper.pdf", "PdfReader"),
        ("x.docx", "DocxReader"),
        ("x.pptx", "PptxReader"),
        ("x.xlsx", "XlsxReader"),
        ("src/main.rs", "CodeReader"),
        ("Makefile", "CodeReader"),
        ("photo.JPEG", "ImageReader"),
        ("text/html; charset=utf-8", "HtmlReader"),
        ("application/pdf", "PdfReader"),
    ],
)
def test_the_reader_is_found_by_name_or_media_type(name: str, kind: str):
    assert type(reader_of(name)).__name__ == kind


def test_an_unknown_kind_names_those_that_exist():
    for name in ("x.epub", "README", "video/mp4", ""):
        with pytest.raises(UnsupportedDocumentError, match=r"\.csv.*\.docx.*\.pdf"):
            reader_of(name)


def test_own_readers_come_first_and_the_longest_ending_wins():
    readers = (LogReader(), *default_readers())
    assert isinstance(reader_of("a.log", readers), LogReader)
    assert isinstance(reader_of("a.log.old", (TextReader(), LogReader())), LogReader)
    assert isinstance(reader_of("a.log", default_readers()), TextReader)


def test_every_default_reader_has_a_fingerprint_of_its_own():
    found = [each.fingerprint for each in default_readers()]
    assert len(set(found)) == len(found)
    assert TextReader(encoding="gbk").fingerprint != TextReader().fingerprint


def test_a_picture_without_a_model_has_its_name_for_a_text():
    (found,) = read(ImageReader(), "plans/ground_floor-2.png", PIXEL)
    assert (found.kind, found.text) == ("image", "ground floor 2")
    assert found.image is not None and isinstance(found.image.source, Base64Source)
    assert found.image.source.media_type == "image/png" and found.image.source.decode() == PIXEL


def test_a_model_that_sees_writes_the_text_of_a_picture():
    model = ScriptedModel("A single pixel.")
    (found,) = read(ImageReader(describe=model), "a.png", PIXEL)
    assert found.text == "A single pixel." and found.image is not None
    (message,) = model.requests[0].messages
    assert [each.type for each in message.content] == ["image", "text"]


class BlindModel(ScriptedModel):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()


def test_a_model_that_cannot_see_is_refused():
    with pytest.raises(ConfigurationError, match="cannot see"):
        ImageReader(describe=BlindModel())


def test_a_picture_without_description_is_damaged():
    with pytest.raises(DamagedDocumentError, match="no picture"):
        read(ImageReader(), "a.png", b"GIF8 not quite")
    with pytest.raises(DamagedDocumentError, match="wrote no description"):
        read(ImageReader(describe=ScriptedModel("  ")), "a.png", PIXEL)


def test_an_error_of_the_model_is_the_readings():
    with pytest.raises(ModelConnectionError):
        read(ImageReader(describe=ScriptedModel(ModelConnectionError("gone"))), "a.png", PIXEL)


def test_disposal_ends_the_models_answer():
    model = ScriptedModel([HANG])

    async def main() -> None:
        task = ImageReader(describe=model).read(source("a.png", PIXEL)).as_task()
        await asyncio.sleep(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
    assert len(model.requests) == len(model.closed) == 1


def test_limits_for_all_readers():
    limits = ReadLimits(size=10)
    assert all(getattr(each, "limits") == limits for each in default_readers(limits=limits))  # noqa: B009
