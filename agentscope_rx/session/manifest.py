"""The manifest: the one file that says what a session consists of. Replacing it is what makes a save happen.

    {"format": 1, "sha256": "...", "session": {
        "key": "ann", "generation": 7, "entries": {
            "memory": {"kind": "list",  "file": "memory.2.jsonl", "size": 51234, "items": 310, "sha256": "..."},
            "state":  {"kind": "value", "file": "state.7.json",   "size": 187,   "items": 1,   "sha256": "..."}}}}

A file counts up to `size`, and only if its digest is right; what is behind that, and files that are not named, are the
rest of a save that did not happen.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from agentscope_rx.session.entry import EntryKind
from agentscope_rx.session.naming import code_of, file_name, text_of

FORMAT = 1
MANIFEST = "manifest.json"
OWN_FILE = re.compile(r"[a-z0-9_=-]+\.[0-9]+\.jsonl?")
"""The files that hold entries."""


class UnreadableError(Exception):
    """What is wrong with a manifest."""


class NewerFormatError(Exception):
    """A manifest of another version: `found` is its format."""

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the text of an entry lies: `size` bytes of `items` lines, with this digest."""

    kind: EntryKind
    file: str
    size: int
    items: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a session consists of; `generation` counts its changes."""

    key: str
    generation: int
    entries: Mapping[str, Stored]

    @property
    def version(self) -> str | None:
        """What a save may expect: the generation, and a digest of all that is stored; None without entries.

        A session that is deleted and made again counts its generations anew: they alone would not tell it apart.
        """
        return f"{self.generation}-{_digest(self._body())[:16]}" if self.entries else None

    @property
    def files(self) -> frozenset[str]:
        """The files that count."""
        return frozenset(stored.file for stored in self.entries.values())

    def changed(self, entries: Mapping[str, Stored]) -> Manifest:
        """The next manifest, of these entries."""
        return Manifest(self.key, self.generation + 1, entries)

    def file_for(self, name: str, kind: EntryKind) -> str:
        """A file name that the next manifest may give to an entry."""
        return f"{file_name(name)}.{self.generation + 1}.{'jsonl' if kind is EntryKind.LIST else 'json'}"

    def to_bytes(self) -> bytes:
        """The content of the manifest's file."""
        body = self._body()
        whole = {"format": FORMAT, "sha256": _digest(body), "session": body}
        return f"{json.dumps(whole, indent=1)}\n".encode()

    def _body(self) -> dict[str, object]:
        return {
            "key": code_of(self.key),
            "generation": self.generation,
            "entries": {code_of(name): asdict(stored) for name, stored in self.entries.items()},
        }

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest in a file's content; `UnreadableError` or `NewerFormatError` if there is none."""
        try:
            whole = json.loads(data)
            found, digest = whole["format"], whole["sha256"]
            if type(found) is int and found > FORMAT:
                raise NewerFormatError(found)
            body = cast("dict[str, object]", whole["session"])
            fits = digest == _digest(body)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UnreadableError("it is not the JSON of a manifest") from None
        if found != FORMAT or not fits:
            raise UnreadableError("its digest does not fit its content")
        return _from_body(body)


def _from_body(body: dict[str, object]) -> Manifest:
    try:
        entries = cast("dict[str, dict[str, object]]", body["entries"])
        stored = {_text(name): Stored(**_fields(values)) for name, values in entries.items()}  # pyright: ignore[reportArgumentType]
        manifest = Manifest(_text(str(body["key"])), cast("int", body["generation"]), stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnreadableError("it lacks what a manifest has") from None
    if not all(OWN_FILE.fullmatch(file) for file in manifest.files):
        raise UnreadableError("it names files that are none of a session")
    return manifest


def _fields(values: dict[str, object]) -> dict[str, object]:
    return values | {"kind": EntryKind(str(values["kind"]))}


def _text(code: str) -> str:
    text = text_of(code)
    if text is None:
        raise ValueError(code)
    return text


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
