"""The engine's cases beside the bare loop, one by one: `python -m benchmarks.rows`; the ratio of the medians last.

`python -m benchmarks.compare` has other libraries beside them; here are cases that those do not have.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

ROWS = [
    ("CPU per turn, us", "turns", (10, 100, 1_000, 10_000)),
    ("peak memory per turn, KiB", "memory", (10, 100, 1_000, 10_000)),
    ("CPU per chunk, subscribed, us", "chunks", (1_000, 20_000)),
    ("CPU per chunk, pulled, us", "pulled", (1_000, 20_000)),
    ("CPU per chunk, started, us", "started", (1_000, 20_000)),
    ("CPU per chunk, shared by 3, us", "shared", (1_000, 20_000)),
    ("time to the first chunk, us", "first", (200,)),
    ("CPU per agent of 1,000 at once, us", "agents", (1_000,)),
    ("CPU per member of 1,000 in a fan-out", "fan_out", (1_000,)),
    ("tools of 50 ms at once, async, ms", "slow_tools", (64,)),
    ("tools of 50 ms at once, sync, ms", "slow_sync_tools", (64,)),
    ("CPU per tool call, us", "tools", (1_000,)),
    ("CPU per tool call with limits, us", "limited_tools", (1_000,)),
    ("CPU per chunk over HTTP, us", "streaming", (1_000, 20_000)),
    ("memory of 1,000 streams, KiB each", "streams", (20, 200)),
    ("import, ms", "start", (1,)),
]
ROUNDS = 3


def measure(who: str, case: str, count: int) -> float:
    """One measurement in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.cases", who, case, str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure and print, a row as soon as it is known."""
    print(f"{'':36}{'':>8}{'bare loop':>12}{'engine':>12}{'ratio':>9}")
    for title, case, counts in ROWS:
        for count in counts:
            pairs = [(measure("bare", case, count), measure("engine", case, count)) for _ in range(ROUNDS)]
            bare, engine = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = f"{engine / bare:8.1f}x" if bare else "        -"
            print(f"{title:36}{count:>8,}{bare:12.2f}{engine:12.2f}{ratio}", flush=True)


if __name__ == "__main__":
    main()
