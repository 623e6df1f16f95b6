"""One session's folder: read without a lock, changed under one, never in between.

| a change                                              | what a reader finds, or whoever comes after a crash |
|-------------------------------------------------------|-----------------------------------------------------|
| 1 writes new files, appends to lists behind what counts | the manifest as it was, and all that it names     |
| 2 syncs them, and the folder                          | the same                                            |
| 3 replaces the manifest                               | the new one, and all that it names                  |
| 4 removes what is no longer named                     | the same; what is left is removed by the next change |

A reader that finds a file gone or changed has an old manifest in hand: it reads the manifest again. If that is still
the same one, the file is damaged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from agentscope_rx.errors import SessionDamagedError, SessionFormatError
from agentscope_rx.session.durable import append_to, remove_files, replace_file, sync_folder, write_file
from agentscope_rx.session.entry import StoredEntry
from agentscope_rx.session.lock import LOCK, HeldError
from agentscope_rx.session.manifest import (
    FORMAT,
    MANIFEST,
    OWN_FILE,
    Manifest,
    NewerFormatError,
    Stored,
    UnreadableError,
)
from agentscope_rx.session.naming import file_name, is_shortened, text_of
from agentscope_rx.session.session import ANY_VERSION, Expected, check_expected

_MANIFEST_READS = 3
_READS = 20
"""How often a reader begins anew because of changes before it lets the writers be for a while."""


class Folder:
    """The folder of one session. All methods block."""

    def __init__(self, root: Path, key: str) -> None:
        self.key = key
        self.path = root / file_name(key)

    # -- reading

    def entries(self, names: Collection[str] | None) -> tuple[dict[str, StoredEntry], str | None]:
        """The entries of these names, or all, as one manifest names them, and its version."""
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
        """The version of what is stored; None if the session has no entry."""
        manifest = self._manifest()
        return None if manifest is None else manifest.version

    def is_there(self) -> bool:
        """Whether the session has an entry."""
        return self.version() is not None

    def checked(self, expected: Expected) -> str | None:
        """The version of what is stored; `SessionConflictError` if it is not the expected one."""
        version = self.version()
        check_expected(self.key, expected, version)
        return version

    # -- changing, with the folder's lock in hand

    def write(self, entries: Mapping[str, StoredEntry], expected: Expected = ANY_VERSION) -> str | None:
        """Replace these entries, if the version is the expected one; what is there already is not written again.

        Gives the new version.
        """
        found = self._manifest()
        check_expected(self.key, expected, None if found is None else found.version)
        manifest = found or self._begin()
        stored = {name: self._store(manifest, name, entry) for name, entry in entries.items()}
        if any(each.file not in manifest.files for each in stored.values()):
            # their names are durable before anything speaks of them
            sync_folder(self.path)
        manifest = self._commit(manifest, {**manifest.entries, **stored})
        # the change has happened; what cannot be removed now is removed after the next one
        with suppress(OSError):
            self._sweep(manifest)
        return manifest.version

    def remove(self, name: str) -> bool:
        """Remove one entry; the last one takes the session along."""
        manifest = self._manifest()
        if manifest is None:
            return False
        kept = {other: stored for other, stored in manifest.entries.items() if other != name}
        self._sweep(self._commit(manifest, kept))
        if not kept:
            self._clear()
        return name in manifest.entries

    def delete(self) -> bool:
        """Remove the session, damaged or not. What is not a session's stays in the folder."""
        try:
            was = self.is_there()
        except (SessionDamagedError, SessionFormatError):
            was = True
        if was:
            replace_file(self.path / MANIFEST, Manifest(self.key, 0, {}).to_bytes())
        self._clear()
        return was

    def _begin(self) -> Manifest:
        """The first manifest comes before the first entry: entries without one are damage."""
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
        """Remove what the manifest does not name: what it replaced, and the rest of changes that did not happen."""
        remove_files(self.path / file for file in self._own_files() if file not in manifest.files)

    def _clear(self) -> None:
        """Remove the files of a session that is no more, the lock last: whoever has it may still be at work."""
        remove_files(self.path / file for file in (*self._own_files(), f"{MANIFEST}.tmp", MANIFEST))
        # a folder that holds anything else stays, and so does a lock that a system does not let go of
        with suppress(OSError):
            remove_files([self.path / LOCK])
            self.path.rmdir()
            sync_folder(self.path.parent)

    def _store(self, manifest: Manifest, name: str, entry: StoredEntry) -> Stored:
        """Make an entry's text durable: by appending, if what counts of its file is what the text begins with."""
        data = b"".join(entry.lines)
        old = manifest.entries.get(name)
        if old is not None and old.kind is entry.kind and self._has(old):
            digest = hashlib.sha256(data[: old.size])
            if digest.hexdigest() == old.sha256:
                if len(data) == old.size:
                    return old
                append_to(self.path / old.file, old.size, data[old.size :])
                digest.update(data[old.size :])
                return Stored(entry.kind, old.file, len(data), len(entry.lines), digest.hexdigest())
        file = manifest.file_for(name, entry.kind)
        write_file(self.path / file, data)
        return Stored(entry.kind, file, len(data), len(entry.lines), hashlib.sha256(data).hexdigest())

    def _has(self, stored: Stored) -> bool:
        try:
            return os.stat(self.path / stored.file).st_size >= stored.size
        except FileNotFoundError:
            return False

    # -- files

    def _manifest(self) -> Manifest | None:
        # begun anew if there are entries all the same: a session may be deleted and made again meanwhile
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
        raise self._damaged(MANIFEST, f"it is missing, while {files[0]} is there")

    def _read(self, data: bytes) -> Manifest:
        try:
            manifest = Manifest.from_bytes(data)
        except NewerFormatError as error:
            raise SessionFormatError(self.key, str(self.path / MANIFEST), error.found, FORMAT) from None
        except UnreadableError as error:
            raise self._damaged(MANIFEST, str(error)) from None
        if manifest.key != self.key:
            raise self._damaged(MANIFEST, f"it is the one of session {manifest.key!r}")
        return manifest

    def _entry(self, name: str, stored: Stored) -> StoredEntry:
        try:
            with open(self.path / stored.file, "rb") as file:
                data = file.read(stored.size)
        except FileNotFoundError:
            raise self._damaged(stored.file, "it is missing", name) from None
        if len(data) < stored.size:
            raise self._damaged(stored.file, f"it ends after {len(data)} of {stored.size} bytes", name)
        if hashlib.sha256(data).hexdigest() != stored.sha256:
            raise self._damaged(stored.file, "its content is not what was written", name)
        return StoredEntry(stored.kind, tuple(data.splitlines(keepends=True)))

    def _own_files(self) -> list[str]:
        try:
            return sorted(file for file in os.listdir(self.path) if OWN_FILE.fullmatch(file))
        except FileNotFoundError:
            return []

    def _damaged(self, file: str, what: str, name: str | None = None) -> SessionDamagedError:
        give_up = f"delete({self.key!r})" if name is None else f"remove({self.key!r}, {name!r})"
        advice = f"Put back a copy of the file, or give up what it held with {give_up}."
        return SessionDamagedError(self.key, str(self.path / file), what, advice)


def stored_keys(root: Path) -> list[str]:
    """The keys of the sessions below a root; other folders are none of ours."""
    try:
        with os.scandir(root) as found:
            names = [each.name for each in found if each.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(key for name in names if (key := _stored_key(root, name)) is not None)


def _stored_key(root: Path, name: str) -> str | None:
    key = text_of(name)
    if key is None:
        return _long_key(root / name) if is_shortened(name) else None
    try:
        return key if Folder(root, key).is_there() else None
    except (SessionDamagedError, SessionFormatError):
        # it is there, and loading it tells what is wrong with it
        return key


def _long_key(path: Path) -> str | None:
    """The key of a folder whose name is too short for it: the manifest tells it."""
    try:
        manifest = Manifest.from_bytes((path / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (NewerFormatError, UnreadableError) as error:
        advice = "It alone tells the session's key. Put back a copy of the file, or move the folder away."
        raise SessionDamagedError(None, str(path / MANIFEST), str(error), advice) from None
    return manifest.key if manifest.entries and file_name(manifest.key) == path.name else None
