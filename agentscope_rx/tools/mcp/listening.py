"""The places where a server listens: standard input and output of this process, or a port.

stdio     "stdio"                     |     when the input ends
http      "http://127.0.0.1:8000/mcp"       until it is disposed
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server

from agentscope_rx.errors import McpLimitError, SetupError
from agentscope_rx.tools.mcp.limits import Excess, TooMuchError, lines

if TYPE_CHECKING:
    from starlette.applications import Starlette


async def on_stdio(server: Server[Any], max_message_bytes: int) -> AsyncGenerator[str]:
    """Serve on standard input and output. Meanwhile other readers get an empty input, and prints go to stderr.

    A line of more than `max_message_bytes` ends the server with `McpLimitError`.
    """
    excess = Excess(max_message_bytes)
    with _input(excess) as texts:
        # the SDK only iterates over the lines of this file
        async with stdio_server(stdin=cast("anyio.AsyncFile[str]", texts)) as (read, write):
            yield "stdio"
            await server.run(read, write, server.create_initialization_options())
    if excess.what:
        raise McpLimitError(
            f"The client of MCP server {server.name!r} sent {excess.what}.",
            server=server.name,
            option=excess.option,
            limit=excess.limit,
        )


@contextmanager
def _input(excess: Excess) -> Generator[AsyncGenerator[str]]:
    """The lines of standard input, read by a daemon thread, since a blocking read cannot be cancelled.

    They end with the input, or before a line that is too long. The thread reads at most one piece ahead.
    """
    own = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(2)

    def read() -> None:
        piece = b" "
        while piece:
            room.acquire()
            try:
                piece = os.read(own, 65536)
            except OSError:
                piece = b""
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

    async def received() -> AsyncGenerator[bytes]:
        while piece := await pieces.get():
            room.release()
            yield piece

    async def texts() -> AsyncGenerator[str]:
        with suppress(TooMuchError):
            async for line in lines(received(), excess):
                yield line.decode(errors="replace")

    threading.Thread(target=read, name="agentscope-rx-stdin", daemon=True).start()
    try:
        yield texts()
    finally:
        os.dup2(own, 0)


async def on_port(app: Starlette, host: str, port: int, path: str) -> AsyncGenerator[str]:
    """Serve by HTTP; gives the URL once it listens. Port 0 selects a free port."""
    import uvicorn

    listening, ended = anyio.Event(), anyio.Event()

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            listening.set()

    http = Announced(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    # bound here: uvicorn ends the process if binding fails
    bound = _bind(host, port)

    async def serve() -> None:
        try:
            await http.serve([bound])
        finally:
            listening.set()
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        try:
            await listening.wait()
            if not ended.is_set():
                taken: int = bound.getsockname()[1]
                yield f"http://{f'[{host}]' if ':' in host else host}:{taken}{path}"
            await ended.wait()
        finally:
            http.should_exit = True
            with anyio.CancelScope(shield=True):
                await ended.wait()


def _bind(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise SetupError(f"An MCP server cannot listen on {host}:{port}: {error.strerror or error}.") from error
