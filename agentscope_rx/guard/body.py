"""The body of a request, read up to its limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentscope_rx.errors import BodyTimeoutError, BodyTooLargeError, MediaTypeError

if TYPE_CHECKING:
    from starlette.types import Receive

BYTES_PER_VALUE = 64
"""A JSON value takes up to about 250 bytes of memory, however few bytes it is written in."""

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
"""The end is optional: else the search would fail on an unclosed string, and begin again at each quote."""
_STRINGS = re.compile(_STRING, re.S)
_TOKENS = re.compile(_STRING + rb"|[\[{,]", re.S)
_QUOTE = ord('"')


def check_type(headers: Mapping[str, str]) -> None:
    """Return if the body is declared as JSON, or if there is neither a declaration nor a body.

    Web pages of other origins can send forms and plain text at once; for JSON the browser asks the server first.
    """
    kind = headers.get("content-type")
    if kind is None and headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    if (kind or "").partition(";")[0].strip().lower() != "application/json":
        raise MediaTypeError(f"The content type must be application/json, not {kind or 'none'!r:.200}.")


async def read_body(receive: Receive, headers: Mapping[str, str], *, limit: int, timeout: float | None) -> bytes | None:
    """The whole body, None if the client left before its end. `BodyTooLargeError`, `BodyTimeoutError`."""
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and (len(declared) > 18 or int(declared) > limit):
        raise _too_large(limit)
    # not a list of pieces: a piece of one byte takes forty
    body = bytearray()
    clock = asyncio.timeout(timeout)
    try:
        async with clock:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                piece: bytes = message.get("body", b"")
                if len(body) + len(piece) > limit:
                    raise _too_large(limit)
                body += piece
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        if timeout is None or not clock.expired():
            raise
        raise BodyTimeoutError(timeout) from None


def max_values(max_bytes: int) -> int:
    """How many JSON values a text of so many bytes may hold."""
    return max(1000, max_bytes // BYTES_PER_VALUE)


def check_values(body: bytes | bytearray, limit: int) -> None:
    """`BodyTooLargeError` if JSON has more values than this: `[[],[],[]` takes thirty times its size in memory."""
    if len(body) <= limit or body.count(b",") + body.count(b"[") + body.count(b"{") <= limit:
        return
    values = strings = 0
    for found in _TOKENS.finditer(body):
        if body[found.start()] == _QUOTE:
            strings += 1
        else:
            values += 1
        # (a value may bring two strings, itself and its key)
        if values > limit or strings > 2 * limit + 1:
            raise BodyTooLargeError(
                f"The JSON of the body holds more than {limit} values. The limit follows from max_body_bytes.",
                limit=limit,
            )


def is_closed(body: bytes) -> bool:
    """True if as many brackets are closed as are opened."""
    bare = _STRINGS.sub(b"", body)
    return bare.count(b"[") == bare.count(b"]") and bare.count(b"{") == bare.count(b"}")


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"The body has more than {limit} bytes (max_body_bytes).", limit=limit)
