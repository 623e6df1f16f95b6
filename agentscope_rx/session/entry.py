"""What every store shares: which keys and values are allowed, and their JSON text.

A value becomes one line of JSON, a list one line for each item, so that a list can be appended to. The same value
always gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentscope_rx.errors import InvalidInputError, SavedStateError, SessionValueError
from agentscope_rx.session.session import Saved, Unchanging
from agentscope_rx.session.unwritable import MAX_DEPTH, Unwritable, find_unwritable, too_deep

_readable = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_escaped = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class EntryKind(StrEnum):
    """What an entry is."""

    VALUE = "value"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One entry as text: `lines` of JSON in UTF-8, each with its newline; a value is one line."""

    kind: EntryKind
    lines: tuple[bytes, ...]


def check_key(key: str) -> str:
    """The key, if it is one."""
    return _checked(key, "session key")


def check_name(name: str) -> str:
    """The name of an entry, if it is one."""
    return _checked(name, "entry name")


def check_names(names: Sequence[str] | None) -> list[str] | None:
    """The names of entries, None for all."""
    if isinstance(names, str):
        raise InvalidInputError(f"A list of entry names was expected, not the single text {names!r:.60}.")
    return None if names is None else [check_name(name) for name in names]


def encode(
    key: str, values: Mapping[str, object], lists: Mapping[str, Sequence[object]] | None = None
) -> dict[str, StoredEntry]:
    """The entries of one save as text; nothing of them is the caller's any more."""
    check_key(key)
    entries = {
        check_name(name): StoredEntry(EntryKind.VALUE, (_line(key, name, value),)) for name, value in values.items()
    }
    for name, items in (lists or {}).items():
        if check_name(name) in entries:
            raise InvalidInputError(f"Entry {name!r} of session {key!r} cannot be a value and a list in one save.")
        _check_items(key, name, items)
        lines = [_item(key, name, item, index) for index, item in enumerate(items)]
        entries[name] = StoredEntry(EntryKind.LIST, tuple(lines))
    return entries


def decode(key: str, entries: Mapping[str, StoredEntry], version: str | None = None) -> Saved:
    """The values that the entries of a session stand for, made anew; `SavedStateError` for what was not saved here."""
    saved = Saved(version=version)
    for name, entry in entries.items():
        items = [_value(key, name, line) for line in entry.lines]
        if entry.kind is EntryKind.LIST:
            saved.lists[name] = items
        elif len(items) == 1:
            saved.values[name] = items[0]
        else:
            raise SavedStateError(key, f"entry {name!r} holds {len(items)} values in the place of one.")
    return saved


def _value(key: str, name: str, line: bytes) -> object:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SavedStateError(key, f"entry {name!r} is not JSON that a session has written ({error}).") from error
    # the digest of a file shows damage, not who has written it
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and (deep := too_deep(value)):
        raise SavedStateError(key, f"entry {name!r} is none that a session has written: {deep.reason}.")
    return value


def _checked(text: str, what: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"{what} must be a str, not {type(text).__name__}: {text!r:.60}")
    if not text.strip():
        raise InvalidInputError(f"{what} must not be blank")
    return text


def _check_items(key: str, name: str, items: object) -> None:
    # a generator would be empty the second time that the flow is subscribed to
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
        text = _readable.encode(value)
        line = _utf8(text, value)
    except (TypeError, ValueError, RecursionError) as error:
        found = find_unwritable(value) or Unwritable("", str(error))
        raise _unwritable(key, name, index, found) from error
    # what is nested deeper than a reader may go must not be written
    if text.count("[") + text.count("{") > MAX_DEPTH and (deep := too_deep(value)):
        raise _unwritable(key, name, index, deep)
    return line


def _unwritable(key: str, name: str, index: int | None, found: Unwritable) -> SessionValueError:
    item = "" if index is None else f"[{index}]"
    return SessionValueError(key, name, f"${item}{found.path}", found.reason)


def _utf8(text: str, value: object) -> bytes:
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:
        # half of a surrogate pair: only an escape can say it
        return f"{_escaped.encode(value)}\n".encode()
