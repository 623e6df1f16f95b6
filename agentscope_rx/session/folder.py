"""The folder of one session: readers take no lock, writers take one, and a change happens in one step.

| step of a change                                       | a reader meanwhile, or after a crash, finds        |
|--------------------------------------------------------|----------------------------------------------------|
| 1 write new files, append to lists                     | the old manifest and all files that it names       |
| 2 sync them and the folder                             | the same                                           |
| 3 replace the manifest                                 | the new manifest and all files that it names       |
| 4 remove files that it does not name                   | the same; the next change removes what is left     |

A reader that finds a file missing or changed has read an old manifest, so it reads the manifest again. If that has not
changed, the file is damaged.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from agentscope_rx.errors import SessionDamagedError, SessionFormatError
from agentscope_rx.session.attempts import HeldError
from agentscope_rx.session.durable import LOCK, append_to, remove_files, replace_file, sync_folder, write_file
from agentscope_rx.session.entry import EntryKind, StoredEntry
from agentscope_rx.session.manifest import (
    FORMAT,
    MANIFEST,
    OWN_FILE,
    Manifest,
    NewerFormatError,
    Stored,
    UnreadableError,
    chain,
    digest,
    file_name,
    is_shortened,
    text_of,
)
from agentscope_rx.session.session import ANY_VERSION, Expected, check_expected

_MANIFEST_READS = 3
_READS = 20
"""How often a reader starts again because of changes, before it waits as for a lock."""


class Folder:
    """The folder of one session. All methods block."""

    def __init__(self, root: Path, key: str) -> None:
        self.key = key
        self.path: Path = root / file_name(key)

    # --- reading

    def entries(self, names: Collection[str] | None) -> tuple[dict[str, StoredEntry], str | None]:
        """The entries of these names, or all, from one manifest, and its version."""
        failed: Manifest | None = None
        for _ in range(_READS):
            manifest = self._manifest()
            if manifest is None:
                return {}, None
            wanted = manifest.entries if names is None else {n: s for n, s in manifest.entries.items() if n in names}
            try:
                return {name: self._entry(name, stored) for name, stored in wanted.items()}, manifest.version
            except SessionDamagedError:
                if manifest == failed:
                    raise
                failed = manifest
        raise HeldError

    def version(self) -> str | None:
        """The version of the session; None if it has no entry."""
        manifest = self._manifest()
        return None if manifest is None else manifest.version

    def exists(self) -> bool:
        """True if the session has an entry."""
        return self.version() is not None

    def checked(self, expected: Expected) -> str | None:
        """The version of the session; `SessionConflictError` if it is not the expected one."""
        version = self.version()
        check_expected(self.key, expected, version)
        return version

    # --- changing, with the lock of the folder held

    def write(self, entries: Mapping[str, StoredEntry], expected: Expected = ANY_VERSION) -> str | None:
        """Replace these entries and return the new version; what is stored already is not written again.

        `SessionConflictError` if the version is not the expected one.
        """
        found = self._manifest()
        check_expected(self.key, expected, None if found is None else found.version)
        manifest = found or self._begin()
        stored = {name: self._store(manifest, name, entry) for name, entry in entries.items()}
        if any(each.file not in manifest.files for each in stored.values()):
            # the names must be durable before a manifest lists them
            sync_folder(self.path)
        manifest = self._commit(manifest, {**manifest.entries, **stored})
        # the change is committed; a file that cannot be removed now is removed by the next change
        with suppress(OSError):
            self._sweep(manifest)
        return manifest.version

    def remove(self, name: str) -> bool:
        """Remove one entry, and the session with its last one; True if there was one."""
        manifest = self._manifest()
        if manifest is None:
            return False
        kept = {other: stored for other, stored in manifest.entries.items() if other != name}
        self._sweep(self._commit(manifest, kept))
        if not kept:
            self._clear()
        return name in manifest.entries

    def delete(self) -> bool:
        """Remove the session, also if it is damaged. Other files in the folder stay."""
        try:
            was = self.exists()
        except (SessionDamagedError, SessionFormatError):
            was = True
        if was:
            replace_file(self.path / MANIFEST, Manifest(self.key, 0, {}).to_bytes())
        self._clear()
        return was

    def _begin(self) -> Manifest:
        """Write the first manifest. It must come before the first entry: entries without one count as damage."""
        manifest = Manifest(self.key, 0, {})
        replace_file(self.path / MANIFEST, manifest.to_bytes())
        return manifest

    def _commit(self, before: Manifest, entries: dict[str, Stored]) -> Manifest:
        if entries == before.entries:
            return before
        manifest = before.changed(entries)
        replace_file(self.path / MANIFEST, manifest.to_bytes())
        return manifest

    def _sweep(self, manifest: Manifest) -> None:
        """Remove files that the manifest does not name: replaced ones, and those of changes that were not committed."""
        remove_files(self.path / file for file in self._own_files() if file not in manifest.files)

    def _clear(self) -> None:
        """Remove the files of a deleted session, the lock last, because its holder may still be at work."""
        remove_files(self.path / file for file in (*self._own_files(), f"{MANIFEST}.tmp", MANIFEST))
        # a folder with other files stays, and so does a lock file that the system refuses to remove
        with suppress(OSError):
            remove_files([self.path / LOCK])
            self.path.rmdir()
            sync_folder(self.path.parent)

    def _store(self, manifest: Manifest, name: str, entry: StoredEntry) -> Stored:
        """Make an entry durable: by appending, if it begins with the stored content of its file."""
        old = manifest.entries.get(name)
        if entry.start != 0:
            start = entry.start_in(self.key, name, None if old is None else old.kind, 0 if old is None else old.items)
            if old is not None and old.chained and start == old.items and self._has(old):
                return self._append(old, entry.lines, old.sha256)
            entry = entry.onto(self.key, name, None if old is None else self._entry(name, old))
        lines = entry.lines
        if old is not None and old.kind is entry.kind and self._has(old) and old.holds(lines[: old.items]):
            return self._append(old, lines[old.items :], old.sha256 if old.chained else chain(lines[: old.items]))
        file = manifest.file_for(name, entry.kind)
        data = b"".join(lines)
        write_file(self.path / file, data)
        chained = entry.kind is EntryKind.LIST
        return Stored(entry.kind, file, len(data), len(lines), chain(lines) if chained else digest(lines), chained)

    def _append(self, old: Stored, lines: tuple[bytes, ...], before: str) -> Stored:
        """Put lines behind the stored ones, which have the chain `before`. The cost is that of the new lines."""
        if not lines:
            return old
        data = b"".join(lines)
        append_to(self.path / old.file, old.size, data)
        return Stored(old.kind, old.file, old.size + len(data), old.items + len(lines), chain(lines, before), True)

    def _has(self, stored: Stored) -> bool:
        try:
            return os.stat(self.path / stored.file).st_size >= stored.size
        except FileNotFoundError:
            return False

    # --- files

    def _manifest(self) -> Manifest | None:
        # read again if there are entries without a manifest: the session may be deleted and made again meanwhile
        files: list[str] = []
        for _ in range(_MANIFEST_READS):
            try:
                data = (self.path / MANIFEST).read_bytes()
            except FileNotFoundError:
                files = self._own_files()
                if not files:
                    return None
            else:
                return self._read(data)
        raise self._damaged(MANIFEST, f"it is missing, while {files[0]} exists")

    def _read(self, data: bytes) -> Manifest:
        try:
            manifest = Manifest.from_bytes(data)
        except NewerFormatError as error:
            raise SessionFormatError(self.key, str(self.path / MANIFEST), error.found, FORMAT) from None
        except UnreadableError as error:
            raise self._damaged(MANIFEST, str(error)) from None
        if manifest.key != self.key:
            raise self._damaged(MANIFEST, f"it belongs to session {manifest.key!r}")
        return manifest

    def _entry(self, name: str, stored: Stored) -> StoredEntry:
        try:
            with open(self.path / stored.file, "rb") as file:
                data = file.read(stored.size)
        except FileNotFoundError:
            raise self._damaged(stored.file, "it is missing", name) from None
        if len(data) < stored.size:
            raise self._damaged(stored.file, f"it ends after {len(data)} of {stored.size} bytes", name)
        lines = tuple(data.splitlines(keepends=True))
        if not stored.holds(lines):
            raise self._damaged(stored.file, "its content has changed since it was written", name)
        return StoredEntry(stored.kind, lines)

    def _own_files(self) -> list[str]:
        try:
            return sorted(file for file in os.listdir(self.path) if OWN_FILE.fullmatch(file))
        except FileNotFoundError:
            return []

    def _damaged(self, file: str, what: str, name: str | None = None) -> SessionDamagedError:
        give_up = f"delete({self.key!r})" if name is None else f"remove({self.key!r}, {name!r})"
        advice = f"Put back a copy of the file, or remove what it held with {give_up}."
        return SessionDamagedError(self.key, str(self.path / file), what, advice)


def stored_keys(root: Path) -> list[str]:
    """The keys of the sessions below a root; other folders are ignored."""
    try:
        with os.scandir(root) as found:
            names = [each.name for each in found if each.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(key for name in names if (key := _stored_key(root, name)) is not None)


def latest_key(root: Path) -> str | None:
    """The key of the session whose manifest was written last."""
    saved: list[tuple[float, str]] = []
    for key in stored_keys(root):
        # damaged, or deleted meanwhile
        with suppress(OSError):
            saved.append((os.stat(root / file_name(key) / MANIFEST).st_mtime, key))
    return max(saved)[1] if saved else None


def _stored_key(root: Path, name: str) -> str | None:
    key = text_of(name)
    if key is None:
        return _long_key(root / name) if is_shortened(name) else None
    try:
        return key if Folder(root, key).exists() else None
    except (SessionDamagedError, SessionFormatError):
        # it exists, and loading it reports the damage
        return key


def _long_key(path: Path) -> str | None:
    """The key of a folder whose name is a digest, from its manifest."""
    try:
        manifest = Manifest.from_bytes((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (NewerFormatError, UnreadableError) as error:
        advice = "Only this file has the key of the session. Put back a copy of the file, or move the folder away."
        raise SessionDamagedError(None, str(path / MANIFEST), str(error), advice) from None
    return manifest.key if manifest.entries and file_name(manifest.key) == path.name else None
