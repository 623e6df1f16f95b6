"""Server-sent events out of an HTTP answer, however its bytes are cut.

| the body begins with       | is read as                                                                             |
|----------------------------|----------------------------------------------------------------------------------------|
| `{` or `[`                 | one JSON document: a server that does not stream, or an error with status 200          |
| `<`                        | a web page: `ProtocolError`                                                             |
| anything else              | events, whatever the content type says (gateways send text/plain and octet-stream)     |

No legal event stream begins with one of the first three characters, so the look is safe. The bytes are UTF-8, which is
what the standard demands whatever the header says. Many servers forget the blank line at the end: an event that only
the end of the body completes is marked `cut`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import NamedTuple

import httpx

from agentscope_rx.errors import ProtocolError
from agentscope_rx.model.transport.status import BODY_SHOWN

_BOM = b"\xef\xbb\xbf"


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
    lines = EventLines()
    for event in lines.feed(head.removeprefix(_BOM)):
        yield event
    async for chunk in chunks:
        for event in lines.feed(chunk):
            yield event
    for event in lines.end():
        yield event


class EventLines:
    """The lines of an event stream, put together to events: the standard's rules, without `id` and `retry`.

    `httpx-sse` does the same through five layers of generators for each event, which costs as much as the JSON in it;
    the tests hold the two against each other.
    """

    __slots__ = ("_after_return", "_data", "_event", "_held")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._data: list[str] = []
        self._event = ""
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterable[ServerEvent]:
        """The events that these bytes complete."""
        if self._after_return or b"\r" in chunk:
            chunk = self._unified(chunk)
        elif chunk[:6] == b"data: " and chunk[-2:] == b"\n\n" and chunk.count(b"\n") == 2 and self._at_rest():
            # one event, whole: what servers write at a time
            data = chunk[6:-2].decode("utf-8", "replace")
            return (ServerEvent(data),) if data else ()
        return self._events(chunk)

    def _at_rest(self) -> bool:
        return not (self._held or self._data or self._event)

    def _events(self, chunk: bytes) -> Iterator[ServerEvent]:
        *lines, rest = chunk.split(b"\n")
        if lines and self._held:
            lines[0] = b"".join([*self._held, lines[0]])
            self._held.clear()
        if rest:
            self._held.append(rest)
        for line in lines:
            if line:
                self._take(line.decode("utf-8", "replace"))
            elif self._data or self._event:
                data, event = "\n".join(self._data), self._event
                self._data.clear()
                self._event = ""
                if data:
                    yield ServerEvent(data, event or "message")

    def end(self) -> Iterator[ServerEvent]:
        """The event that the end of the body completes, if there is one."""
        return (event._replace(cut=True) for event in self.feed(b"\n\n"))

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "event":
            self._event = value.removeprefix(" ")

    def _unified(self, chunk: bytes) -> bytes:
        """With newlines for all ends of lines; a return that ends a chunk may be the half of one."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if chunk.endswith(b"\r"):
            self._after_return = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
