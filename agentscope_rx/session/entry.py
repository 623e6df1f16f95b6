"""Shared by all stores: the rules for keys and values, and the JSON of an entry.

A value is one line of JSON. A list is one line for each item, so that a file can be appended to. Equal values give
equal bytes. If JSON has no form for a value, the error names the place in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, cast

from agentscope_rx.errors import InvalidInputError, SavedStateError, SessionValueError
from agentscope_rx.errors.text import encode_json
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.session.session import Items, ListTail, Saved, Unchanging

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class EntryKind(StrEnum):
    """A single value or a list."""

    VALUE = "value"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as lines of JSON in UTF-8, each with its newline; a value is one line.

    With another `start` than 0 it is the tail of a list: it follows the first `start` lines, or, if that is None, all.
    """

    kind: EntryKind
    lines: tuple[bytes, ...]
    start: int | None = 0

    def start_in(self, key: str, name: str, kind: EntryKind | None, count: int) -> int:
        """The index of the first line in a list of `count` items; `kind` is what is stored (None: nothing).

        `InvalidInputError` if the tail does not fit there.
        """
        if self.start == 0:
            return 0
        if kind is EntryKind.VALUE:
            raise InvalidInputError(
                f"Entry {name!r} of session {key!r} is a single value: a list cannot go on from it."
            )
        if self.start is None:
            return count
        if self.start > count:
            raise InvalidInputError(
                f"Entry {name!r} of session {key!r} has {count} items: a tail from item {self.start} leaves a gap. "
                "Save the whole list."
            )
        return self.start

    def onto(self, key: str, name: str, old: StoredEntry | None) -> StoredEntry:
        """The whole entry that a save of this makes of the old one; `InvalidInputError` if the tail does not fit."""
        start = self.start_in(key, name, None if old is None else old.kind, 0 if old is None else len(old.lines))
        kept = () if old is None else old.lines[:start]
        return StoredEntry(self.kind, kept + self.lines) if start else StoredEntry(self.kind, self.lines)


def check_key(key: str) -> str:
    """The key; `InvalidInputError` if it is not a text or blank."""
    return _checked(key, "session key")


def check_name(name: str) -> str:
    """The name of an entry; `InvalidInputError` if it is not a text or blank."""
    return _checked(name, "entry name")


def check_names(names: Sequence[str] | None) -> list[str] | None:
    """The names of entries, None for all; `InvalidInputError` for a single text."""
    if isinstance(names, str):
        raise InvalidInputError(f"load_all takes a list of entry names, not the single name {names!r:.60}.")
    return None if names is None else [check_name(name) for name in names]


def encode(key: str, values: Mapping[str, object], lists: Mapping[str, Items] | None = None) -> dict[str, StoredEntry]:
    """The entries of one save as JSON: a copy that later changes of the values do not reach."""
    check_key(key)
    entries = {
        check_name(name): StoredEntry(EntryKind.VALUE, (_line(key, name, value),)) for name, value in values.items()
    }
    for name, given in (lists or {}).items():
        if check_name(name) in entries:
            raise InvalidInputError(f"Entry {name!r} of session {key!r} cannot be a value and a list in one save.")
        items, start = (given.items, given.start) if isinstance(given, ListTail) else (given, 0)
        _check_items(key, name, items)
        lines = [_item(key, name, item, index) for index, item in enumerate(items, start or 0)]
        entries[name] = StoredEntry(EntryKind.LIST, tuple(lines), start)
    return entries


def decode(key: str, entries: Mapping[str, StoredEntry], version: str | None = None) -> Saved:
    """New values from the entries of a session; `SavedStateError` for a line that no session has written."""
    saved = Saved(version=version)
    for name, entry in entries.items():
        items = [_value(key, name, line) for line in entry.lines]
        if entry.kind is EntryKind.LIST:
            saved.lists[name] = items
        elif len(items) == 1:
            saved.values[name] = items[0]
        else:
            raise SavedStateError(key, f"entry {name!r} holds {len(items)} values instead of one.")
    return saved


