"""Marks of a message: names that memory and requests go by, kept in the message's metadata.

| mark           | law                                                                                                |
|----------------|----------------------------------------------------------------------------------------------------|
| `HIDDEN`       | kept and shown in the stored conversation; never sent to a model                                   |
| `TRANSIENT`    | sent; removed from memory at the end of the run, and never saved to a session                      |
| `COMPRESSED`   | kept; in requests a summary takes its place                                                        |

Any other text is a mark of the application. Marks are metadata, and not a field, so that every store of messages keeps
them: a memory that was written before there were marks, a session, a log of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages.frozen import check_encodable

HIDDEN: Final = "hidden"
"""The mark of a message that is kept and shown, and never sent to a model."""
TRANSIENT: Final = "transient"
"""The mark of a message that is sent, leaves memory at the end of the run, and is never saved."""
COMPRESSED: Final = "compressed"
"""The mark of a message that memory keeps, and that a summary replaces in requests."""

MARKS: Final = "memory_marks"
"""The key in a message's metadata."""
SUMMARY: Final = "memory_summary"
"""The key in the metadata of the last compressed message: the summary of all of them."""

_NONE: Final[frozenset[str]] = frozenset()


def marks_in(metadata: Mapping[str, object]) -> frozenset[str]:
    """The marks in the metadata of a message."""
    found = metadata.get(MARKS) if metadata else None
    if not isinstance(found, (list, tuple)):
        return _NONE
    # (a generator would cost a call for each mark)
    return frozenset([mark for mark in found if isinstance(mark, str)])  # pyright: ignore[reportUnknownVariableType]


def numbers_marked(metadata: Iterable[Mapping[str, object]], mark: str, other: str = "") -> set[int]:
    """The indexes of those with one of the marks. No Python function is called for each: a conversation may be long."""
    return {
        number
        for number, each in enumerate(metadata)
        if each and isinstance(found := each.get(MARKS), (list, tuple)) and (mark in found or other in found)
    }


def summary_in(metadata: Mapping[str, object]) -> str:
    """The summary that a compressed message carries; '' for none."""
    found = metadata.get(SUMMARY)
    return found if isinstance(found, str) and COMPRESSED in marks_in(metadata) else ""


def with_marks(metadata: Mapping[str, object], marks: Iterable[str]) -> dict[str, object]:
    """The metadata with these marks and no others."""
    changed = {name: value for name, value in metadata.items() if name != MARKS}
    kept = sorted(set(marks))
    if COMPRESSED not in kept:
        changed.pop(SUMMARY, None)
    return changed | {MARKS: kept} if kept else changed


def check_marks(marks: Iterable[str]) -> frozenset[str]:
    """The marks; `InvalidInputError` for one that is not a text, or empty, and for a single text."""
    if isinstance(marks, str):
        raise InvalidInputError(f"Give the marks as a list, such as [{marks!r}], not as a single text.")
    checked = tuple(marks)
    for mark in checked:
        if not isinstance(mark, str) or not mark:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"A mark is a text that is not empty, not {mark!r:.60}.")
        check_encodable(mark, "a mark")
    return frozenset(checked)
