"""An endpoint on loopback, and OpenAI's own client of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from openai import OpenAI
from starlette.applications import Starlette

from agentscope_rx import Agent
from agentscope_rx.service import AgentHost, openai_routes
from tests.service.serving import Served, served

TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "pick",
        "description": "Let the user pick a room.",
        "parameters": {"type": "object", "properties": {"floor": {"type": "integer"}}, "required": ["floor"]},
    },
}
FLAT: dict[str, Any] = {"type": "function", **TOOL["function"]}


def app_of(host: AgentHost, **options: Any) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with host:
            yield

    return Starlette(routes=openai_routes(host, **options), lifespan=lifespan)


@contextmanager
def serving(host: AgentHost, **options: Any) -> Iterator[Served]:
    with served(app_of(host, **options)) as server:
        yield server


@contextmanager
def asking(agent: Agent | AgentHost, **options: Any) -> Iterator[OpenAI]:
    """OpenAI's client of an endpoint with this agent; no run is left at the end."""
    host = agent if isinstance(agent, AgentHost) else AgentHost(agent)
    with (
        serving(host, **options) as server,
        OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client
        assert host.runs.statistics().live == 0
    assert server.errors == []


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}