def _value(key: str, name: str, line: bytes) -> object:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SavedStateError(key, f"entry {name!r} is not valid JSON ({error}).") from error
    # a right digest shows that the file is undamaged, not that a session wrote it
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and (deep := too_deep(value)):
        raise SavedStateError(key, f"entry {name!r} was not written by a session: {deep.reason}.")
    return value


def _checked(text: str, what: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"{what} must be a str, not {type(text).__name__}: {text!r:.60}")
    if not text.strip():
        raise InvalidInputError(f"{what} must not be blank")
    return text


def _check_items(key: str, name: str, items: object) -> None:
    # not a generator: it would be empty at the second subscription
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise InvalidInputError(
            f"Entry {name!r} of session {key!r} takes a list of items, not {type(items).__name__}. "
            "Give a list, or save a single value with save."
        )


def _item(key: str, name: str, item: object, index: int) -> bytes:
    if not isinstance(item, Unchanging):
        return _line(key, name, item, index)
    if item.line is None:
        item.line = _line(key, name, item.value, index)
    return item.line


def _line(key: str, name: str, value: object, index: int | None = None) -> bytes:
    try:
        text = _ENCODER.encode(value)
        line = encode_json(f"{text}\n")
    except (TypeError, ValueError, RecursionError) as error:
        found = find_unwritable(value) or Unwritable("", str(error))
        raise _unwritable(key, name, index, found) from error
    # deeper than a reader allows: refused here, so that every saved entry can be loaded
    if text.count("[") + text.count("{") > MAX_DEPTH and (deep := too_deep(value)):
        raise _unwritable(key, name, index, deep)
    return line


def _unwritable(key: str, name: str, index: int | None, found: Unwritable) -> SessionValueError:
    item = "" if index is None else f"[{index}]"
    return SessionValueError(key, name, f"${item}{found.path}", found.reason)


MAX_DEPTH = 200
"""How deep values may be nested: less than the recursion limit of every JSON reader."""


class Unwritable(NamedTuple):
    """A place in a value, such as `.peers[3]`, and the fault there."""

    path: str
    reason: str


def find_unwritable(value: object) -> Unwritable | None:
    """The first place in the value that JSON has no form for, None if there is none."""
    for path, found, level in _walk(value):
        if level > MAX_DEPTH:
            return _deep(path)
        if reason := _reason(found):
            return Unwritable(path, reason)
    return None


def too_deep(value: object) -> Unwritable | None:
    """The first place in the value that is nested deeper than `MAX_DEPTH`."""
    return next((_deep(path) for path, _, level in _walk(value) if level > MAX_DEPTH), None)


def _deep(path: str) -> Unwritable:
    shown = path if len(path) <= 100 else f"{path[:100]}..."
    return Unwritable(shown, f"it is nested more than {MAX_DEPTH} levels deep, or contains itself")


def _walk(value: object) -> Iterator[tuple[str, object, int]]:
    """Each part of the value with its path and level, in order, down to one level deeper than allowed."""
    waiting: list[tuple[str, object, int]] = [("", value, 0)]
    while waiting:
        path, found, level = waiting.pop()
        yield path, found, level
        if level > MAX_DEPTH:
            continue
        if isinstance(found, dict):
            items = cast("dict[object, object]", found).items()
            waiting += reversed([(f"{path}{_step(key)}", each, level + 1) for key, each in items])
        elif isinstance(found, (list, tuple)):
            each_item = enumerate(cast("list[object]", found))
            waiting += reversed([(f"{path}[{index}]", each, level + 1) for index, each in each_item])


def _step(key: object) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    return f"[{key!r:.60}]"


def _reason(value: object) -> str | None:
    if isinstance(value, dict):
        for key in cast("dict[object, object]", value):
            if not (key is None or isinstance(key, (str, int, float))):
                return f"its key {key!r:.60} is no text"
            if isinstance(key, float) and not math.isfinite(key):
                return f"JSON has no number {key!r}, which is one of its keys"
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return f"JSON has no number {value!r}"
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            int.__repr__(value)
        except ValueError as error:
            return str(error)
    if value is None or isinstance(value, (str, int, float, list, tuple)):
        return None
    return f"JSON has no form for {type(value).__name__}"
