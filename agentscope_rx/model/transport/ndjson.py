"""Newline-delimited JSON out of an HTTP answer, however its bytes are cut: each line that says something is an event.

A last line without a newline may be all there is of it, or half of it: it is marked `cut`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx

from agentscope_rx.model.transport.sse import ServerEvent

_BOM = b"\xef\xbb\xbf"


async def read_lines(response: httpx.Response) -> AsyncGenerator[ServerEvent]:
    """The lines of a response with content, one by one as they come."""
    held: list[bytes] = []
    first = True
    async for chunk in response.aiter_bytes():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join([*held, line])
            held.clear()
            if first:
                whole, first = whole.removeprefix(_BOM), False
            text = whole.decode("utf-8", "replace").strip()
            if text:
                yield ServerEvent(text)
        if rest:
            held.append(rest)
    text = b"".join(held).removeprefix(_BOM).decode("utf-8", "replace").strip()
    if text:
        yield ServerEvent(text, cut=True)
