"""The bare loop as a side: the functions of `benchmarks/bare.py`, and httpx and json for the model over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
from reactivex.subject import Subject

from benchmarks import bare
from benchmarks.compare.side import GO, Side
from benchmarks.script import Script


class BareSide(Side):
    """The yardstick: no events, hooks, deadlines, retries, cancellation or repair."""

    def __init__(self) -> None:
        self._clients: list[httpx.AsyncClient] = []

    def scripted(self, script: Script) -> object:
        return bare.scripted(script)

    def remote(self, url: str, name: str) -> object:
        self._clients.append(httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None)))  # noqa: S113
        return over_http(self._clients[-1], url, name)

    async def close(self) -> None:
        while self._clients:
            await self._clients.pop().aclose()

    def agent(self, model: object, tool: str = "step") -> object:
        return model

    async def call(self, agent: bare.Generate) -> None:  # type: ignore[override]
        await bare.run(agent, len)

    async def pull(self, agent: bare.Generate) -> AsyncIterator[str]:  # type: ignore[override]
        messages: list[bare.Message] = [{"role": "user", "content": GO}]
        text: list[str] = []
        async for chunk in agent(messages):
            for block in chunk.content:
                if isinstance(block, bare.Text):
                    text.append(block.text)
                    yield block.text
        messages.append({"role": "assistant", "content": "".join(text)})

    async def subscribe(self, agent: bare.Generate) -> int:  # type: ignore[override]
        seen: list[str] = []
        await bare.run(agent, seen.append)
        return len(seen)

    async def readers(self, agent: bare.Generate, count: int) -> int:  # type: ignore[override]
        queues: list[asyncio.Queue[str | None]] = [asyncio.Queue() for _ in range(count)]

        def put(text: str | None) -> None:
            for queue in queues:
                queue.put_nowait(text)

        async def read(queue: asyncio.Queue[str | None]) -> int:
            seen = 0
            while await queue.get() is not None:
                seen += 1
            return seen

        async def write() -> None:
            await bare.run(agent, put)
            put(None)

        _, *seen = await asyncio.gather(write(), *(read(queue) for queue in queues))
        return sum(seen)

    async def subscribers(self, agent: bare.Generate, count: int) -> int:  # type: ignore[override]
        subject: Subject[str] = Subject()
        seen: list[list[str]] = [[] for _ in range(count)]
        for each in seen:
            subject.subscribe(each.append)
        await bare.run(agent, subject.on_next)
        return sum(map(len, seen))


def over_http(client: httpx.AsyncClient, url: str, name: str) -> bare.Generate:
    """A model made of httpx and `json`, that sends the whole conversation and reads lines."""
    tools = [{"type": "function", "function": {"name": "step", "parameters": bare.StepArguments.model_json_schema()}}]

    async def generate(messages: list[bare.Message]) -> AsyncIterator[bare.Chunk]:
        body = {"model": name, "messages": messages, "tools": tools, "stream": True}
        async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            response.raise_for_status()
            async for line in response.aiter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                choice = json.loads(line[6:])["choices"][0]
                delta = choice["delta"]
                if text := delta.get("content"):
                    yield bare.Chunk((bare.Text(text),))
                if calls := delta.get("tool_calls"):
                    yield bare.Chunk(tuple([_call(call) for call in calls]))

    return generate


def _call(call: dict[str, object]) -> bare.Call:
    function: dict[str, str] = call["function"]  # type: ignore[assignment]
    return bare.Call(call["index"], call["id"], function["name"], function["arguments"])  # type: ignore[arg-type]


SIDE = BareSide()
