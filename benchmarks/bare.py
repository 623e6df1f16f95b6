"""The bare loop: what the work itself costs without an engine around it.

It drives the same async generator of chunks as the engine does, joins the text, parses and validates the tool's
arguments with pydantic, awaits the tool, appends the messages. No events, hooks, deadlines, retries, cancellation or
repair.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel

from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatResponse, ToolUseDelta

Generate = Callable[[], AsyncIterator[ChatResponse]]


class StepArguments(BaseModel):
    """The arguments of the tool."""

    n: int = 0


async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


async def tools(count: int) -> None:
    """So many validated calls of the tool, one after the other."""
    for _ in range(count):
        arguments = StepArguments.model_validate({"n": 1})
        await step(**arguments.model_dump())


async def slow_tools(count: int, *, blocking: bool) -> None:
    """So many calls of 50 ms at once."""
    if not blocking:
        await asyncio.gather(*(asyncio.sleep(0.05) for _ in range(count)))
        return
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(count) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, time.sleep, 0.05) for _ in range(count)))


async def run(generate: Generate, on_chunk: Callable[[str], object]) -> str:
    """Turns until the model answers without a call."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    while True:
        text: list[str] = []
        calls: dict[int, list[str]] = {}
        async for chunk in generate():
            for block in chunk.content:
                if isinstance(block, TextBlock):
                    text.append(block.text)
                    on_chunk(block.text)
                elif isinstance(block, ToolUseDelta):
                    calls.setdefault(block.index, []).append(block.arguments)
        raws = ["".join(pieces) for pieces in calls.values()]
        messages.append({"role": "assistant", "content": "".join(text), "calls": raws})
        if not raws:
            return "".join(text)
        for raw in raws:
            arguments = StepArguments.model_validate(json.loads(raw))
            messages.append({"role": "tool", "content": await step(**arguments.model_dump())})
