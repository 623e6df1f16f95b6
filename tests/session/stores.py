"""The stores that tests are run over, by name; each takes a folder, which need not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx.session import InMemorySession, JsonSession, Session, SqliteSession

Make = Callable[[Path], Session]


def sqlite(folder: Path) -> SqliteSession:
    """A store in a file of that folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return SqliteSession(folder / "sessions.db")


STORES: dict[str, Make] = {"memory": lambda folder: InMemorySession(), "files": JsonSession, "sqlite": sqlite}
ON_DISK: dict[str, Make] = {"files": JsonSession, "sqlite": sqlite}
EACH = pytest.mark.parametrize("make", STORES.values(), ids=list(STORES))
EACH_ON_DISK = pytest.mark.parametrize("make", ON_DISK.values(), ids=list(ON_DISK))
