"""The bare loop: what the work itself costs without an engine around it. It is the yardstick of all measurements.

It takes an async generator of chunks, joins the text, parses and validates the tool's arguments with pydantic, awaits
the tool (several at once), and keeps the messages as Chat Completions takes them. No events, hooks, deadlines, retries,
cancellation or repair.

Its values are its own, not the engine's: otherwise the yardstick would become shorter whenever the engine's values
become cheaper, and would show less of what they cost. They are plain slotted dataclasses, one for the chunk and one for
each of its parts, as the engine makes them: the same number of objects, in their simplest form. A vendor's SDK makes
costlier ones.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pydantic import BaseModel

from benchmarks.script import Script


@dataclass(slots=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(slots=True)
class Call:
    """A piece of a tool call."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Chunk:
    """What a model sends at once."""

    content: tuple[Text | Call, ...]
    finish_reason: str | None = None
    usage: object = None
    id: str | None = None


Message = dict[str, object]
Generate = Callable[[list[Message]], AsyncIterator[Chunk]]


class StepArguments(BaseModel):
    """The arguments of the tool."""

    n: int = 0


async def step(n: int = 0) -> str:
    """The tool."""
    return "ok"


async def nap(n: int = 0) -> str:
    """Takes 50 ms."""
    await asyncio.sleep(0.05)
    return "ok"


TOOLS = {"step": step, "nap": nap}


def scripted(script: Script) -> Generate:
    """A model made of an async generator function."""

    async def generate(messages: list[Message]) -> AsyncIterator[Chunk]:
        texts, calls = await script.answer()
        for text in texts:
            if script.breathes:
                await asyncio.sleep(0)
            yield Chunk((Text(text),))
        if calls:
            yield Chunk(tuple([Call(n, *call) for n, call in enumerate(calls)]))

    return generate


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
    messages: list[Message] = [{"role": "user", "content": "go"}]
    while True:
        text: list[str] = []
        calls: dict[int, list[Call]] = {}
        async for chunk in generate(messages):
            for block in chunk.content:
                if isinstance(block, Text):
                    text.append(block.text)
                    on_chunk(block.text)
                else:
                    calls.setdefault(block.index, []).append(block)
        if not calls:
            messages.append({"role": "assistant", "content": "".join(text)})
            return "".join(text)
        whole = [
            (pieces[0].id, pieces[0].name, "".join([each.arguments for each in pieces])) for pieces in calls.values()
        ]
        messages.append({"role": "assistant", "content": "".join(text), "tool_calls": [_wire(*call) for call in whole]})
        if len(whole) == 1:
            results = [await _called(*whole[0])]
        else:
            results = await asyncio.gather(*(_called(*call) for call in whole))
        messages.extend(results)


def _wire(id: str, name: str, arguments: str) -> Message:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def _called(id: str, name: str, raw: str) -> Message:
    arguments = StepArguments.model_validate(json.loads(raw))
    return {"role": "tool", "tool_call_id": id, "content": await TOOLS[name](**arguments.model_dump())}
