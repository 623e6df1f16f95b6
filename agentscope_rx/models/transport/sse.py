"""Server-sent events out of an HTTP answer, however its bytes are cut.

| the body begins with       | is read as                                                                             |
|----------------------------|----------------------------------------------------------------------------------------|
| `{` or `[`                 | one JSON document: a server that does not stream, or an error with status 200          |
| `<`                        | a web page: `ProtocolError`                                                             |
| anything else              | events, whatever the content type says (gateways send text/plain and octet-stream)     |

No legal event stream begins with one of the first three characters, so the look is safe. The bytes are UTF-8, which is
what the standard demands whatever the header says. Many servers forget the blank line at the end: an event that only
the end of the body completes is marked `cut`. A line `error: ...`, which the standard does not know, is the data of an
event named `error`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import NamedTuple

import httpx

from agentscope_rx.errors import AnswerTooLargeError, ProtocolError
from agentscope_rx.models.transport.body import read_chunks, read_rest
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.status import BODY_SHOWN

_BOM = b"\xef\xbb\xbf"
_DEFAULT = HttpConfig()
_LONGEST_BLANK = 4096
_LINE_COST = 64


class ServerEvent(NamedTuple):
    """One event. `whole`: the data is a JSON document that came instead of a stream. `cut`: the stream ended in it."""

    data: str
    event: str = "message"
    whole: bool = False
    cut: bool = False


async def read_events(response: httpx.Response, config: HttpConfig = _DEFAULT) -> AsyncGenerator[ServerEvent]:
    """The events of a response with content, one by one as they come; events without data are left out.

    `AnswerTooLargeError` for an event, or a document, of more than `max_event_bytes`.
    """
    chunks = read_chunks(response, config)
    head, start = await _head(chunks)
    if start in (b"{", b"["):
        body = await read_rest(bytearray(head), chunks, config)
        text = body.decode("utf-8", "replace")
        del body
        yield ServerEvent(text, whole=True)
        return
    if start == b"<":
        raise ProtocolError(
            "The server answered with a web page instead of a model's answer; check base_url.",
            body=head[:BODY_SHOWN].decode("utf-8", "replace"),
        )
    lines = EventLines(config.max_event_bytes)
    for event in lines.feed(head):
        yield event
    async for chunk in chunks:
        for event in lines.feed(chunk):
            yield event
    for event in lines.end():
        yield event


async def _head(chunks: AsyncGenerator[bytes]) -> tuple[bytes, bytes]:
    """The beginning of the body without its mark, and the first byte of it that is no white space, if there is one."""
    head = b""
    marked = True
    async for chunk in chunks:
        head += chunk
        if marked:
            if head != _BOM and _BOM.startswith(head):
                continue
            head, marked = head.removeprefix(_BOM), False
        start = head.lstrip()[:1]
        if start:
            return head, start
        if len(head) > _LONGEST_BLANK:
            # blank lines, which some servers send for as long as they think, mean nothing
            head = head[max(head.rfind(b"\n"), head.rfind(b"\r")) + 1 :]
            if len(head) > _LONGEST_BLANK:
                break
    return head, b""


class EventLines:
    """The lines of an event stream, put together to events: the standard's rules, without `id` and `retry`.

    `httpx-sse` does the same through five layers of generators for each event, which costs as much as the JSON in it;
    the tests hold the two against each other.
    """

    __slots__ = ("_after_return", "_data", "_event", "_held", "_limit", "_size")

    def __init__(self, limit: int = _DEFAULT.max_event_bytes) -> None:
        self._limit = limit
        self._held = bytearray()
        self._data: list[str] = []
        self._size = 0
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
        lines: list[bytes | bytearray] = [*chunk.split(b"\n")]
        rest = lines.pop()
        if lines and self._held:
            # a long line is not copied for the sake of its end
            self._held += lines[0]
            lines[0], self._held = self._held, bytearray()
        if rest:
            self._held += rest
            self._check(len(self._held))
        for at, line in enumerate(lines):
            if line:
                lines[at] = b""
                self._take(line)
            elif self._data or self._event:
                data, event = "\n".join(self._data), self._event
                self._data.clear()
                self._event = ""
                self._size = 0
                if data:
                    yield ServerEvent(data, event or "message")

    def _check(self, held: int) -> None:
        if held + self._size > self._limit:
            raise AnswerTooLargeError("An event of the answer", self._limit, "max_event_bytes")

    def end(self) -> Iterator[ServerEvent]:
        """The event that the end of the body completes, if there is one."""
        return (event._replace(cut=True) for event in self.feed(b"\n\n"))

    def _take(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data:"):
            # what a line costs beside its letters counts, too: an event may be made of millions of them
            self._size += len(line) + _LINE_COST
            self._check(0)
            self._data.append(line[6 if line[5:6] == b" " else 5 :].decode("utf-8", "replace"))
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        if field == "data":
            self._data.append("")
            self._size += _LINE_COST
            self._check(0)
        elif field == "event":
            self._event = value.removeprefix(" ")
        elif field == "error":
            # no field of the standard: llama.cpp and others write their errors so
            self._size += len(line) + _LINE_COST
            self._check(0)
            self._event = "error"
            self._data.append(value.removeprefix(" "))

    def _unified(self, chunk: bytes) -> bytes:
        """With newlines for all ends of lines; a return that ends a chunk may be the half of one."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if chunk.endswith(b"\r"):
            self._after_return = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
