"""Runs the fuzzers of this folder again and again, each round with a fresh seed, until the time is over.

    python -m tests.security.fuzz --seconds 600            what `make fuzz SECONDS=600` does
    python -m tests.security.fuzz --seed 7 --examples 400   one round, as a failure told to run it again

The first round tries as many examples as the tests do; the next ones as many as fit into `ROUND` seconds. Ends with 1
at the first failure, with what failed and how to run that round again.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

ROUND = 60.0
"""Seconds that a round is to take."""
FIRST, MOST = 40, 20_000
"""Examples for each test: of the first round, and of any."""
EXAMPLES = "FUZZ_EXAMPLES"
"""The variable of the environment that tells the tests how many examples to try (see `tests/conftest.py`)."""

_TRIED = re.compile(r"(\d+) passing\b.*?(\d+) failing\b.*?(\d+) invalid\b")
"""As hypothesis' versions put it: of examples, or of test cases."""
_STATISTICS = re.compile(r"^=+ Hypothesis Statistics =+$.*?(?=^=+ )", re.DOTALL | re.MULTILINE)


class Round(NamedTuple):
    """What has come of one round."""

    passed: bool
    tried: int
    seconds: float
    output: str


def command(seed: int) -> list[str]:
    """The command line of one round."""
    tests = ["-m", "pytest", "tests/security", "-m", "fuzz", "-x", "--timeout=1200"]
    return [sys.executable, *tests, f"--hypothesis-seed={seed}", "--hypothesis-show-statistics"]


def play(seed: int, examples: int) -> Round:
    """One round."""
    begun = time.monotonic()
    done = subprocess.run(
        command(seed), env={**os.environ, EXAMPLES: str(examples)}, capture_output=True, text=True, errors="replace"
    )
    return Round(done.returncode == 0, tried(done.stdout), time.monotonic() - begun, done.stdout + done.stderr)


def tried(output: str) -> int:
    """The number of examples in hypothesis' statistics."""
    return sum(sum(int(count) for count in found.groups()) for found in _TRIED.finditer(output))


def next_examples(examples: int, seconds: float, left: float) -> int:
    """How many examples fit into the next round, by what the last one took."""
    fits = int(examples * min(ROUND, left) / max(seconds, 0.1))
    return max(FIRST, min(MOST, fits, examples * 10))


def fuzz(seconds: float, play: Callable[[int, int], Round], say: Callable[[str], object]) -> int:
    """Rounds until the time is over; gives the exit code."""
    begun = time.monotonic()
    examples, rounds, total = FIRST, 0, 0
    while True:
        seed = random.SystemRandom().randrange(2**32)
        found = play(seed, examples)
        rounds += 1
        total += found.tried
        passed = time.monotonic() - begun
        if not found.passed:
            return failed(found, seed, examples, say)
        say(f"round {rounds}: {found.tried} examples in {found.seconds:.0f} s; {total} in {passed:.0f} s (seed {seed})")
        if passed >= seconds:
            say(f"Nothing was found in {rounds} rounds, {total} examples, {passed:.0f} seconds.")
            return 0
        examples = next_examples(examples, found.seconds, seconds - passed)


def failed(found: Round, seed: int, examples: int, say: Callable[[str], object]) -> int:
    """Says what a round has found, and how to find it again."""
    say(_STATISTICS.sub("", found.output)[-20_000:])
    say(f"\nFound with seed {seed}. To run this round again:\n")
    say(f"    python -m tests.security.fuzz --seed {seed} --examples {examples}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.security.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="for how long (default: 600)")
    parser.add_argument("--seed", type=int, help="one round with this seed")
    parser.add_argument("--examples", type=int, default=FIRST, help=f"examples for each test of it (default: {FIRST})")
    asked = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    if asked.seed is None:
        return fuzz(asked.seconds, play, say)
    found = play(asked.seed, asked.examples)
    if not found.passed:
        return failed(found, asked.seed, asked.examples, say)
    say(f"Nothing was found in {found.tried} examples, {found.seconds:.0f} seconds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
