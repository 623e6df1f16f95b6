"""The bytes of an answer, decompressed in bounded pieces up to a limit.

A few kilobytes may expand to gigabytes, so the limit applies while a chunk is decompressed, not afterwards. (httpx
decompresses each chunk from the network at once.)
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING

from agentscope_rx.errors import AnswerTooLargeError, ProtocolError
from agentscope_rx.models.transport.config import HttpConfig

if TYPE_CHECKING:
    import httpx

ENCODINGS = "gzip, deflate"
"""The Accept-Encoding header of requests."""

PIECE = 64 * 1024
"""The maximum number of bytes decompressed at a time."""


async def read_chunks(response: httpx.Response, config: HttpConfig) -> AsyncGenerator[bytes]:
    """The chunks as they arrive; `AnswerTooLargeError` beyond `max_answer_bytes` in total."""
    body = Inflow(response, config)
    async for chunk in response.aiter_raw():
        for piece in body.feed(chunk):
            yield piece


class Inflow:
    """Decompresses the chunks of one answer; `AnswerTooLargeError` beyond `max_answer_bytes` in total."""

    __slots__ = ("_config", "_decompressor", "_left")

    def __init__(self, response: httpx.Response, config: HttpConfig) -> None:
        self._config = config
        self._left = config.max_answer_bytes
        self._decompressor = _decompressor(response.headers.get("content-encoding", ""))

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """The pieces of a chunk, as they are asked for; all of them before the next chunk."""
        if self._decompressor is not None:
            return self._decompressed(chunk, self._decompressor)
        self._left -= len(chunk)
        if self._left < 0:
            raise _too_large(self._config)
        return (chunk,)

    def _decompressed(self, chunk: bytes, decompressor: _Decompressor) -> Iterator[bytes]:
        for piece in decompressor.feed(chunk):
            self._left -= len(piece)
            if self._left < 0:
                raise _too_large(self._config)
            yield piece


async def read_document(response: httpx.Response, config: HttpConfig) -> bytearray:
    """The whole body of an answer; `AnswerTooLargeError` beyond `max_event_bytes`."""
    body = bytearray()
    async for chunk in read_chunks(response, config):
        extend_document(body, chunk, config)
    return body


def extend_document(body: bytearray, chunk: bytes, config: HttpConfig) -> None:
    """Appends a chunk; `AnswerTooLargeError` beyond `max_event_bytes`."""
    body += chunk
    if len(body) > config.max_event_bytes:
        raise AnswerTooLargeError("The answer's document", config.max_event_bytes, "max_event_bytes")


async def read_error(response: httpx.Response, config: HttpConfig) -> bytes:
    """The first `max_error_bytes` of the body of an error status."""
    body = bytearray()
    async for chunk in read_chunks(response, config):
        body += chunk
        if len(body) >= config.max_error_bytes:
            break
    return bytes(body[: config.max_error_bytes])


class _Decompressor:
    """Decompresses at most `PIECE` bytes at a time."""

    __slots__ = ("_begun", "_raw", "_zlib")

    def __init__(self, encoding: str) -> None:
        # servers send one of two formats as `deflate`
        self._raw = encoding == "deflate"
        self._zlib = zlib.decompressobj() if self._raw else zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while not self._zlib.eof:
            piece = self._next(data)
            data = self._zlib.unconsumed_tail
            if piece:
                yield piece
            if not data and len(piece) < PIECE:
                return

    def _next(self, data: bytes) -> bytes:
        try:
            piece = self._zlib.decompress(data, PIECE)
        except zlib.error as error:
            if not self._raw or self._begun:
                import httpx

                raise httpx.DecodingError(str(error)) from error
            self._raw = False
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._next(data)
        self._begun = True
        return piece


def _decompressor(encoding: str) -> _Decompressor | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return _Decompressor(name)
    raise ProtocolError(f"The answer is encoded as {name[:60]!r}; the request accepts {ENCODINGS}.")


def _too_large(config: HttpConfig) -> AnswerTooLargeError:
    return AnswerTooLargeError("The answer", config.max_answer_bytes, "max_answer_bytes")
