"""A provider costs nothing until it is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import agentscope_rx.models as models

_CODE = """
import sys
import agentscope_rx.models as models

lazy = set(models._LAZY.values())
assert not lazy & set(sys.modules), lazy & set(sys.modules)
for name in models._LAZY:
    assert getattr(models, name).__name__ == name
assert lazy <= set(sys.modules)
"""


def test_a_provider_is_imported_when_it_is_named() -> None:
    subprocess.run([sys.executable, "-c", _CODE], check=True, cwd=Path(__file__).parents[2])


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        models.Nothing  # pyright: ignore[reportAttributeAccessIssue]
    assert set(models._LAZY) <= set(models.__all__)
