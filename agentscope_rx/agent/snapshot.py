"""`Snapshot`: a conversation before a run reads its history."""

from __future__ import annotations

from typing import NamedTuple


class Snapshot(NamedTuple):
    """A conversation before its history is read, which overlapping runs may change meanwhile."""

    pending: frozenset[str]
    alone: bool
    """True if no other run is in progress."""
    admitted: int
    """The number of runs that have taken their input."""
