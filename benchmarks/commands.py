"""What a command costs in each backend: `python -m benchmarks.commands`. The program does nothing (`true`).

Wall time, the median of some runs, one after the other, beside a bare asyncio subprocess; and how much it grows with
the number of files in the workspace, because a sandbox looks for the denied ones before each command.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.backends import SANDBOX_LIMITS, Backend, BubblewrapBackend, LocalBackend

RUNS = 30
FILES = (10, 1_000, 10_000)
WORDS = ("/bin/true",)

MAKERS: dict[str, Callable[[Path], Backend]] = {
    "local": lambda root: LocalBackend(root, namespace=False),
    "local, with limits": lambda root: LocalBackend(root, namespace=False, limits=SANDBOX_LIMITS),
    "local, in a namespace": lambda root: LocalBackend(root, namespace=True),
    "bubblewrap": BubblewrapBackend,
}


async def bare() -> None:
    """One command by asyncio alone."""
    process = await asyncio.create_subprocess_exec(*WORDS, stdout=asyncio.subprocess.PIPE)
    await process.communicate()


async def milliseconds(command: Callable[[], Awaitable[object]]) -> float:
    """The median time of a command."""
    times: list[float] = []
    for _ in range(RUNS):
        began = time.perf_counter()
        await command()
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def main() -> None:
    """Measure and print, a row as soon as it is known."""
    print(f"{'':24}{'files':>8}{'ms':>10}{'ratio':>9}")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        base = asyncio.run(milliseconds(bare))
        print(f"{'bare asyncio':24}{'':>8}{base:10.1f}{1:8.1f}x", flush=True)
        made = 0
        for count in FILES:
            for number in range(made, count):
                folder = root / f"folder {number // 100}"
                folder.mkdir(exist_ok=True)
                (folder / f"{number}.txt").touch()
            made = count
            for title, make in MAKERS.items():
                if count > FILES[0] and title != "bubblewrap":
                    continue
                try:
                    backend = make(root)
                except ConfigurationError as error:
                    print(f"{title:24}{count:>8,}  {error}")
                    continue
                took = asyncio.run(milliseconds(lambda backend=backend: backend.run(WORDS, env={})))
                print(f"{title:24}{count:>8,}{took:10.1f}{took / base:8.1f}x", flush=True)


if __name__ == "__main__":
    main()
