"""Short forms for the tests of readers."""

from __future__ import annotations

from pathlib import Path

from agentscope_rx.knowledge import Document, DocumentSource, Reader, Section
from agentscope_rx.testing import run_virtual


def source(name: str, data: bytes | None = None, path: Path | None = None, root: Path | None = None) -> DocumentSource:
    """A document of these bytes, or of this file."""
    return DocumentSource(document=Document(id=name), data=data, path=path, root=root)


async def sections_of(reader: Reader, name: str, data: bytes) -> list[Section]:
    """All sections; each begins where the one before ends."""
    found = [each async for each in reader.read(source(name, data))]
    position = 0
    for each in found:
        assert each.start == position
        position += len(each.text)
    return found


def read(reader: Reader, name: str, data: bytes) -> list[Section]:
    """All sections, read in virtual time: no task, timer or worker's job may be left."""
    return run_virtual(sections_of(reader, name, data))
