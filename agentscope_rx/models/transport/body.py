"""The bytes of an answer, decompressed piece by piece, at most so many.

A few kilobytes may be compressed from gigabytes, so the pieces are bounded as they are decompressed, not afterwards.
(httpx decompresses whatever one read from the network gives, at once.)
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Iterator

import httpx

from agentscope_rx.errors import AnswerTooLargeError, ProtocolError
from agentscope_rx.models.transport.config import HttpConfig

ENCODINGS = "gzip, deflate"
"""What requests offer to take."""

PIECE = 64 * 1024
"""How many bytes are decompressed at a time."""


async def read_chunks(response: httpx.Response, config: HttpConfig) -> AsyncGenerator[bytes]:
    """The chunks as they come; `AnswerTooLargeError` once they are more than `max_answer_bytes` together."""
    left = config.max_answer_bytes
    inflating = _inflating(response.headers.get("content-encoding", ""))
    if inflating is None:
        async for chunk in response.aiter_raw():
            left -= len(chunk)
            if left < 0:
                raise _too_large(config)
            yield chunk
        return
    async for chunk in response.aiter_raw():
        for piece in inflating.feed(chunk):
            left -= len(piece)
            if left < 0:
                raise _too_large(config)
            yield piece


async def read_document(response: httpx.Response, config: HttpConfig) -> bytearray:
    """All of an answer that is one document; `AnswerTooLargeError` beyond `max_event_bytes`."""
    return await read_rest(bytearray(), read_chunks(response, config), config)


async def read_rest(body: bytearray, chunks: AsyncGenerator[bytes], config: HttpConfig) -> bytearray:
    """The document that begins with `body`, which is added to."""
    async for chunk in chunks:
        body += chunk
        if len(body) > config.max_event_bytes:
            raise AnswerTooLargeError("The answer's document", config.max_event_bytes, "max_event_bytes")
    return body


async def read_error(response: httpx.Response, config: HttpConfig) -> bytes:
    """The beginning of the body of an error, at most `max_error_bytes`."""
    body = bytearray()
    async for chunk in read_chunks(response, config):
        body += chunk
        if len(body) >= config.max_error_bytes:
            break
    return bytes(body[: config.max_error_bytes])


class _Inflating:
    """Decompresses at most `PIECE` bytes at a time."""

    __slots__ = ("_begun", "_raw", "_zlib")

    def __init__(self, encoding: str) -> None:
        # servers mean one of two formats by `deflate`
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
                raise httpx.DecodingError(str(error)) from error
            self._raw = False
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._next(data)
        self._begun = True
        return piece


def _inflating(encoding: str) -> _Inflating | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return _Inflating(name)
    raise ProtocolError(f"The answer is encoded as {name[:60]!r}; the request offered to take {ENCODINGS}.")


def _too_large(config: HttpConfig) -> AnswerTooLargeError:
    return AnswerTooLargeError("The answer", config.max_answer_bytes, "max_answer_bytes")
