"""Measures everything and writes docs/performance.json, the tables of its page and the pictures: `make bench`.

    python -m benchmarks.compare                      all, in three rounds, in 15 to 35 minutes
    python -m benchmarks.compare --quick              a small form, which writes nothing
    python -m benchmarks.compare --only langgraph     the bare loop, the engine, and this one; writes nothing
    python -m benchmarks.compare --also agentscope-1  with the old version, too

The libraries are downloaded into environments of their own when they are first needed.
"""

from __future__ import annotations

import argparse
import json

from benchmarks import counts
from benchmarks.compare import page, plan
from benchmarks.compare.results import Results
from benchmarks.compare.runner import Runner

ROUNDS = 3


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small form")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}; 1 in the small form")
    parser.add_argument("--also", nargs="*", default=[], metavar="SIDE", help="sides that are left out otherwise")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="SIDE", help="these beside the bare loop and the engine"
    )
    parser.add_argument("--case", nargs="*", default=[], help="these cases only")
    parser.add_argument("--write", action="store_true", help="write the page from a part or a small form, too")
    given = parser.parse_args()
    results = Results(plan.sides(given.also, given.only), quick=given.quick)
    rows = [row for row in (plan.QUICK if given.quick else plan.FULL) if not given.case or row.case in given.case]
    runner = Runner(results, lambda line: print(line, flush=True))
    runner.prepare()
    runner.run(rows, given.rounds or (1 if given.quick else ROUNDS))
    results.profile = counts.all_counts()
    print("\n" + page.table(results), "\n\n" + page.profile(results))
    if given.write or not (given.quick or given.only or given.case):
        page.DATA.write_text(json.dumps(results.as_json(), indent=1) + "\n", encoding="utf-8")
        page.main()


if __name__ == "__main__":
    main()
