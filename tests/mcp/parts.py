"""What the tests of this folder share: the demo server, near and far."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentscope_rx import Toolkit
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.tools import ToolChunk, ToolEvent
from agentscope_rx.tools.mcp import McpClient, McpInMemory, McpStdio
from tests.support import mcp_server

FILE = str(Path(mcp_server.__file__))
STDIO = McpStdio(sys.executable, [FILE], env={"PYTHONPATH": str(Path(FILE).parents[2])})


@contextmanager
def near(tools: mcp_server.Tools | None = None, toolkit: Toolkit | None = None, **options: Any) -> Iterator[Toolkit]:
    """A toolkit with the demo server's tools, from this process; `options` are the client's."""
    client = McpClient(McpInMemory(mcp_server.make(tools)), name="demo", **options)
    toolkit = Toolkit() if toolkit is None else toolkit
    try:
        toolkit.register_mcp(client).run()
        yield toolkit
    finally:
        client.close().run()


@contextmanager
def far(**options: Any) -> Iterator[Toolkit]:
    """A toolkit with the demo server's tools, from a process of its own."""
    client = McpClient(STDIO, name="demo", **options)
    toolkit = Toolkit()
    try:
        toolkit.register_mcp(client).run()
        yield toolkit
    finally:
        client.close().run()


@contextmanager
def http_process(port: int = 0, transport: str = "http") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The demo server by HTTP in a process of its own, and its URL."""
    process = subprocess.Popen(
        [sys.executable, FILE, transport, str(port)], stdout=subprocess.PIPE, text=True, cwd=Path(FILE).parents[2]
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http")
        yield process, url
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def use(name: str, id: str = "1", /, **input: object) -> ToolUseBlock:
    """A model's call."""
    return ToolUseBlock(id, name, input)


def call(toolkit: Toolkit, name: str, id: str = "1", /, **input: object) -> ToolResultBlock:
    """The result of a call."""
    result = toolkit.call(use(name, id, **input)).run()
    assert isinstance(result, ToolResultBlock)
    return result


async def begun(events: Any) -> None:
    """Read until the server says that the call has begun."""
    chunk: ToolEvent = await anext(events)
    assert isinstance(chunk, ToolChunk)
