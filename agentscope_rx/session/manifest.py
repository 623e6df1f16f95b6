"""The manifest: the file that lists the files of a session. Replacing it commits a save.

    {"format": 2, "sha256": "...", "session": {
        "key": "ann", "generation": 7, "entries": {
            "memory": {"kind": "list",  "file": "memory.2.jsonl", "size": 51234, "items": 310, "sha256": "...",
                       "chained": true},
            "state":  {"kind": "value", "file": "state.7.json",   "size": 187,   "items": 1,   "sha256": "..."}}}}

The first `size` bytes of a file are its content, if their digest is right. Bytes behind them and files that are not
listed are left from saves that were not committed.

A value's digest is that of its bytes. A list's is a chain: that of each line begins with the digest of the line before
it, so that an append is digested without what it follows. Format 1 had the digest of all bytes for lists, too; such an
entry is read, and gets a chain when it changes.

Keys and names become file names; each text has another one, and none leads out of the folder:

| text               | file name                        |                                                         |
|--------------------|----------------------------------|---------------------------------------------------------|
| `user-1`           | `user-1`                         | a-z, 0-9, `-` and `_` stand for themselves              |
| `Ann`, `..`, `a/b` | `=41nn`, `=2e=2e`, `a=2fb`       | other characters: their bytes in UTF-8                  |
| `con`, `-x`        | `=63on`, `=2dx`                  | device names of Windows, and options of a shell         |
| 1,000 letters      | the first 30, `=h`, and a digest | too long: the manifest holds the text                   |

They are lower case and ASCII, so a file system that ignores case or normalises Unicode keeps them apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.session.entry import EntryKind

LONGEST = 100
"""The longest code that is used whole: with a suffix it is shorter than the limit of every file system."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_RESERVED = re.compile(r"con|prn|aux|nul|com[0-9]|lpt[0-9]")
_CODE = re.compile(r"(?:[a-z0-9_-]|=[0-9a-f]{2})+")
_DIGEST = re.compile(r"=h[0-9a-f]{64}$")


def code_of(text: str) -> str:
    """The text in characters for file names, of any length; `text_of` decodes it."""
    # a lone surrogate is valid in a key, so it has a code, too
    data = text.encode("utf-8", "surrogatepass")
    code = "".join(chr(byte) if byte in _PLAIN else f"={byte:02x}" for byte in data)
    if code.startswith("-") or _RESERVED.fullmatch(code):
        return f"={data[0]:02x}{code[1:]}"
    return code


def text_of(code: str) -> str | None:
    """The text of a code, None if it is not a code."""
    if not _CODE.fullmatch(code):
        return None
    data = re.sub(rb"=(..)", lambda found: bytes([int(found[1], 16)]), code.encode())
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return text if code_of(text) == code else None


def file_name(text: str) -> str:
    """The file name of a text, without a suffix."""
    code = code_of(text)
    if len(code) <= LONGEST:
        return code
    return f"{code[:30]}=h{hashlib.sha256(code.encode()).hexdigest()}"


def is_shortened(name: str) -> bool:
    """True if the text of a file name cannot be decoded from it."""
    return _DIGEST.search(name) is not None


FORMAT = 2
OLDEST_FORMAT = 1
MANIFEST = "manifest.json"
OWN_FILE = re.compile(r"[a-z0-9_=-]+\.[0-9]+\.jsonl?")
"""The names of files that hold entries."""


def digest(lines: Iterable[bytes]) -> str:
    """The digest of all bytes."""
    return hashlib.sha256(b"".join(lines)).hexdigest()


def chain(lines: Iterable[bytes], before: str = "") -> str:
    """The digest of a list with these lines behind those of the digest `before`; that of an empty list is empty."""
    last = bytes.fromhex(before)
    for line in lines:
        last = hashlib.sha256(last + line).digest()
    return last.hex()


class UnreadableError(Exception):
    """A file that is not a valid manifest; the message gives the reason."""


class NewerFormatError(Exception):
    """A manifest of a newer version of the library; `found` is its format."""

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


@dataclass(frozen=True, slots=True)
class Stored:
    """The file of an entry: `size` bytes in `items` lines, with this digest, which may be `chained`."""

    kind: EntryKind
    file: str
    size: int
    items: int
    sha256: str
    chained: bool = False

    def holds(self, lines: Sequence[bytes]) -> bool:
        """True if these are the lines of the file."""
        if len(lines) != self.items or sum(map(len, lines)) != self.size:
            return False
        return (chain(lines) if self.chained else digest(lines)) == self.sha256


@dataclass(frozen=True, slots=True)
class Manifest:
    """The entries of a session; `generation` counts its changes."""

    key: str
    generation: int
    entries: Mapping[str, Stored]

    @property
    def version(self) -> str | None:
        """The generation and a digest of the entries; None without entries.

        The digest is needed because a session that is deleted and made again starts at generation 0.
        """
        return f"{self.generation}-{_digest(self._body())[:16]}" if self.entries else None

    @property
    def files(self) -> frozenset[str]:
        """The files of the entries."""
        return frozenset(stored.file for stored in self.entries.values())

    def changed(self, entries: Mapping[str, Stored]) -> Manifest:
        """The next manifest, with these entries."""
        return Manifest(self.key, self.generation + 1, entries)

    def file_for(self, name: str, kind: EntryKind) -> str:
        """A new file name for an entry of the next manifest."""
        return f"{file_name(name)}.{self.generation + 1}.{'jsonl' if kind is EntryKind.LIST else 'json'}"

    def to_bytes(self) -> bytes:
        """The content of the manifest file."""
        body = self._body()
        whole = {"format": FORMAT, "sha256": _digest(body), "session": body}
        return f"{json.dumps(whole, indent=1)}\n".encode()

    def _body(self) -> dict[str, object]:
        return {
            "key": code_of(self.key),
            "generation": self.generation,
            "entries": {code_of(name): _row(stored) for name, stored in self.entries.items()},
        }

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest from the content of its file; `UnreadableError` or `NewerFormatError` if it is not valid."""
        try:
            whole = json.loads(data)
            found, sha256 = whole["format"], whole["sha256"]
            if type(found) is int and found > FORMAT:
                raise NewerFormatError(found)
            body = cast("dict[str, object]", whole["session"])
            fits = sha256 == _digest(body)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UnreadableError("it is not the JSON of a manifest") from None
        if type(found) is not int or found < OLDEST_FORMAT or not fits:
            raise UnreadableError("its digest does not fit its content")
        return _from_body(body)


def _from_body(body: dict[str, object]) -> Manifest:
    try:
        entries = cast("dict[str, dict[str, object]]", body["entries"])
        stored = {_text(name): Stored(**_fields(values)) for name, values in entries.items()}  # pyright: ignore[reportArgumentType]
        manifest = Manifest(_text(str(body["key"])), cast("int", body["generation"]), stored)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UnreadableError("a field of the manifest is missing or invalid") from None
    if not all(OWN_FILE.fullmatch(file) for file in manifest.files):
        raise UnreadableError("it names files that a session cannot have")
    return manifest


def _row(stored: Stored) -> dict[str, object]:
    """Without `chained` if it is False: the version of a session of format 1 is that of the library that wrote it."""
    values = asdict(stored)
    if not stored.chained:
        del values["chained"]
    return values


def _fields(values: dict[str, object]) -> dict[str, object]:
    return values | {"kind": EntryKind(str(values["kind"]))}


def _text(code: str) -> str:
    text = text_of(code)
    if text is None:
        raise ValueError(code)
    return text


def _digest(body: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
