"""A hook may be an operator over the chunks of one stage: sample them, sum them up, put them into words.

Look at: `calmer`, `status` and `at_once`, which are plain `Observable -> Observable` functions. Such an operator is
completed before the stage's Post event, so what it holds back is flushed in time, and it changes what is shown only:
the reply stays what the model said.

    python examples/operators_in_hooks.py    in virtual time: the delays are exact, and cost nothing
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/operators_in_hooks.py
"""

from __future__ import annotations

import asyncio
import os
from functools import reduce

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, TextBlock
from agentscope_rx.events import PostCallEvent, ReasoningChunkEvent
from agentscope_rx.hooks import hook_operator
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
WORDS = (
    "Rome ",
    "was ",
    "not ",
    "built ",
    "in ",
    "a ",
    "day, ",
    "but ",
    "bricks ",
    "were ",
    "laid ",
    "every ",
    "hour.",
)
SCRIPT = [step for word in WORDS for step in (word, Delay(0.2))]

Chunks = Observable[ReasoningChunkEvent]


def joined(one: ReasoningChunkEvent, two: ReasoningChunkEvent) -> ReasoningChunkEvent:
    """Two chunks as one."""
    return two.replace(delta=TextBlock(one.text + two.text))


def merged(chunks: list[ReasoningChunkEvent]) -> ReasoningChunkEvent:
    """Several chunks as one."""
    return reduce(joined, chunks)


def calmer(chunks: Chunks) -> Chunks:
    """One chunk each second, with all the words of that second: easier on a slow screen."""
    return chunks.pipe(ops.buffer_with_time(1.0), ops.filter(bool), ops.map(merged))


def status(chunks: Chunks) -> Chunks:
    """A status line twice a second: `scan` sums up, `sample` takes the latest."""

    def line(so_far: ReasoningChunkEvent) -> ReasoningChunkEvent:
        return so_far.replace(delta=TextBlock(f"[{len(so_far.text)} characters]"))

    return chunks.pipe(ops.scan(joined), ops.sample(0.5), ops.map(line))


def at_once(chunks: Chunks) -> Chunks:
    """Nothing until the end: then the whole text, loud, flushed by the completion of the stage."""

    def loud(chunk: ReasoningChunkEvent) -> ReasoningChunkEvent:
        return chunk.replace(delta=TextBlock(chunk.text.upper()))

    return chunks.pipe(ops.reduce(joined), ops.map(loud))


async def show(title: str, *hooks: Hook) -> None:
    """One run with these hooks: each chunk with its time, and the reply."""
    print(f"{title}:")
    agent = ReActAgent("Friday", MODEL or ScriptedModel(SCRIPT), hooks=hooks)
    loop = asyncio.get_running_loop()
    start = loop.time()
    async for event in agent.stream("Tell me about Rome."):
        if isinstance(event, ReasoningChunkEvent):
            print(f"  {loop.time() - start:4.1f} s  {event.text!r}")
        elif isinstance(event, PostCallEvent):
            print(f"  {loop.time() - start:4.1f} s  reply of {len(event.message.text.split())} words")


async def main() -> None:
    """The same words, shown in three ways."""
    await show("calmer", hook_operator(ReasoningChunkEvent, calmer))
    await show("a status line", hook_operator(ReasoningChunkEvent, status))
    await show("all at once", hook_operator(ReasoningChunkEvent, at_once))


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
