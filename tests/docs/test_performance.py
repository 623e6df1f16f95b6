"""The page of measurements shows what its JSON has; nothing is measured here."""

from __future__ import annotations

import pytest

from benchmarks.compare import page, plan
from benchmarks.compare.chart import Line, chart, short
from benchmarks.compare.results import Results

ANEW = "Write it anew: python -m benchmarks.compare.page"


def test_the_page_has_the_numbers_of_its_json():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text, page.load()) == text, ANEW


@pytest.mark.parametrize(("name", "text"), list(page.pictures(page.load())), ids=lambda each: each[:20])
def test_a_picture_has_the_numbers_of_the_json(name: str, text: str):
    assert (page.PICTURES / name).read_text(encoding="utf-8") == text, ANEW


def test_every_picture_is_on_the_page():
    text = page.PAGE.read_text(encoding="utf-8")
    assert [name for name, _ in page.pictures(page.load()) if f"(pictures/{name})" not in text] == []


def test_results_survive_their_json():
    results = page.load()
    assert Results.of(results.as_json()) == results
    assert {case for case, _ in results.values} <= {row.case for row in plan.FULL}


def small() -> Results:
    results = Results(["bare", "engine", "strands"])
    for value in (1.0, 3.0, 2.0):
        results.add(("turns", 10), "bare", value)
        results.add(("turns", 10), "engine", value * 4)
    results.leave_out(("turns", 10), "strands", "too long")
    results.add(("tools", 64), "bare", 50.1)
    results.add(("tools", 64), "engine", 52.0)
    return results


def test_a_ratio_is_that_of_the_medians_and_a_value_a_value():
    turn, tools = page.table(small()).splitlines()[2:]
    assert turn == "| a turn, 10 | 2 us | 4x | too long |"
    assert tools == "| 64 tools of 50 ms, elapsed | 50.1 ms | 52 | - |"


def test_the_bare_loop_and_the_engine_are_always_measured():
    assert plan.sides(only=["langgraph"]) == ["bare", "engine", "langgraph"]
    assert "agentscope-1" in plan.sides(also=["agentscope-1"]) and "agentscope-1" not in plan.sides()
    with pytest.raises(ValueError, match="nothing"):
        plan.sides(only=["nothing"])


def test_a_chart_has_each_line_and_no_names_over_each_other():
    lines = [Line(f"line <{n}>", {10: 1.0 + n / 100, 1_000: 2.0}) for n in range(9)]
    text = chart("A & B", "size", "cost", [*lines, Line("empty", {})])
    assert text.count('class="l"') == 9 and "A &amp; B" in text and "line &lt;3&gt;" in text and "empty" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(12_345.6, "12,346"), (99.96, "100"), (12.34, "12.3"), (10.0, "10"), (1.234, "1.2"), (0.123, "0.12")],
)
def test_numbers_have_as_many_digits_as_say_something(value: float, text: str):
    assert short(value) == text
