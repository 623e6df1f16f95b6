"""`default_readers` and `reader_of`: which reader a document is for, by the end of its name or its media type.

reader_of("docs/guide.md")                          # MarkdownReader
reader_of("application/pdf")                        # PdfReader
reader_of("a.epub", (EpubReader(), *default_readers()))

Nothing is decided by content: a file that is not what its name says fails with `DamagedDocumentError`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

from agentscope_rx.errors import UnsupportedDocumentError
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.readers.csv_file import CsvReader
from agentscope_rx.knowledge.readers.image import LIMITS as IMAGE_LIMITS
from agentscope_rx.knowledge.readers.image import ImageReader
from agentscope_rx.knowledge.readers.limits import DEFAULT_LIMITS, ReadLimits
from agentscope_rx.knowledge.readers.markdown import MarkdownReader
from agentscope_rx.knowledge.readers.parsed import DocxReader, HtmlReader, PdfReader, PptxReader, XlsxReader
from agentscope_rx.knowledge.readers.text import CodeReader, TextReader
from agentscope_rx.models.chat_model import ChatModel


def default_readers(
    *, describe: ChatModel | None = None, encoding: str | None = None, limits: ReadLimits | None = None
) -> tuple[Reader, ...]:
    """One reader for each family of formats.

    | reader | reads | extra |
    |---|---|---|
    | `MarkdownReader` | `.md`: the text below each heading, code blocks, tables | |
    | `TextReader` | `.txt`, `.rst`, `.log` and others, in the encoding that their bytes show | |
    | `CodeReader` | source code of some sixty languages | |
    | `CsvReader` | `.csv`, `.tsv`: each row as `name: value; ...` | |
    | `HtmlReader` | the visible parts of a page; scripts are never run | `documents` |
    | `PdfReader` | texts page by page; a scanned page has no text | `documents` |
    | `DocxReader` | paragraphs and tables; headings by their styles | `documents` |
    | `PptxReader` | slides, with the notes of the speaker | `documents` |
    | `XlsxReader` | rows as in `.csv`, sheet by sheet | `documents` |
    | `ImageReader` | pictures, as a text that the model `describe` writes | |

    `describe` is a model that writes the texts of pictures, `encoding` that of all text files, `limits` for all. EPUB,
    ODT and RTF are not read: write a `Reader`.
    """
    bounds = limits or DEFAULT_LIMITS
    return (
        MarkdownReader(encoding=encoding, limits=bounds),
        TextReader(encoding=encoding, limits=bounds),
        CsvReader(encoding=encoding, limits=bounds),
        HtmlReader(limits=bounds),
        PdfReader(limits=bounds),
        DocxReader(limits=bounds),
        PptxReader(limits=bounds),
        XlsxReader(limits=bounds),
        CodeReader(encoding=encoding, limits=bounds),
        ImageReader(describe=describe, limits=limits or IMAGE_LIMITS),
    )


def reader_of(name: str | os.PathLike[str], readers: Sequence[Reader] | None = None) -> Reader:
    """The reader for a file of this name or path, or for this media type; `UnsupportedDocumentError` if there is none.

        reader_of("docs/guide.md")                          # MarkdownReader
        reader_of("application/pdf")                        # PdfReader
        reader_of("a.epub", (EpubReader(), *default_readers()))

    The longest ending that fits decides, then the order of `readers` (by default `default_readers()`). A file that is
    not what its name says fails with `DamagedDocumentError` when it is read.
    """
    candidates = _defaults() if readers is None else readers
    given = os.fspath(name)
    last = given.replace("\\", "/").rpartition("/")[2].lower()
    found: Reader | None = None
    longest = 0
    for each in candidates:
        for suffix in each.suffixes:
            # (without a dot it is a whole name, such as "makefile")
            if len(suffix) > longest and (last.endswith(suffix) if suffix.startswith(".") else last == suffix):
                found, longest = each, len(suffix)
    media_type = given.partition(";")[0].strip().lower()
    found = found or next((each for each in candidates if media_type in each.media_types), None)
    if found is None:
        kinds = ", ".join(sorted({suffix for each in candidates for suffix in each.suffixes}))
        raise UnsupportedDocumentError(given, f"there is no reader for such a file. There are readers for {kinds}.")
    return found


@cache
def _defaults() -> tuple[Reader, ...]:
    return default_readers()
