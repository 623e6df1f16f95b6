"""What a turn or a chunk consists of: Python calls, counted, so that they are the same on a busy machine.

    python -m benchmarks.calls turns      python -m benchmarks.calls chunks      python -m benchmarks.calls pulled
    python -m benchmarks.calls tools      python -m benchmarks.calls limited_tools
    python -m benchmarks.calls guarded    python -m benchmarks.calls secrets       chunks with a check of the output
    python -m benchmarks.calls traced_turns   python -m benchmarks.calls traced_chunks  with spans in memory
    python -m benchmarks.calls started    python -m benchmarks.calls shared        chunks of a run begun by `start()`
    python -m benchmarks.calls agents     python -m benchmarks.calls begin     python -m benchmarks.calls end
                                          an agent made; a run until its model is asked, and after its last chunk

The difference of a long run and a short one, by file and, with `--functions`, by function; C calls last.

    python -m benchmarks.calls objects    what one agent holds while it waits for its model: objects that the garbage
                                          collector tracks, by class, and bytes
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from types import FrameType

from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatResponse
from benchmarks import engine, models
from benchmarks.cases import _chunks, _started, _tools, _turns, guarded_chunks

SHORT, LONG = 50, 250
Name = tuple[str, str]


def traced(main: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    """The same with spans that are kept in memory."""
    from benchmarks.traced import trace

    trace("memory")
    return main


def agents(count: int) -> Callable[[], Awaitable[object]]:
    """So many agents are made."""

    async def main() -> None:
        for _ in range(count):
            engine.agent(models.turns(0))

    return main


def runs(count: int, *, begin: bool) -> Callable[[], Awaitable[object]]:
    """So many runs of one chunk: what comes before the model is asked, or what comes after the chunk."""

    async def main() -> None:
        note = sys.getprofile()

        async def generate() -> AsyncIterator[ChatResponse]:
            sys.setprofile(None)
            yield ChatResponse((TextBlock("done"),))
            sys.setprofile(None if begin else note)

        for _ in range(count):
            sys.setprofile(None)
            agent = engine.agent(generate)
            if begin:
                sys.setprofile(note)
            await agent.call("go")

    return main


CASES: dict[str, Callable[[int], Callable[[], Awaitable[object]]]] = {
    "turns": lambda count: _turns("engine", count),
    "chunks": lambda count: _chunks("engine", count, pulled=False),
    "pulled": lambda count: _chunks("engine", count, pulled=True),
    "guarded": lambda count: guarded_chunks(count, secrets=False),
    "secrets": lambda count: guarded_chunks(count, secrets=True),
    "started": lambda count: _started("engine", count, subscribers=1),
    "shared": lambda count: _started("engine", count, subscribers=3),
    "traced_turns": lambda count: traced(_turns("engine", count)),
    "traced_chunks": lambda count: traced(_chunks("engine", count, pulled=False)),
    "tools": lambda count: _tools("engine", count),
    "agents": agents,
    "begin": lambda count: runs(count, begin=True),
    "end": lambda count: runs(count, begin=False),
    "limited_tools": lambda count: _tools("engine", count, limited=True),
}


def counted(case: str, count: int) -> Counter[Name]:
    """The calls of one run, by file and function."""
    main = CASES[case](count)
    calls: Counter[Name] = Counter()

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            calls[_file(frame.f_code.co_filename), frame.f_code.co_qualname] += 1
        elif event == "c_call":
            calls["C", getattr(arg, "__qualname__", repr(arg))] += 1

    async def watched() -> None:
        sys.setprofile(note)
        try:
            await main()
        finally:
            sys.setprofile(None)

    asyncio.run(watched())
    return calls


def _file(path: str) -> str:
    for root in ("/agentscope_rx/", "/benchmarks/", "/site-packages/"):
        if root in path:
            return root.strip("/").replace("agentscope_rx", "") + path.rpartition(root)[2]
    return "/".join(path.split("/")[-2:])


def per_unit(case: str) -> dict[Name, float]:
    """Calls per turn or chunk; what happens now and then only is left out."""
    counted(case, 2)
    short, long = counted(case, SHORT), counted(case, LONG)
    each = {name: (long[name] - short[name]) / (LONG - SHORT) for name in long}
    return {name: calls for name, calls in each.items() if calls >= 0.2}


def tracked() -> Counter[str]:
    """The objects that the garbage collector tracks, by class."""
    gc.collect()
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


async def objects(count: int) -> tuple[dict[str, float], float]:
    """What each of so many agents holds while it waits for its model: objects by class, and bytes."""
    await engine.agent(models.slow(0.0)).call("go")
    before = tracked()
    tracemalloc.start()
    tasks = [engine.agent(models.slow(60.0)).call("go").as_task() for _ in range(count)]
    for _ in range(10):
        await asyncio.sleep(0)
    held = tracked() - before
    each = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {name: number / count for name, number in held.items() if number >= count / 2}, each


def main() -> None:
    """Count and print."""
    case = sys.argv[1] if len(sys.argv) > 1 else "turns"
    if case == "objects":
        held, size = asyncio.run(objects(LONG))
        print(f"{sum(held.values()):.0f} tracked objects each, {size:,.0f} bytes")
        for name, number in sorted(held.items(), key=lambda row: -row[1]):
            print(f"{number:8.1f}  {name}")
        return
    each = per_unit(case)
    by_file: Counter[str] = Counter()
    for (file, _), calls in each.items():
        by_file[file] += calls  # type: ignore[assignment]
    in_c = by_file.pop("C", 0)
    print(f"{case}: {sum(by_file.values()):.1f} Python calls each, {in_c:.1f} C calls")
    rows = each.items() if "--functions" in sys.argv else by_file.items()
    for name, calls in sorted(rows, key=lambda row: -row[1]):
        print(f"{calls:8.1f}  {name if isinstance(name, str) else ' '.join(name)}")


if __name__ == "__main__":
    main()
