"""Newline-delimited JSON out of an HTTP answer, however its bytes are cut: each line that says something is an event.

A last line without a newline may be all there is of it, or half of it: it is marked `cut`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx

from agentscope_rx.errors import AnswerTooLargeError
from agentscope_rx.models.transport.body import read_chunks
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.sse import ServerEvent

_BOM = b"\xef\xbb\xbf"
_DEFAULT = HttpConfig()


async def read_lines(response: httpx.Response, config: HttpConfig = _DEFAULT) -> AsyncGenerator[ServerEvent]:
    """The lines of a response with content, one by one as they come; each at most `max_event_bytes` long."""
    held = bytearray()
    first = True
    async for chunk in read_chunks(response, config):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = line
            if held:
                held += line
                whole, held = held, bytearray()
            if first:
                whole, first = whole.removeprefix(_BOM), False
            text = whole.decode("utf-8", "replace").strip()
            del whole
            if text:
                yield ServerEvent(text)
        if rest:
            held += rest
            if len(held) > config.max_event_bytes:
                raise AnswerTooLargeError("A line of the answer", config.max_event_bytes, "max_event_bytes")
    text = held.removeprefix(_BOM).decode("utf-8", "replace").strip()
    if text:
        yield ServerEvent(text, cut=True)
