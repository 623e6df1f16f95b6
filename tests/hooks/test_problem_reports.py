"""`ProblemReports`: each problem once, to the function or as a dropped error."""

from __future__ import annotations

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks.problem_reports import REMEMBERED, ProblemReports
from agentscope_rx.testing import collect_dropped


def test_each_problem_is_reported_once():
    seen: list[str] = []
    reports = ProblemReports[ConfigurationError](lambda each: seen.append(str(each)), "a thing", "a hook")
    for _ in range(2):
        reports.report([ConfigurationError("one"), ConfigurationError("two")])
    assert seen == ["one", "two"]


def test_without_a_function_it_is_a_dropped_error():
    with collect_dropped() as dropped:
        ProblemReports[ConfigurationError](None, "a thing", "a hook").report([ConfigurationError("one")])
    assert dropped.where == ["a thing"]


def test_a_function_that_fails_loses_no_problem():
    def fail(each: Exception) -> None:
        raise ValueError("broken")

    with collect_dropped() as dropped:
        ProblemReports(fail, "a thing", "a hook").report([ConfigurationError("one")])
    assert dropped.where == ["a thing", "on_problem of a hook"]


def test_what_is_remembered_is_bounded():
    reports = ProblemReports[ConfigurationError](lambda each: None, "a thing", "a hook")
    reports.report(ConfigurationError(str(n)) for n in range(REMEMBERED + 10))
    assert len(reports._reported) == REMEMBERED
