"""Servers of the older HTTP+SSE transport: the SDK's own, in processes of their own."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from agentscope_rx.cli.tools import add_servers
from agentscope_rx.errors import ConfigurationError, McpConnectionError, McpLimitError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind
from agentscope_rx.tools import Toolkit
from agentscope_rx.tools.mcp import McpClient, McpSse
from tests.mcp.parts import begun, call, http_process, use
from tests.service.serving import served


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_calls_cancellation_and_a_lost_server(mode: str) -> None:
    with http_process(transport="sse") as (process, url):
        client = McpClient(McpSse(url), mode=mode)
        assert client.name == url.removeprefix("http://").removesuffix("/sse")
        toolkit = Toolkit()
        toolkit.register_mcp(client).run()

        async def use_it() -> None:
            async with toolkit.call(use("slow")) as events:
                await begun(events)
                add = await toolkit.call(use("add", "2", a=1, b=2))
                assert isinstance(add, ToolResultBlock) and add.text == "3"
            seen = await toolkit.call(use("was_cancelled"))
            assert isinstance(seen, ToolResultBlock) and seen.text == "yes"

        asyncio.run(use_it())
        port = int(url.split(":")[2].split("/")[0])

        async def killed() -> ToolResultBlock:
            async with toolkit.call(use("slow")) as events:
                await begun(events)
                process.send_signal(signal.SIGKILL)
                result = await anext(events)
                assert isinstance(result, ToolResultBlock)
                return result

        result = asyncio.run(killed())
        assert result.kind is ToolResultKind.FAILED and "ended during the call" in result.text
        process.wait()
        with http_process(port, transport="sse"):
            assert call(toolkit, "add", a=1, b=2).text == "3"
            client.close().run()


def test_a_server_of_the_command_line() -> None:
    with http_process(transport="sse") as (_, url):
        toolkit = Toolkit()
        add_servers(toolkit, [url])
        assert "add" in toolkit
        toolkit.close().run()


def test_a_wrong_address() -> None:
    with pytest.raises(ConfigurationError, match=r"https://example\.com/sse"):
        McpSse("example.com/sse")
    assert "12345" not in repr(McpSse("https://example.com", {"authorization": "12345"}))


ENDPOINT = b"event: endpoint\ndata: /messages\n\n"


def _application(first: bytes, status: int) -> Starlette:
    async def events(request: Request) -> Response:
        async def body() -> Any:
            yield first
            # until the client leaves
            await asyncio.Event().wait()

        return StreamingResponse(body(), media_type="text/event-stream")

    async def message(request: Request) -> Response:
        return Response(status_code=status)

    return Starlette(routes=[Route("/sse", events), Route("/messages", message, methods=["POST"])])


def test_a_server_that_refuses_messages_ends_the_connection() -> None:
    with served(_application(ENDPOINT, 404)) as server:
        client = McpClient(McpSse(f"{server.url}/sse"), connect_timeout=20, reconnect=None)
        with pytest.raises(McpConnectionError, match="status 404"):
            Toolkit().register_mcp(client).run()


def test_an_event_that_is_too_large_ends_the_connection() -> None:
    with served(_application(ENDPOINT + b"event: message\ndata: " + b"x" * 20_000, 202)) as server:
        server_at = McpSse(f"{server.url}/sse", max_message_bytes=10_000)
        client = McpClient(server_at, connect_timeout=20, reconnect=None)
        with pytest.raises(McpLimitError, match="max_message_bytes"):
            Toolkit().register_mcp(client).run()
