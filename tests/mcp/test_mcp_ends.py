"""Ends that come at once: closed while it connects, cut off before the first step."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from agentscope_rx.errors import McpClosedError, McpConnectionError, McpError
from agentscope_rx.reactive import from_callable, on_library_loop
from agentscope_rx.tools.mcp import McpClient, McpStdio
from agentscope_rx.tools.mcp.call import OpenCall
from agentscope_rx.tools.mcp.session import McpSession

SILENT = McpStdio("sleep", ["600"])


class Nowhere:
    """A session whose answers never come."""

    def __init__(self) -> None:
        self.calls: set[OpenCall] = set()

    async def ask(self, request: Any) -> Any:
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("fails", [True, False])
def test_a_call_that_is_ended_before_its_first_step(fails: bool) -> None:
    """The connection may be lost in the very turn in which the call is begun."""
    session = Nowhere()

    async def ends() -> Exception | None:
        call = OpenCall(cast("McpSession", session), "demo", 600.0, "run")
        call.begin("slow", {})
        async with asyncio.timeout(10):
            await (call.fail(McpConnectionError("lost", server="demo")) if fails else call.cancel())
            with pytest.raises(McpError) as raised:
                await call.next()
        return raised.value

    error = on_library_loop(from_callable(ends)).run()
    assert isinstance(error, McpConnectionError) == fails
    assert not session.calls


def test_closed_while_it_connects() -> None:
    """Closing does not wait for a server that does not answer, nor for the attempts that are left."""
    client = McpClient(SILENT, name="silent")

    async def main() -> list[object]:
        tools = asyncio.create_task(_ask(client))
        waits = asyncio.create_task(_ask(client))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        await client.close()
        assert time.monotonic() - began < 30
        return [await tools, await waits]

    assert asyncio.run(main()) == [McpClosedError] * 2
    assert not client._connections.sessions


async def _ask(client: McpClient) -> object:
    try:
        await client.tools()
    except McpError as error:
        return type(error)
    return None


def test_closed_in_the_turn_in_which_it_begins_to_connect() -> None:
    client = McpClient(SILENT, name="silent")

    async def main() -> object:
        tools = asyncio.ensure_future(asked())
        while not client._connections.sessions:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await client._close()
        return await tools

    async def asked() -> object:
        try:
            await client._session()
        except McpError as error:
            return type(error)
        return None

    assert on_library_loop(from_callable(main)).run() is McpClosedError
