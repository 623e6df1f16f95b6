"""Checks of the zip archives that DOCX, PPTX and XLSX are, before their parsers see them.

Python's `zipfile` never unpacks more of a member than its directory says, and checks its sum: what is said there is a
bound. So the sizes are checked before anything is unpacked. Office documents may have no DTD: a member with one is
refused, and with it every entity.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from typing import BinaryIO

from agentscope_rx.knowledge.readers.formats.parts import FormatError, LimitError

MEMBERS = 20_000
"""The files that an office document may hold."""
_HEAD = 4096
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_XML = re.compile(r"\.(?:xml|rels|vml)\Z", re.IGNORECASE)


def check_zip(file: BinaryIO, unpacked: int, needs: str) -> None:
    """`FormatError` if it is no archive with the member `needs`; `LimitError` if it unpacks to more than `unpacked`."""
    if file.read(8) == _OLE:
        raise FormatError("it is encrypted, or of the old binary format (.doc, .ppt, .xls)")
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            _check(archive, unpacked, needs)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, UnicodeDecodeError) as error:
        raise FormatError(f"its zip archive is damaged ({error})") from error
    except RuntimeError as error:
        # (zipfile's error for a member with a password)
        raise FormatError(f"its zip archive cannot be read ({error})") from error
    file.seek(0)


def _check(archive: zipfile.ZipFile, unpacked: int, needs: str) -> None:
    members = archive.infolist()
    if len(members) > MEMBERS:
        raise LimitError(f"its archive has {len(members):,} files, and at most {MEMBERS:,} are read", "unpacked")
    total = sum(member.file_size for member in members)
    if total > unpacked:
        raise LimitError(f"it unpacks to {total:,} bytes, and ReadLimits.unpacked allows {unpacked:,}", "unpacked")
    names = [member.filename for member in members]
    if needs not in names:
        raise FormatError(f"its archive has no {needs}")
    if len(set(names)) < len(names):
        raise FormatError("its archive has several files of one name")
    for member in members:
        if _XML.search(member.filename):
            with archive.open(member) as part:
                head = part.read(_HEAD).replace(b"\0", b"")
            if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
                raise FormatError(f"{member.filename} has a DTD, which no office document may have")
