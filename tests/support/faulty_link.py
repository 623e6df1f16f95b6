"""`FaultyLink`: a TCP port whose connections lead to a server's socket, and which can fail.

client --request--> link --> server          each request is given to `on_request`, which says what happens
client <--answer--  link <-- server

PASS       it is passed on, and so is its answer
CUT        the connections are cut before it arrives
NO_ANSWER  it is passed on; the connections are cut when the answer comes
STALL      it is not passed on, and nothing happens on its connection any more
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path


class Fate(Enum):
    """What happens to a request."""

    PASS = auto()
    CUT = auto()
    NO_ANSWER = auto()
    STALL = auto()


class FaultyLink:
    """A link to the socket at a path."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.port = 0
        self.on_request: Callable[[bytes], Fate] = lambda data: Fate.PASS
        self.requests: list[bytes] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="faulty-link")

    def heal(self) -> None:
        """Pass everything on from now on."""
        self.on_request = lambda data: Fate.PASS

    def at(self, number: int, fate: Fate) -> None:
        """This happens to the request of that number, counted from now; those behind it are passed on."""
        first = len(self.requests)
        self.on_request = lambda data: fate if len(self.requests) - first == number + 1 else Fate.PASS

    def when(self, part: bytes, fate: Fate) -> None:
        """This happens to requests with these bytes."""
        self.on_request = lambda data: fate if part in data else Fate.PASS

    def cut(self) -> None:
        """Cut the connections that there are."""
        self._loop.call_soon_threadsafe(self._cut)

    @property
    def connections(self) -> int:
        """The connections of clients."""
        return len(self._writers) // 2

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        server.close()
        self._cut()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=10)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            writer.transport.abort()
            return
        both = {writer, up_writer}
        self._writers |= both
        state: dict[str, bool] = {"silent": False, "stalled": False}
        answers = asyncio.ensure_future(self._answers(up_reader, writer, state))
        try:
            with suppress(OSError):
                while data := await reader.read(1 << 16):
                    self.requests.append(data)
                    fate = Fate.PASS if state["stalled"] else self.on_request(data)
                    if fate is Fate.CUT:
                        self._cut()
                        return
                    state["silent"] |= fate is Fate.NO_ANSWER
                    state["stalled"] |= fate is Fate.STALL
                    if not state["stalled"]:
                        up_writer.write(data)
                        await up_writer.drain()
        finally:
            answers.cancel()
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, state: dict[str, bool]
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if state["silent"]:
                    self._cut()
                    return
                if not state["stalled"]:
                    writer.write(data)
                    await writer.drain()
        # the server has ended the connection
        if not state["stalled"]:
            writer.transport.abort()

    @contextmanager
    def open(self) -> Iterator[FaultyLink]:
        """The link works inside this block."""
        self._thread.start()
        assert self._ready.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()
