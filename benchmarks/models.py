"""The engine's model in process: an async generator that makes the engine's values, and does nothing else.

It does for the engine what `bare.scripted` does for the bare loop, with one value for the chunk and one for each part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatResponse, ToolUseDelta
from benchmarks.script import Script

Generate = Callable[[], AsyncIterator[ChatResponse]]


def scripted(script: Script) -> Generate:
    """Answers by the script."""

    async def generate() -> AsyncIterator[ChatResponse]:
        texts, calls = await script.answer()
        for text in texts:
            if script.breathes:
                await asyncio.sleep(0)
            yield ChatResponse((TextBlock(text),))
        if calls:
            yield ChatResponse(tuple([ToolUseDelta(n, *call) for n, call in enumerate(calls)]))

    return generate


def turns(count: int) -> Generate:
    """Calls the tool so many times, then answers."""
    return scripted(Script(count))


def batch(count: int, name: str) -> Generate:
    """Calls the tool so many times at once, then answers."""
    return scripted(Script(1, at_once=count, tool=name))


def chunks(count: int) -> Generate:
    """Answers in so many pieces."""
    return scripted(Script(pieces=count))


def slow(seconds: float) -> Generate:
    """Thinks for a while, then answers."""
    return scripted(Script(seconds=seconds))


def sentences(count: int) -> Generate:
    """Answers in so many pieces, of which each tenth ends a sentence."""

    async def generate() -> AsyncIterator[ChatResponse]:
        for number in range(count):
            yield ChatResponse((TextBlock("word. " if number % 10 == 9 else "word "),))

    return generate
