"""A real HTTP server on loopback, on a thread of its own, so that any kind of client loop can talk to it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

WAIT_SECONDS = 10.0


@dataclass
class Asked:
    """One request as the server read it."""

    target: str
    headers: dict[str, str]
    body: dict[str, object]


@dataclass
class Reply:
    """What a script answers with; it may write bytes of any kind."""

    asked: Asked
    server: Loopback
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def json(self, status: int, value: object, **headers: str) -> None:
        """A whole JSON answer."""
        self.whole(status, json.dumps(value).encode(), **{"content-type": "application/json", **headers})

    def whole(self, status: int, body: bytes, **headers: str) -> None:
        """A whole answer, with its length."""
        self._head(status, {"content-length": str(len(body)), **headers})
        self.writer.write(body)

    def start(self, **headers: str) -> None:
        """Begin a chunked stream of events."""
        self._head(200, {"transfer-encoding": "chunked", "content-type": "text/event-stream", **headers})

    def send(self, *data: object) -> None:
        """One event each: a str as it is, anything else as JSON."""
        for item in data:
            text = item if isinstance(item, str) else json.dumps(item)
            self.send_bytes(f"data: {text}\n\n".encode())

    def lines(self, *data: object) -> None:
        """One line of JSON each."""
        self.send_bytes("".join(json.dumps(item) + "\n" for item in data).encode())

    def send_bytes(self, data: bytes) -> None:
        """One chunk."""
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """The end of the chunked body."""
        self.writer.write(b"0\r\n\r\n")

    def abort(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()

    async def until_client_leaves(self) -> None:
        """Hold the answer open until the client closes the connection, and tell `server.left`."""
        await self.writer.drain()
        if await self.reader.read(1) == b"":
            self.server.left.set()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Said", *(f"{name}: {value}" for name, value in headers.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())


Script = Callable[[Reply], Awaitable[None]]


@dataclass
class Loopback:
    """The server: what it was asked, and which connections are open."""

    script: Script
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    reached: threading.Event = field(default_factory=threading.Event)
    all_closed: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.all_closed.clear()
        try:
            while not writer.is_closing() and (asked := await self._read(reader)) is not None:
                self.asked.append(asked)
                await self.script(Reply(asked, self, reader, writer))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            # the server's own end cancels what still waits for a request
            pass
        finally:
            writer.close()
            self.open -= 1
            if self.open == 0:
                self.all_closed.set()

    async def _read(self, reader: asyncio.StreamReader) -> Asked | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(first.split(" ")[1], headers, json.loads(body or b"{}"))


@contextmanager
def loopback(script: Script) -> Iterator[Loopback]:
    server = Loopback(script)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def main() -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        ready.set()
        await stop.wait()
        listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=run, name="loopback")
    thread.start()
    assert ready.wait(WAIT_SECONDS)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_SECONDS)


@pytest.fixture
def serve() -> Iterator[Callable[[Script], Loopback]]:
    """Start a server that answers every request by the script; stopped at the end of the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(loopback(script))
