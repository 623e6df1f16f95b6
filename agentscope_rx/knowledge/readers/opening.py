"""Opens documents safely, and gives sections their positions: what every reader shares.

A folder, a pipe, a device and a link that leads out of the source's `root` are refused before they are read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO

from agentscope_rx.errors import DocumentError, DocumentTooLargeError, InvalidInputError, UnsupportedDocumentError
from agentscope_rx.knowledge.document import DocumentSource, Section
from agentscope_rx.knowledge.readers.formats.parts import Part
from agentscope_rx.knowledge.readers.limits import ReadLimits
from agentscope_rx.messages.local_file import open_file


@contextmanager
def opened(source: DocumentSource, limits: ReadLimits) -> Generator[BinaryIO]:
    """The document's bytes as a file, of at most `limits.size` now; a `DocumentError` if it cannot be opened."""
    if source.data is not None:
        check_size(source, len(source.data), limits)
        yield BytesIO(source.data)
        return
    with os.fdopen(_descriptor(source), "rb") as file:
        check_size(source, os.fstat(file.fileno()).st_size, limits)
        try:
            yield file
        except OSError as error:
            raise DocumentError(source.document.id, f"it could not be read: {error}") from error


def check_size(source: DocumentSource, size: int, limits: ReadLimits) -> None:
    """`DocumentTooLargeError` if the document has more bytes than it may."""
    if size > limits.size:
        what = f"it has {size:,} bytes, and ReadLimits.size allows {limits.size:,}"
        raise DocumentTooLargeError(source.document.id, what, "size")


def sections(source: DocumentSource, parts: Iterable[Part], limits: ReadLimits) -> Generator[Section]:
    """The parts as sections, one after the other; those without text are left out."""
    position = 0
    for part in parts:
        if not part.text:
            continue
        if position + len(part.text) > limits.text:
            what = f"it has more characters of text than the {limits.text:,} that ReadLimits.text allows"
            raise DocumentTooLargeError(source.document.id, what, "text")
        yield Section(
            text=part.text,
            start=position,
            page=part.page,
            headings=part.headings,
            kind=part.kind,
            language=part.language,
        )
        position += len(part.text)


def _descriptor(source: DocumentSource) -> int:
    assert source.path is not None
    root = None if source.root is None else os.path.abspath(source.root)
    try:
        # (the size is checked by the caller, with an error of its own)
        return open_file(os.path.abspath(source.path), 2**62, root)
    except InvalidInputError as error:
        raise UnsupportedDocumentError(source.document.id, str(error)) from error
    except (OSError, ValueError) as error:
        raise DocumentError(source.document.id, f"it could not be opened: {error}") from error
