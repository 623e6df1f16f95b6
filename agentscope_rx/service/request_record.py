"""`RequestRecord`: one request, as the log and the figures have it."""

from __future__ import annotations

from typing import NamedTuple


class RequestRecord(NamedTuple):
    """One request, as the log has it."""

    method: str
    path: str
    client: str
    status: int
    seconds: float
    first_byte_seconds: float | None
    bytes: int
    complete: bool
