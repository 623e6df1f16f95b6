"""What a store of sessions costs: `python -m benchmarks.sessions [STORE ...]`; a STORE is what `open_session` takes.

Without arguments: memory, a folder of files, SQLite with both of its settings, and those on servers that are installed,
which are started for it (`session_servers`). Times are of this machine and its disk; the ratios are what to compare.
Another server is measured with, say, `redis://localhost/9`: its sessions whose keys begin with "benchmark " are deleted
afterwards.

    a save of turn n        two messages behind a list of n, and the state; the ratio is that to n = 10
    saves a second          one conversation after the other, and 32 conversations at once
    conversations           10,000 in one SQLite file: written, listed, one of them loaded
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median

from agentscope_rx.session import InMemorySession, JsonSession, ListTail, Session, SqliteSession, open_session
from benchmarks.session_servers import on_servers

TURNS = (10, 1_000, 10_000)
SAVES = 40
AT_ONCE = 32
CONVERSATIONS = 10_000
MESSAGE = {"name": "Ann", "role": "user", "content": [{"type": "text", "text": "Hello! " * 20}]}


def messages(count: int) -> list[object]:
    """As many messages of an ordinary size."""
    return [{**MESSAGE, "id": f"{number:032x}"} for number in range(count)]


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def save_of_turn(session: Session, count: int) -> float:
    """The median time of a save behind that many messages."""
    key = f"benchmark {count}"
    version = await session.save_all(key, {"state": 0}, {"memory": messages(count)})
    times: list[float] = []
    two = messages(2)

    async def save(number: int) -> None:
        nonlocal version
        tail = ListTail(two, count + 2 * number)
        version = await session.save_all(key, {"state": number}, {"memory": tail}, expected=version)

    for number in range(SAVES):
        times.append(await seconds(lambda number=number: save(number)))
    await session.delete(key)
    return median(times)


async def saves_a_second(session: Session, at_once: int) -> float:
    """Saves of as many conversations, each with two messages more than before."""
    keys = [f"benchmark {number}" for number in range(at_once)]
    rounds = max(2, 200 // at_once)

    async def talk(key: str) -> None:
        for number in range(rounds):
            await session.save_all(key, {"state": number}, {"memory": ListTail(messages(2))})

    async def all_of_them() -> None:
        await asyncio.gather(*(talk(key) for key in keys))

    taken = await seconds(all_of_them)
    for key in keys:
        await session.delete(key)
    return rounds * at_once / taken


async def many_conversations(path: Path) -> None:
    """Write, list and load conversations of one file."""
    session = SqliteSession(path)
    ten = messages(10)

    async def write() -> None:
        for first in range(0, CONVERSATIONS, 100):
            keys = [f"user {number}" for number in range(first, first + 100)]
            await asyncio.gather(*(session.save_all(key, {"state": key}, {"memory": ten}) for key in keys))

    written = await seconds(write)
    listed = await seconds(session.keys)
    loads = [await seconds(lambda n=number: session.load_all(f"user {n}")) for number in range(0, CONVERSATIONS, 499)]
    saves = [
        await seconds(lambda n=number: session.save_all(f"user {n}", {"state": 1}, {"memory": ListTail(ten[:2])}))
        for number in range(0, CONVERSATIONS, 499)
    ]
    await session.close()
    size = os.path.getsize(path)  # noqa: ASYNC240
    print(
        f"\n{CONVERSATIONS:,} conversations of 10 messages in one SQLite file of {size / 1e6:.0f} MB: "
        f"written in {written:.1f} s ({CONVERSATIONS / written:,.0f} a second), listed in {listed * 1e3:.0f} ms, "
        f"one loaded in {median(loads) * 1e3:.1f} ms, one saved in {median(saves) * 1e3:.1f} ms"
    )


async def measure(name: str, session: Session) -> None:
    """Print the row of one store."""
    times = [await save_of_turn(session, count) for count in TURNS]
    rates = [await saves_a_second(session, at_once) for at_once in (1, AT_ONCE)]
    shown = "".join(f"{each * 1e3:8.2f} ({each / times[0]:4.1f}x)" for each in times)
    print(f"{name:24}{shown}{rates[0]:12,.0f}{rates[1]:12,.0f}", flush=True)
    await session.close()


def heading() -> None:
    """Print the names of the columns."""
    print(f"{'a save of turn n, ms':24}" + "".join(f"{f'n = {count:,}':>16}" for count in TURNS), end="")
    print(f"{'saves/s':>12}{f'{AT_ONCE} at once':>12}", flush=True)


async def named(places: list[str]) -> None:
    """Measure the stores of these paths and URLs."""
    for place in places:
        # (no password of a URL is shown)
        await measure(place.split(":")[0], open_session(place))


async def all_kinds(on_servers: Mapping[str, Callable[[], Session]]) -> None:
    """Measure a store of each kind."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        await measure("memory", InMemorySession())
        await measure("files", JsonSession(root / "files"))
        await measure("sqlite, full", SqliteSession(root / "full.db"))
        await measure("sqlite, normal", SqliteSession(root / "normal.db", synchronous="normal"))
        for name, make in on_servers.items():
            await measure(name, make())
        await many_conversations(root / "many.db")


def main(places: list[str]) -> None:
    """Measure the stores, and print."""
    heading()
    if places:
        asyncio.run(named(places))
        return
    with on_servers() as makers:
        asyncio.run(all_kinds(makers))


if __name__ == "__main__":
    main(sys.argv[1:])
