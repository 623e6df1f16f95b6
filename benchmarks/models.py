"""The models of both sides: async generators of chunks that cost as little as can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatResponse, ToolUseDelta


def turns(count: int) -> Callable[[], AsyncIterator[ChatResponse]]:
    """Calls the tool so many times, then answers."""
    left = count

    async def generate() -> AsyncIterator[ChatResponse]:
        nonlocal left
        if left:
            left -= 1
            yield ChatResponse((ToolUseDelta(0, f"c{left}", "step", '{"n": 1}'),))
        else:
            yield ChatResponse((TextBlock("done"),))

    return generate


def batch(count: int, name: str) -> Callable[[], AsyncIterator[ChatResponse]]:
    """Calls the tool so many times at once, then answers."""
    asked = False

    async def generate() -> AsyncIterator[ChatResponse]:
        nonlocal asked
        if asked:
            yield ChatResponse((TextBlock("done"),))
        else:
            asked = True
            yield ChatResponse(tuple(ToolUseDelta(n, f"c{n}", name, '{"n": 1}') for n in range(count)))

    return generate


def chunks(count: int) -> Callable[[], AsyncIterator[ChatResponse]]:
    """Answers in so many pieces."""

    async def generate() -> AsyncIterator[ChatResponse]:
        for _ in range(count):
            yield ChatResponse((TextBlock("word "),))

    return generate


def sentences(count: int) -> Callable[[], AsyncIterator[ChatResponse]]:
    """Answers in so many pieces, of which each tenth ends a sentence."""

    async def generate() -> AsyncIterator[ChatResponse]:
        for number in range(count):
            yield ChatResponse((TextBlock("word. " if number % 10 == 9 else "word "),))

    return generate


def slow(seconds: float) -> Callable[[], AsyncIterator[ChatResponse]]:
    """Thinks for a while, then answers."""

    async def generate() -> AsyncIterator[ChatResponse]:
        await asyncio.sleep(seconds)
        yield ChatResponse((TextBlock("done"),))

    return generate
