"""`ReaderTable`: the reader of a file by its name, for many files; the rules are those of `reader_of`."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import UnsupportedDocumentError
from agentscope_rx.knowledge.reader import Reader

NAMED = 40
"""The endings that an error names."""


class ReaderTable:
    """Readers by endings of names and by media types; of several for the same one the first counts."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._by_ending: dict[str, Reader] = {}
        self._by_media_type: dict[str, Reader] = {}
        for reader in readers:
            for suffix in reader.suffixes:
                self._by_ending.setdefault(suffix, reader)
            for media_type in reader.media_types:
                self._by_media_type.setdefault(media_type, reader)

    def find(self, name: str) -> Reader | None:
        """The reader for a file of this name: by the whole name, else by its longest ending."""
        name = name.lower()
        known = self._by_ending
        if name in known:
            return known[name]
        at = name.find(".")
        while at >= 0:
            if (reader := known.get(name[at:])) is not None:
                return reader
            at = name.find(".", at + 1)
        return None

    def of(self, document: str, name: str, media_type: str = "") -> Reader:
        """The reader of a document; `UnsupportedDocumentError` if there is none."""
        reader = self.find(name) or self._by_media_type.get(media_type.partition(";")[0].strip().lower())
        if reader is None:
            kinds = sorted(self._by_ending)
            more = f", and {len(kinds) - NAMED} more" if len(kinds) > NAMED else ""
            what = f"there is no reader for such a file. There are readers for {', '.join(kinds[:NAMED])}{more}."
            raise UnsupportedDocumentError(document, what)
        return reader
