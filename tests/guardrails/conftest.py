"""Fixtures of the tests of guardrails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentscope_rx.testing import collect_dropped


@pytest.fixture
def reported() -> Iterator[list[BaseException]]:
    """The errors that were reported to the dropped-error hook."""
    with collect_dropped() as dropped:
        yield dropped
