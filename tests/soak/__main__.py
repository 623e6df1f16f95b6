"""`python -m tests.soak`: the soaks in their full size."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from agentscope_rx.testing import run_virtual
from tests.agent.combined_lives import live, live_working
from tests.agent.durable.kills import STORES, kills, place_of
from tests.knowledge.indexing.kills import kill_indexing
from tests.knowledge.stores import kills as chunk_kills
from tests.soak.long_runs import run_long
from tests.soak.soak import soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--virtual", type=float, default=0, help="seconds of virtual time")
    parser.add_argument("--real", type=float, default=0, help="seconds on a real loop")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of one run under a budget")
    parser.add_argument("--kills", type=int, default=0, help="processes to kill on each store")
    parser.add_argument("--stores", nargs="+", choices=list(STORES), default=list(STORES), help="those of --kills")
    parser.add_argument("--indexing", type=int, default=0, help="processes to kill while they index a folder")
    parser.add_argument("--lives", type=int, default=0, help="lives of an agent with many hooks at once")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    if given.kills:
        # first: it forks, and the other soaks begin threads
        for store in given.stores:
            with TemporaryDirectory() as folder, place_of(store) as place:
                if place is None:
                    print(f"no processes are killed on {store}: its server is not installed", flush=True)
                    continue
                killed = kills(place, Path(folder), given.kills, given.seed)
            print(f"killed at {given.kills} moments:", killed, flush=True)
        with TemporaryDirectory() as folder:
            killed = chunk_kills.kills(Path(folder), given.kills, given.seed)
        print(f"killed at {given.kills} moments of a put:", killed, flush=True)
    if given.indexing:
        killed = kill_indexing(given.indexing, given.seed)
        print(f"killed {given.indexing} times while indexing:", dict(killed), flush=True)
    if given.rounds:
        for budget in (4_000, 40_000):
            run = run_long(given.rounds, budget)
            assert run.late < 3 * run.early, run
            print(f"{given.rounds} rounds within {budget:,} tokens:", run, flush=True)
    if given.lives:
        with TemporaryDirectory() as folder:
            (Path(folder) / "AGENTS.md").write_text("Be kind.")
            ends = Counter(
                end for n in range(given.lives) for end in run_virtual(live(given.seed + n, 16, Path(folder)))
            )
            print(f"{given.lives} lives with many hooks:", dict(ends), flush=True)
            work = Counter(
                end for n in range(given.lives) for end in run_virtual(live_working(given.seed + n, 16, Path(folder)))
            )
        print(f"{given.lives} lives with background work and sub-agents:", dict(work), flush=True)
    if given.virtual:
        begun = time.process_time()
        work = soak(given.virtual, agents=given.agents, seed=given.seed)
        ended = run_virtual(work, limit=given.virtual + 100_000, patience=60)
        print(f"{given.virtual:g} virtual s in {time.process_time() - begun:.0f} s of CPU:", ended, flush=True)
    if given.real:
        work = soak(given.real, agents=given.agents, seed=given.seed, pace=0.2, threads=True)
        print(f"{given.real:g} real s:", asyncio.run(work), flush=True)


if __name__ == "__main__":
    main()
