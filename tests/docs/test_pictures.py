"""The pictures of the pages are those of the logs beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx.cli.main import main
from tests.docs.pages import DOCS

LOGS = sorted((DOCS / "pictures").glob("*.jsonl"))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_a_picture_is_what_trace_makes_of_its_log(log: Path, tmp_path: Path):
    assert main(["trace", str(log), "--svg", str(tmp_path / "run.svg")]) == 0
    shown = log.with_suffix(".svg").read_text(encoding="utf-8")
    assert (tmp_path / "run.svg").read_text(encoding="utf-8") == shown, f"make it again: trace {log.name} --svg ..."
