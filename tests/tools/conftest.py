"""The fence around the workspace of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.fence import Fence


@pytest.fixture
def fence(tmp_path: Path) -> Iterator[Fence]:
    """A workspace; nothing outside of it has changed when the test is over."""
    fence = Fence(tmp_path)
    yield fence
    fence.check()
