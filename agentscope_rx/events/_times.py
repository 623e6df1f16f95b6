"""`iso`: the time of an event as text."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(seconds: float) -> str:
    """Seconds since the epoch in UTC, as in messages; those of the epoch for a number outside the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="milliseconds")
