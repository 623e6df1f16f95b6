"""A real uvicorn server on a thread of its own, models that say what becomes of them, and clients at the socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import httpx
import uvicorn
from httpx_sse import ServerSentEvent, connect_sse

from agentscope_rx.events import Event, event_from_json
from agentscope_rx.messages import Msg, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse, GenerateOptions, ToolSchema
from agentscope_rx.reactive import Flow, from_async_iterable

T = TypeVar("T")

PATIENCE = 20.0


class _Uvicorn(uvicorn.Server):
    """Says when it listens, and on which loop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self.listening.set()


class Served:
    """An application being served; `errors` are what uvicorn had to log of it."""

    def __init__(self, app: Any, graceful: int = 10) -> None:
        self.errors: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        # inherited by the accepted ones: what a client does not read piles up here, so let it be little
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.port: int = self._socket.getsockname()[1]
        config = uvicorn.Config(
            app, ws="none", lifespan="on", log_config=None, access_log=False, timeout_graceful_shutdown=graceful
        )
        self._uvicorn = _Uvicorn(config)
        self._thread = threading.Thread(target=self._uvicorn.run, kwargs={"sockets": [self._socket]}, name="uvicorn")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        assert self._uvicorn.listening.wait(PATIENCE)

    def stop(self) -> None:
        self._uvicorn.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def on_loop(self, call: Callable[[], T]) -> T:
        """The result of a call on the server's loop, behind all that is ready there."""

        async def run() -> T:
            await asyncio.sleep(0)
            return call()

        return self.await_(run())

    def await_(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine on the server's loop."""
        assert self._uvicorn.loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._uvicorn.loop).result(PATIENCE)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False)


class _Errors(logging.Handler):
    def __init__(self, into: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._into = into

    def emit(self, record: logging.LogRecord) -> None:
        self._into.append(f"{record.getMessage()} {record.exc_info[1]!r}" if record.exc_info else record.getMessage())


@contextlib.contextmanager
def served(app: Any, *, graceful: int = 10, expected: Sequence[str] = ()) -> Iterator[Served]:
    """The application on loopback for the length of a block; uvicorn may log no error but those `expected`."""
    server = Served(app, graceful)
    handler = _Errors(server.errors)
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    try:
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        logger.removeHandler(handler)
    surprises = [error for error in server.errors if not any(words in error for words in expected)]
    assert not surprises, surprises


class Word:
    """What a test's thread says and a coroutine of the server waits for."""

    def __init__(self) -> None:
        self._said = threading.Event()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def say(self) -> None:
        self._said.set()
        for loop, heard in self._waiting:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(heard.set)

    async def wait(self) -> None:
        heard = asyncio.Event()
        self._waiting.append((asyncio.get_running_loop(), heard))
        if not self._said.is_set():
            await heard.wait()


class Speaker(ChatModel):
    """A model that speaks when it is told to, and counts how far it was read and how often its source was closed."""

    provider = "test"

    def __init__(self, words: Sequence[str] = (), *, hang: bool = False) -> None:
        super().__init__("speaker")
        self.words = words
        self.hang = hang
        self.read = 0
        self.asked = threading.Event()
        self.closed = threading.Event()
        self.go_on = Word()

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        async def speak() -> AsyncIterator[ChatResponse]:
            self.asked.set()
            try:
                for word in self.words:
                    self.read += 1
                    yield ChatResponse((TextBlock(word),))
                if self.hang:
                    await self.go_on.wait()
                    yield ChatResponse((TextBlock("at last"),))
            finally:
                # a clean-up that takes its time
                await asyncio.sleep(0)
                self.closed.set()

        return from_async_iterable(speak)


def sse(client: httpx.Client, method: str, path: str, **options: Any) -> contextlib.AbstractContextManager[Any]:
    """A stream of events."""
    return connect_sse(client, method, path, **options)


def events_of(source: Any) -> list[Event]:
    """All events of an open stream, each with its framing checked."""
    return [checked(event) for event in source.iter_sse()]


def checked(sse: ServerSentEvent) -> Event:
    event = event_from_json(sse.data)
    assert (sse.event, sse.id) == (event.type, str(event.seq))
    return event


def ask(client: httpx.Client, text: str = "hi") -> list[Event]:
    """All events of a new run."""
    with sse(client, "POST", "/run", json={"text": text}) as source:
        assert source.response.status_code == 200, source.response.read()
        return events_of(source)


class RawClient:
    """A client at the socket, with a small receive buffer: what it does not read soon stays with the server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        self._rest = b""

    def send(self, method: str, path: str, body: object = None, **headers: str) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        if raw:
            headers = {"content_type": "application/json", **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(raw)}\r\n{head}\r\n".encode() + raw
        )

    def read_until(self, words: bytes) -> bytes:
        """What comes, up to and with these words."""
        while words not in self._rest:
            piece = self.socket.recv(4096)
            assert piece, f"the connection ended before {words!r}: {self._rest[-200:]!r}"
            self._rest += piece
        end = self._rest.index(words) + len(words)
        read, self._rest = self._rest[:end], self._rest[end:]
        return read

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
