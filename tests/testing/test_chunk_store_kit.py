"""`check_chunk_store`: the store in memory keeps the laws, and each kind of fault is found."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import cast

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.knowledge import InMemoryChunkStore, SqliteChunkStore
from agentscope_rx.testing import check_chunk_store


def test_the_store_in_memory_keeps_the_laws():
    report = check_chunk_store(InMemoryChunkStore)
    assert {"stored", "nearest", "matching", "put 1.08", "documents loops, second"} <= set(report.checked)
    assert {"again", "reopened"} <= {rule for rule, _ in report.skipped}
    assert "skipped" in str(report)


def test_the_kit_takes_functions_that_make_stores():
    with pytest.raises(ConfigurationError, match="a function that returns a new ChunkStore at each call"):
        check_chunk_store(InMemoryChunkStore())  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^again must be a function"):
        check_chunk_store(InMemoryChunkStore, again=InMemoryChunkStore())  # type: ignore[arg-type]


def test_the_sqlite_store_keeps_the_laws(tmp_path: Path):
    numbers = count()
    report = check_chunk_store(
        lambda: SqliteChunkStore(tmp_path / f"{next(numbers)}.db"),
        again=lambda store: SqliteChunkStore(cast("SqliteChunkStore", store).path),
    )
    assert {"again", "reopened", "threads", "put 1.08"} <= set(report.checked)
