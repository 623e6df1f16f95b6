"""Random lives of a conversation with jobs: runs that end, are disposed of or interrupted, jobs that are stopped."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from random import Random
from typing import Any

import pytest

from agentscope_rx import BackgroundHook, ReActAgent
from agentscope_rx.events import ActingChunkEvent, BackgroundEvent, Event
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from agentscope_rx.tools.background import BACKGROUND
from tests.agent.background.parts import parts, use
from tests.agent.parts import assert_whole


def friday_of(random: Random) -> ReActAgent:
    turns: list[Any] = []
    for number in range(40):
        calls = [
            use("parts", f"c{number}_{each}", count=random.randint(0, 3), seconds=random.choice([0.3, 1.0, 2.0]))
            for each in range(random.randint(0, 2))
        ]
        turns.append([Delay(random.choice([0.1, 0.5, 1.5])), *(calls or ["x"])])
    hook = BackgroundHook(
        after=random.choice([0, 0.5, 1.3]),
        wait=random.choice(["wait", "leave", "stop"]),
        max_jobs=random.choice([1, 3, 100]),
    )
    model = ScriptedModel(*turns, *(["x"] for _ in range(300)))
    return ReActAgent("Friday", model, tools=[parts], hooks=[hook], max_iters=random.choice([2, 5, 10]))


async def live(friday: ReActAgent, random: Random) -> list[Event]:
    events = list[Event]()
    for number in range(6):
        run = friday.stream(f"go {number}").subscribe(events.append)
        await asyncio.sleep(random.choice([0.2, 0.5, 1.0, 1.3, 2.5, 4.0]))
        what = random.choice(["end", "dispose", "interrupt", "stop"])
        jobs = friday.background().in_progress
        if what == "dispose":
            run.dispose()
        elif what == "interrupt":
            friday.interrupt()
        elif what == "stop" and jobs:
            friday.background().stop(random.choice(jobs).id)
        await friday.idle()
    for _ in range(60):
        await friday.call("last")
        if not friday.background().records:
            break
        await friday.background().wait()
        await asyncio.sleep(1)
    return events


@pytest.mark.parametrize("seed", range(15))
def test_law_each_job_is_told_once_and_nothing_is_shown_twice(seed: int):
    async def main():
        random = Random(seed)
        friday = friday_of(random)
        events = await live(friday, random)
        history = await friday.memory.get()
        ends = [message.metadata[BACKGROUND]["job"] for message in history if BACKGROUND in message.metadata]
        results = [result for message in history for result in message.tool_results]
        handles = [each.metadata[BACKGROUND]["job"] for each in results if BACKGROUND in each.metadata]
        assert len(ends) == len(set(ends)) and set(handles) <= set(ends)
        assert sorted(each.id for each in results) == sorted(use.id for each in history for use in each.tool_calls)
        assert friday.background().records == {} and friday.background().in_progress == ()
        over = [event for event in events if isinstance(event, BackgroundEvent) and event.result is not None]
        assert len({event.job for event in over}) == len(over)
        shown = defaultdict[str, list[str]](list)
        for event in events:
            if isinstance(event, ActingChunkEvent) and event.chunk.text.startswith("part"):
                shown[event.tool_use.id].append(event.chunk.text)
        assert all(texts == sorted(set(texts)) for texts in shown.values())
        assert_whole(friday)

    run_virtual(main())
