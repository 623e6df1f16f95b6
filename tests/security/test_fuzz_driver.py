"""The driver of `make fuzz`: it goes on until the time is over, and tells how a failure is found again."""

from __future__ import annotations

import re

import pytest

from tests.security import fuzz


def test_statistics_are_added_up():
    output = (
        "  - during generate phase (0.10 seconds):\n    - 40 passing, 0 failing, and 2 invalid test cases\n"
        "    - 1 passing example, 1 failing example, 0 invalid examples\n"
    )
    assert fuzz.tried(output) == 44
    assert fuzz.tried("no tests ran") == 0


@pytest.mark.parametrize(
    ("examples", "seconds", "left", "expected"),
    [
        (40, 6.0, 600.0, 400),
        (400, 60.0, 600.0, 400),
        (400, 60.0, 30.0, 200),
        (400, 60.0, 1.0, 40),
        (9000, 0.0, 600, 20_000),
    ],
)
def test_a_round_is_as_long_as_there_is_time(examples: int, seconds: float, left: float, expected: int):
    assert fuzz.next_examples(examples, seconds, left) == expected


def test_a_failure_ends_it_and_tells_the_seed():
    seeds: list[int] = []
    said: list[str] = []

    def play(seed: int, examples: int) -> fuzz.Round:
        seeds.append(seed)
        return fuzz.Round(
            len(seeds) < 3, 10, 0.0, "E  assert False\n== Hypothesis Statistics ==\n  - statistics\n== short ==\n"
        )

    assert fuzz.fuzz(1e9, play, said.append) == 1
    assert len(set(seeds)) == 3, "each round has a seed of its own"
    assert "assert False" in said[-3] and "statistics" not in said[-3]
    again = re.search(r"--seed (\d+) --examples (\d+)", said[-1])
    assert again and int(again[1]) == seeds[-1]


def test_it_ends_when_the_time_is_over():
    said: list[str] = []
    assert fuzz.fuzz(0.0, lambda seed, examples: fuzz.Round(True, 10, 0.0, ""), said.append) == 0
    assert said[-1].startswith("Nothing was found in 1 rounds, 10 examples")
