"""A soak: many agents whose users act at random for a time, after which nothing may be left.

python -m tests.soak --virtual 600          ten minutes of virtual time
python -m tests.soak --real 60              a minute on a real loop, with threads
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from random import Random

from agentscope_rx.agent import Run
from agentscope_rx.errors import AgentBusyError, ModelConnectionError
from agentscope_rx.reactive import WORKERS
from agentscope_rx.testing import DroppedErrors, collect_dropped
from tests.soak.actors import CALLS, SHARED, USERS, Action, Place, live
from tests.soak.world import World

ACTIONS: tuple[Action, ...] = (*CALLS, *SHARED, *USERS)
LEFT = ("a disposed run", "a stream left before its error was read", "an await that was cancelled")
"""Where an error may be dropped: its subscriber left in the very turn."""
EXPECTED = (AgentBusyError, ModelConnectionError)


async def soak(
    seconds: float,
    *,
    agents: int,
    seed: int,
    pace: float = 1.0,
    threads: bool = False,
    actions: Sequence[Action] = ACTIONS,
) -> dict[str, int]:
    """Let `agents` live for these seconds of the loop's clock; how often each end came. Nothing is left after it."""
    before = _runs()
    with collect_dropped() as dropped:
        ended = await _live(seconds, agents, seed, pace, threads, actions)
        _check_dropped(dropped)
        await _left_over(before)
    return ended


def _check_dropped(dropped: DroppedErrors) -> None:
    """A run that fails in the turn of its disposal has no subscriber for its error; no other error may be dropped."""
    for error, where in zip(dropped, dropped.where, strict=True):
        assert isinstance(error, EXPECTED) and where in LEFT, f"dropped in {where}: {error!r}"
    # the traceback of an error holds its run
    dropped.clear()
    dropped.where.clear()


async def _live(
    seconds: float, agents: int, seed: int, pace: float, threads: bool, actions: Sequence[Action]
) -> dict[str, int]:
    loop = asyncio.get_running_loop()
    world = World(agents=agents, seed=seed, pace=pace, threads=threads)
    until = loop.time() + seconds
    async with asyncio.TaskGroup() as group:
        for agent in world.agents:
            group.create_task(live(Place(world, agent, Random(f"{seed} {agent.name}"), []), actions, until))
    await world.aclose()
    return world.ended


async def _left_over(before: int) -> None:
    """Fail if a task, a run or a worker's job is left."""
    # asyncio ends in later turns what a generator has left
    for _ in range(100):
        await asyncio.sleep(0)
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not tasks, f"{len(tasks)} tasks are left, such as {tasks[0]!r}"
    left = _runs() - before
    assert left <= 0, f"{left} runs are left"
    jobs = WORKERS.statistics()
    assert jobs.running == jobs.queued == 0, f"jobs are left: {jobs}"


def _runs() -> int:
    """The number of runs in memory."""
    gc.collect()
    return sum(isinstance(each, Run) for each in gc.get_objects())
