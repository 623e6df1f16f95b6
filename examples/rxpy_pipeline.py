"""Runs as Observables: three agents merged, then sampled, buffered and grouped by operators of RxPY.

Look at: nothing in `views` knows that agents are behind the stream. An event names its agent, the operators are those
of `reactivex`, and to leave the pipeline (`take_until`) stops the runs that are not done.

    python examples/rxpy_pipeline.py                     in virtual time: the seconds that are printed take none
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/rxpy_pipeline.py
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import reactivex as rx
from reactivex import GroupedObservable, Observable
from reactivex import operators as ops

from agentscope_rx import ReActAgent
from agentscope_rx.events import ReasoningChunkEvent
from agentscope_rx.reactive import Flow, flow
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
PACE = {"Ann": 0.2, "Bob": 0.5, "Eve": 1.1}
TEXT = "a bench, a fountain, and three old lime trees in the middle of the square"


def agent(name: str) -> ReActAgent:
    """An agent that writes at its own speed."""
    steps = [step for word in TEXT.split() for step in (Delay(PACE[name]), f"{word} ")]
    return ReActAgent(name, MODEL or ScriptedModel(steps, repeat=True), f"You are {name}. Answer in twenty words.")


def merged() -> Flow[ReasoningChunkEvent]:
    """The chunks of three runs as they come: one stream, three agents, not begun yet."""
    runs = [agent(name).stream("What should be on the new square?").of_type(ReasoningChunkEvent) for name in PACE]
    return flow(rx.merge(*runs))


def per_second(chunks: Observable[ReasoningChunkEvent]) -> Observable[str]:
    """`buffer_with_time`: how many chunks each agent has written in two seconds."""
    counts = chunks.pipe(ops.map(agent_of), ops.buffer_with_time(2.0), ops.map(Counter[str]))
    return counts.pipe(ops.filter(bool), ops.map(lambda count: ", ".join(f"{name} {count[name]}" for name in PACE)))


def latest_words(chunks: Observable[ReasoningChunkEvent]) -> Observable[str]:
    """`group_by` an agent, then `scan` and `sample` each group: a status line for each, every three seconds."""

    def line(group: GroupedObservable[str, str]) -> Observable[str]:
        text = group.pipe(ops.scan(lambda text, more: text + more), ops.sample(3.0))
        return text.pipe(ops.map(lambda text: f"{group.key}: ...{text[-24:]}"))

    return chunks.pipe(ops.group_by(agent_of, lambda chunk: chunk.text), ops.flat_map(line))


def agent_of(chunk: ReasoningChunkEvent) -> str:
    return chunk.agent


def first_of_each_second(chunks: Observable[ReasoningChunkEvent]) -> Observable[str]:
    """`throttle_first`: at most one chunk a second; `take_until` leaves after four, which stops all three runs."""
    shown = chunks.pipe(ops.throttle_first(1.0), ops.map(lambda chunk: f"{chunk.agent} writes {chunk.text!r}"))
    return shown.pipe(ops.take_until(rx.timer(4.0)))


async def main() -> None:
    loop = asyncio.get_running_loop()
    for view in (per_second, latest_words, first_of_each_second):
        print(f"{view.__name__}:")
        begun = loop.time()
        async for line in merged().pipe(view):
            print(f"  {loop.time() - begun:4.1f} s  {line}")


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
