"""Events of an HTTP answer: server-sent events or newline-delimited JSON, independent of how the bytes are chunked.

| `read_events`: the body begins with | is read as                                                               |
|-------------------------------------|--------------------------------------------------------------------------|
| `{` or `[`                          | one JSON document: a server that does not stream, or an error with 200   |
| `<`                                 | a web page: `ProtocolError`                                              |
| anything else                       | events; the content type is ignored (gateways send text/plain and more)  |

No legal event stream begins with one of the first three characters, so the test is safe. The bytes are decoded as
UTF-8, as the standard demands, and any charset in the header is ignored. Many servers omit the final blank line: an
event that only the end of the body completes is marked `cut`. A line `error: ...`, which is not in the standard, is the
data of an event named `error`.

`read_lines` makes an event of each line that is not blank. A last line without a newline may be incomplete, so it is
marked `cut`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from agentscope_rx.errors import AnswerTooLargeError, ProtocolError
from agentscope_rx.models.transport.body import extend_document, read_chunks
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.status import BODY_SHOWN

if TYPE_CHECKING:
    import httpx

_BOM = b"\xef\xbb\xbf"
_DEFAULT = HttpConfig()
_MAX_BLANK = 4096
_LINE_COST = 64


class ServerEvent(NamedTuple):
    """One event of a streamed answer.

    With `whole` the data is a JSON document that came in place of a stream. With `cut` the stream ended within the
    event.
    """

    data: str
    event: str = "message"
    whole: bool = False
    cut: bool = False


_new_event = cast("Callable[[type[ServerEvent], tuple[str, str, bool, bool]], ServerEvent]", tuple.__new__)


class Frames(Protocol):
    """Makes events of the bytes of one answer, whichever way these are cut."""

    def feed(self, chunk: bytes) -> Iterable[ServerEvent]:
        """The events that this chunk completes, as they are asked for; all of them before the next chunk."""
        ...

    def end(self) -> Iterable[ServerEvent]:
        """The event that the end of the body completes, if there is one."""
        ...


async def read_events(response: httpx.Response, config: HttpConfig = _DEFAULT) -> AsyncGenerator[ServerEvent]:
    """The events of a response as they arrive; events without data are left out.

    `AnswerTooLargeError` for an event, or a document, of more than `max_event_bytes`.
    """
    async for event in _read(response, config, EventFrames(config)):
        yield event


async def read_lines(response: httpx.Response, config: HttpConfig = _DEFAULT) -> AsyncGenerator[ServerEvent]:
    """The lines of a response as they arrive; `AnswerTooLargeError` for one of more than `max_event_bytes`."""
    async for event in _read(response, config, LineFrames(config)):
        yield event


async def _read(response: httpx.Response, config: HttpConfig, frames: Frames) -> AsyncGenerator[ServerEvent]:
    async for chunk in read_chunks(response, config):
        for event in frames.feed(chunk):
            yield event
    for event in frames.end():
        yield event


class EventFrames:
    """Server-sent events, or what came in place of them."""

    __slots__ = ("_at_start", "_config", "_document", "_feed", "_head", "_lines")

    def __init__(self, config: HttpConfig = _DEFAULT) -> None:
        self._config = config
        self._head = b""
        self._at_start = True
        self._document: bytearray | None = None
        self._lines = EventLines(config.max_event_bytes)
        self._feed: Callable[[bytes], Iterable[ServerEvent]] = self._begin

    def feed(self, chunk: bytes) -> Iterable[ServerEvent]:
        """The events that this chunk completes; none of a document, which is whole at the end."""
        return self._feed(chunk)

    def end(self) -> Iterable[ServerEvent]:
        """The document, or the event that the end of the body completes."""
        if self._document is not None:
            return (ServerEvent(self._document.decode("utf-8", "replace"), whole=True),)
        if self._head:
            return (*self._lines.feed(self._head), *self._lines.end())
        return self._lines.end()

    def _begin(self, chunk: bytes) -> Iterable[ServerEvent]:
        """Look for the first byte that is not white space, behind a byte order mark."""
        head = self._head + chunk
        self._head = head
        if self._at_start:
            if head != _BOM and _BOM.startswith(head):
                return ()
            self._head = head = head.removeprefix(_BOM)
            self._at_start = False
        start = head.lstrip()[:1]
        if start in (b"{", b"["):
            self._document = bytearray()
            self._head = b""
            self._feed = self._more
            return self._more(head)
        if start == b"<":
            raise ProtocolError(
                "The server answered with a web page instead of a model's answer; check base_url.",
                body=head[:BODY_SHOWN].decode("utf-8", "replace"),
            )
        if not start and len(head) > _MAX_BLANK:
            # some servers send blank lines as a keep-alive; they carry no data
            self._head = head = head[max(head.rfind(b"\n"), head.rfind(b"\r")) + 1 :]
        if not start and len(head) <= _MAX_BLANK:
            return ()
        self._head = b""
        self._feed = self._lines.feed
        return self._lines.feed(head)

    def _more(self, chunk: bytes) -> Iterable[ServerEvent]:
        assert self._document is not None
        extend_document(self._document, chunk, self._config)
        return ()


class LineFrames:
    """Lines of JSON."""

    __slots__ = ("_buffer", "_config", "_first")

    def __init__(self, config: HttpConfig = _DEFAULT) -> None:
        self._config = config
        self._buffer = bytearray()
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """The lines that this chunk completes."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = line
            if self._buffer:
                self._buffer += line
                whole, self._buffer = self._buffer, bytearray()
            if self._first:
                whole, self._first = whole.removeprefix(_BOM), False
            text = whole.decode("utf-8", "replace").strip()
            del whole
            if text:
                yield ServerEvent(text)
        if rest:
            self._buffer += rest
            if len(self._buffer) > self._config.max_event_bytes:
                raise AnswerTooLargeError("A line of the answer", self._config.max_event_bytes, "max_event_bytes")

    def end(self) -> Iterable[ServerEvent]:
        """The last line, if no newline ended it."""
        text = self._buffer.removeprefix(_BOM).decode("utf-8", "replace").strip()
        return (ServerEvent(text, cut=True),) if text else ()


