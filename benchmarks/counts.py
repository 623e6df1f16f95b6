"""What a turn and an agent of the engine consist of: `python -m benchmarks.counts`. Counts are the same everywhere."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Generator
from typing import Any

from benchmarks import calls, engine, models
from benchmarks.script import Gate, Script

SHORT, LONG = 20, 120


def calls_each(case: str) -> float:
    """Python calls per turn or chunk; calls into C are not counted, nor what happens now and then only."""
    return sum(count for (file, _), count in calls.per_unit(case).items() if file != "C")


def tasks_a_turn() -> float:
    """Asyncio tasks that a turn begins: the difference of a long run and a short one."""
    return (_tasks(LONG) - _tasks(SHORT)) / (LONG - SHORT)


def _tasks(count: int) -> int:
    begun = 0

    def factory(
        loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, Any] | Generator[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        nonlocal begun
        begun += 1
        return asyncio.Task(main, loop=loop, **options)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        await engine.agent(models.turns(count), count + 1).call("go")

    asyncio.run(main())
    return begun


def objects_an_agent(count: int = 200) -> float:
    """Objects that the collector tracks for an agent whose model is answering; with those of its run."""
    held: list[int] = []

    def note() -> None:
        gc.collect()
        held.append(len(gc.get_objects()))

    async def main(count: int) -> None:
        gate = Gate(count, note)
        agents = [engine.agent(models.scripted(Script(gate=gate))) for _ in range(count)]
        await asyncio.gather(*(agent.call("go").as_task() for agent in agents))

    asyncio.run(main(2))
    gc.collect()
    before = len(gc.get_objects())
    asyncio.run(main(count))
    return (held[-1] - before) / count


def all_counts() -> dict[str, float]:
    """All of them, by name."""
    return {
        "calls_a_turn": round(calls_each("turns"), 1),
        "calls_a_chunk": round(calls_each("chunks"), 1),
        "tasks_a_turn": round(tasks_a_turn(), 1),
        "objects_an_agent": round(objects_an_agent()),
    }


if __name__ == "__main__":
    for name, count in all_counts().items():
        print(f"{name.replace('_', ' '):20}{count:8,.1f}")
