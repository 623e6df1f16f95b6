"""Server-sent events out of an HTTP answer, however its bytes are cut. httpx-sse frames them; what it is fed is ours.

| the body begins with       | is read as                                                                             |
|----------------------------|----------------------------------------------------------------------------------------|
| `{` or `[`                 | one JSON document: a server that does not stream, or an error with status 200          |
| `<`                        | a web page: `ProtocolError`                                                             |
| anything else              | events, whatever the content type says (gateways send text/plain and octet-stream)     |

No legal event stream begins with one of the first three characters, so the look is safe. The decoder is given the bytes
as UTF-8 without byte order mark, which is what the standard demands whatever the header says, and a blank line at the
end, because many servers forget it: an event that only that line completes is marked `cut`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

import httpx
from httpx_sse import EventSource

from agentscope_rx.errors import ProtocolError
from agentscope_rx.model.transport.status import BODY_SHOWN

_BOM = b"\xef\xbb\xbf"
_TYPE = {"content-type": "text/event-stream; charset=utf-8-sig"}


class ServerEvent(NamedTuple):
    """One event. `whole`: the data is a JSON document that came instead of a stream. `cut`: the stream ended in it."""

    data: str
    event: str = "message"
    whole: bool = False
    cut: bool = False


async def read_events(response: httpx.Response) -> AsyncGenerator[ServerEvent]:
    """The events of a response with content, one by one as they come; events without data are left out."""
    chunks = response.aiter_bytes()
    head = b""
    start = b""
    async for chunk in chunks:
        head += chunk
        start = head.removeprefix(_BOM).lstrip()
        if start and not _BOM.startswith(head):
            break
    if start[:1] in (b"{", b"["):
        rest = [chunk async for chunk in chunks]
        yield ServerEvent(_text(b"".join([head, *rest])), whole=True)
        return
    if start[:1] == b"<":
        raise ProtocolError(
            "The server answered with a web page instead of a model's answer; check base_url.",
            body=_text(head)[:BODY_SHOWN],
        )
    body = _Body(head, chunks)
    # a Response of its own: the given one may claim another type or charset, and its content is decoded already
    source = EventSource(httpx.Response(200, headers=_TYPE, stream=body))
    async with aclosing(source.aiter_sse()) as events:
        async for sse in events:
            if sse.data:
                yield ServerEvent(sse.data, sse.event, cut=body.ended)


class _Body(httpx.AsyncByteStream):
    """The bytes of an event stream, with the blank line at the end that completes the last event."""

    def __init__(self, head: bytes, rest: AsyncIterator[bytes]) -> None:
        self._head = head
        self._rest = rest
        self.ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._head:
            yield self._head
        async for chunk in self._rest:
            yield chunk
        self.ended = True
        yield b"\n\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
