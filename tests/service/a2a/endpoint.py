"""An endpoint on loopback, and the SDK's own client of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, StreamResponse
from starlette.applications import Starlette
from starlette.routing import Route

from agentscope_rx import Agent
from agentscope_rx.service import AgentHost, a2a_routes
from tests.service.serving import PATIENCE, Served, served

T = TypeVar("T")


@contextmanager
def serving(agent: Agent | AgentHost, **options: Any) -> Generator[tuple[Served, AgentHost]]:
    """An endpoint; no run is left at the end."""
    host = agent if isinstance(agent, AgentHost) else AgentHost(agent)
    routes: list[Route] = []

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with host:
            yield

    app = Starlette(routes=routes, lifespan=lifespan)
    with served(app) as server:
        app.router.routes.extend(a2a_routes(host, url=server.url, **options))
        yield server, host
        assert server.on_loop(lambda: host.runs.statistics().live) == 0
    assert server.errors == []


def asked(server: Served, talk: Callable[[Client], Awaitable[T]], binding: str = "JSONRPC", path: str = "") -> T:
    """The result of a talk with the SDK's client."""

    async def main() -> T:
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as http:
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
            client = await ClientFactory(config).create_from_url(server.url + path)
            return await talk(client)

    return asyncio.run(main())


def says(text: str = "hi", *parts: Part, task: str = "", context: str = "") -> SendMessageRequest:
    given = [*([Part(text=text)] if text else []), *parts]
    return SendMessageRequest(
        message=Message(message_id="m", role=Role.ROLE_USER, parts=given, task_id=task, context_id=context)
    )


async def everything(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    return [each async for each in client.send_message(request)]
