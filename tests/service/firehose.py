"""A Chat Completions server whose model never stops talking: it writes as fast as its client reads, and counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.support.openai_server import HEAD, chunk

WORD = "x" * 2000


class Firehose:
    """`written` chunks so far; `blocked` while the client does not read; `left` once it has gone."""

    def __init__(self) -> None:
        self.written = 0
        self.blocked = False
        self.left = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._main(),), name="firehose")

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def _main(self) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self._port: int = listening.getsockname()[1]
        server = await asyncio.start_server(self._serve, sock=listening)
        self._ready.set()
        await self._stop.wait()
        server.close()
        await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=4096)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD.format(status="200 OK", kind="text/event-stream").encode())
        line = f"data: {chunk(content=WORD)}\n\n".encode()
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(line)
                self.written += 1
                self.blocked = writer.transport.get_write_buffer_size() > 4096
                await writer.drain()
                self.blocked = False
                # drain alone does not let others run
                await asyncio.sleep(0)
        self.left.set()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


@contextlib.contextmanager
def firehose() -> Iterator[Firehose]:
    """A server for the length of a block."""
    server = Firehose()
    server._thread.start()
    server._ready.wait()
    try:
        yield server
    finally:
        server.stop()
