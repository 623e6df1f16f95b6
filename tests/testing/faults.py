"""Shared by the tests of kits: that a fault is found, by the rule that names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentscope_rx.testing.kits import RuleBrokenError


def broken(call: Callable[[], object], rule: str) -> RuleBrokenError:
    """The error of a kit that finds this rule broken."""
    with pytest.raises(RuleBrokenError) as caught:
        call()
    assert caught.value.rule == rule, caught.value
    assert rule in str(caught.value) and caught.value.seen
    return caught.value