class EventLines:
    """Parses the lines of an event stream by the standard's rules, without `id` and `retry`.

    `httpx-sse` does the same through five layers of generators for each event, which costs as much as parsing its JSON.
    The tests compare the two.
    """

    __slots__ = ("_after_return", "_buffer", "_data", "_event", "_limit", "_size")

    def __init__(self, limit: int = _DEFAULT.max_event_bytes) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterable[ServerEvent]:
        """The events that this chunk completes."""
        if self._after_return or b"\r" in chunk:
            chunk = self._with_newlines(chunk)
        elif (
            chunk[:6] == b"data: "
            and chunk[-2:] == b"\n\n"
            and chunk.count(b"\n") == 2
            and not (self._buffer or self._data or self._event)
        ):
            # one complete event: the usual size of a server's write
            data = chunk[6:-2].decode("utf-8", "replace")
            # (the class itself would take twice as long to make it)
            return (_new_event(ServerEvent, (data, "message", False, False)),) if data else ()
        return self._events(chunk)

    def _events(self, chunk: bytes) -> Iterator[ServerEvent]:
        lines: list[bytes | bytearray] = [*chunk.split(b"\n")]
        rest = lines.pop()
        if lines and self._buffer:
            # append to the buffer: prepending it would copy a long line
            self._buffer += lines[0]
            lines[0], self._buffer = self._buffer, bytearray()
        if rest:
            self._buffer += rest
            self._check(len(self._buffer))
        for at, line in enumerate(lines):
            if line:
                lines[at] = b""
                self._add_line(line)
            elif self._data or self._event:
                data, event = "\n".join(self._data), self._event
                self._data.clear()
                self._event = ""
                self._size = 0
                if data:
                    yield ServerEvent(data, event or "message")

    def _check(self, size: int) -> None:
        if size + self._size > self._limit:
            raise AnswerTooLargeError("An event of the answer", self._limit, "max_event_bytes")

    def end(self) -> Iterator[ServerEvent]:
        """The event that the end of the body completes, if there is one."""
        return (event._replace(cut=True) for event in self.feed(b"\n\n"))

    def _add_line(self, line: bytes | bytearray) -> None:
        if line.startswith(b"data:"):
            # the overhead of a line counts, too: an event may consist of millions of short ones
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
            # not in the standard: llama.cpp and others write their errors this way
            self._size += len(line) + _LINE_COST
            self._check(0)
            self._event = "error"
            self._data.append(value.removeprefix(" "))

    def _with_newlines(self, chunk: bytes) -> bytes:
        """The chunk with `\\n` for every line end; a `\\r` at the end of a chunk may be the first half of `\\r\\n`."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if chunk.endswith(b"\r"):
            self._after_return = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
