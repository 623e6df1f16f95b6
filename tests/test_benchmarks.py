"""Each case of the comparison runs on the engine and on the bare loop, at a size at which it measures nothing."""

from __future__ import annotations

import asyncio
import math

import pytest

from agentscope_rx.testing import run_virtual
from benchmarks import counts
from benchmarks.compare import plan
from benchmarks.compare.measure import IMPORTS, IN_PROCESS, OVER_HTTP, start
from benchmarks.compare.results import Results
from benchmarks.compare.runner import LONGEST, Runner
from benchmarks.compare.server import serving
from benchmarks.compare.side import side
from benchmarks.peers import MEASURED

SIZE = 12


@pytest.mark.parametrize("name", plan.OURS)
@pytest.mark.parametrize("case", IN_PROCESS)
def test_a_case_runs_in_process(case: str, name: str):
    found = run_virtual(IN_PROCESS[case](side(name), SIZE))
    assert math.isfinite(found) and found >= 0


@pytest.mark.parametrize("name", plan.OURS)
def test_the_cases_over_http_run(name: str):
    async def main(url: str) -> list[float]:
        try:
            return [await case(side(name), 3, url) for case in OVER_HTTP.values()]
        finally:
            await side(name).close()

    with serving() as url:
        assert all(found >= 0 for found in asyncio.run(main(url)))


def test_every_row_has_its_case_and_every_side_its_imports():
    assert {row.case for row in plan.FULL} == {*IN_PROCESS, *OVER_HTTP, "start"}
    assert {*plan.SIDES, plan.CORE} == IMPORTS.keys() and plan.SIDES.keys() - plan.OURS == MEASURED.keys()
    assert start("engine") >= 0


def test_what_takes_too_long_is_left_out_or_not_repeated():
    runner = Runner(Results(["bare"]))
    runner._took["turns", "slow"] = {10: 0.01, 100: 1.0, 150: 4.1}
    runner._cell(("turns", 150), "slow")
    assert not runner.results.values
    del runner._took["turns", "slow"][150]
    assert runner._expected(("turns", 200), "slow") == pytest.approx(4.0)
    assert runner._expected(("turns", 10), "slow") == 0
    runner._cell(("turns", 500), "slow")
    assert runner.results.skipped("turns", 500, "slow") and runner._expected(("turns", 500), "slow") > LONGEST


def test_tasks_and_objects_of_the_engine_are_counted():
    assert counts.tasks_a_turn() >= 0
    assert counts.objects_an_agent(5) > 0
