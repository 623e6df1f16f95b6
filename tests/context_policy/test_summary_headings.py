"""The headings of a summary: the spellings that models use, and lines that are made to take long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.context_policy.summary import (
    _heading,  # pyright: ignore[reportPrivateUsage]
    without_headings,
)
from tests.support.assertions import in_cpu_time

PIECES = st.lists(st.sampled_from(["#", "##", " ", "**", ":", "Goal", "open ends", "x1", "-"]), max_size=7)
AS_ONE_EXPRESSION = re.compile(r"^\s{0,3}(?:#{1,6}\s*|\*\*)([A-Za-z_ -]+?)\s*:?\s*(?:\*\*)?\s*:?\s*#*\s*$")


@pytest.mark.parametrize("line", ["## Goal", "**Goal:**", "**Goal**:", "# Goal #", "#Goal", "  ### Goal: "])
def test_the_spellings_of_a_heading(line: str) -> None:
    assert _heading(line) == "Goal"
    assert _heading("Goal") is None


@given(PIECES.map("".join))
def test_a_heading_is_what_one_expression_finds(line: str) -> None:
    found = AS_ONE_EXPRESSION.match(line)
    expected = found[1].strip() if found else ""
    assert (_heading(line) or "").strip() == expected


@pytest.mark.parametrize(
    "line", ["# a" + " " * 50_000 + "1", "# a" + " :" * 20_000, "#" * 50_000, "** " + "- " * 20_000 + "1"]
)
def test_no_line_takes_long(line: str) -> None:
    in_cpu_time(lambda: without_headings(line), 1.0)
