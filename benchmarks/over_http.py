"""One streamed answer over HTTP: what httpx and json cost, what the engine's model costs, what the vendor's SDK costs.

Each gives a function that reads one answer to its end and returns the number of characters; the first call of it opens
the connection, and the others find it open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Read = Callable[[], Awaitable[int]]


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Read]:
    """httpx's lines and `json.loads`: no events, errors, deadlines, or checks of any kind."""
    import httpx

    async with httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None)) as client:  # noqa: S113

        async def read() -> int:
            length = 0
            async with client.stream("POST", f"{url}/chat/completions", json={"messages": []}) as response:
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        length += len(json.loads(line[6:])["choices"][0]["delta"].get("content") or "")
            return length

        yield read


@asynccontextmanager
async def engine(url: str) -> AsyncIterator[Read]:
    """`OpenAIChatModel`, subscribed to."""
    from agentscope_rx import Msg
    from agentscope_rx.messages import TextBlock
    from agentscope_rx.models import ChatResponse, OpenAIChatModel

    model = OpenAIChatModel("m", base_url=url, api_key="x")

    async def read() -> int:
        length = 0

        def take(chunk: ChatResponse) -> None:
            nonlocal length
            for block in chunk.content:
                if isinstance(block, TextBlock):
                    length += len(block.text)

        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        model.stream([Msg.user("hi")]).subscribe(take, done.set_exception, lambda: done.set_result(None))
        await done
        return length

    yield read


@asynccontextmanager
async def openai(url: str) -> AsyncIterator[Read]:
    """The vendor's own client, `AsyncOpenAI`."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="x") as client:

        async def read() -> int:
            length = 0
            async for chunk in await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "hi"}], stream=True
            ):
                length += len((chunk.choices[0].delta.content if chunk.choices else None) or "")
            return length

        yield read


WHO = {"bare": bare, "engine": engine, "openai": openai}
