"""`Transport`: one POST to a provider, as a Flow of its events or of its JSON answer. The way to httpx.

    stream(request)     --event--event--|        the response is closed before the completion,
                        --event--X               before the error,
                        --event--                and at disposal
    request(request)    --answer|

There is one pooled client for each event loop and configuration, closed with its loop, so one `Transport` works in any
number of loops. It bounds the time to connect, the bytes that are read (`HttpConfig`) and the origin of redirects. The
deadlines of an answer are operators above. httpx is imported with `exchange`, at the first request of the process.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractContextManager, aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Literal, cast

from agentscope_rx.errors import ModelError, ProtocolError
from agentscope_rx.models.transport.body import Inflow, read_chunks, read_document
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.framing import EventFrames, Frames, LineFrames, ServerEvent
from agentscope_rx.models.transport.request import HttpRequest, LastParsed, OnHeaders, hiding, user_agent
from agentscope_rx.models.transport.status import BODY_SHOWN
from agentscope_rx.models.wire.json_size import load_json
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, from_async_iterable, from_callable, on_worker

if TYPE_CHECKING:
    import httpx

    from agentscope_rx.models.transport.exchange import Opening

Framing = Literal["sse", "ndjson"]
"""The format of a stream: server-sent events, or lines of JSON."""

_FRAMINGS: dict[Framing, tuple[str, Callable[[HttpConfig], Frames]]] = {
    "sse": ("text/event-stream, application/json", EventFrames),
    "ndjson": ("application/x-ndjson, application/json", LineFrames),
}

DRAIN_SECONDS = 0.2
DRAIN_BYTES = 64 * 1024
"""The limits for reading the rest of a body after its last event, so that the connection can be reused."""

_EXCHANGE = "agentscope_rx.models.transport.exchange"


class Transport:
    """Sends requests; its only state is its configuration, and the address and headers of its last request.

    Give one to several models: `OpenAIChatModel(..., transport=Transport(HttpConfig(...)))`.
    """

    def __init__(self, config: HttpConfig | None = None) -> None:
        self.config: HttpConfig = config or HttpConfig()
        self._last = LastParsed()

    def stream(self, request: HttpRequest, *, until: str | None = None, framing: Framing = "sse") -> Flow[ServerEvent]:
        """The events of the answer as they arrive, up to and including the one whose data or name is `until`.

        An answer that ends without it completes, too: the parser decides if it is whole.

        Signals: events, then completion; a `ModelHTTPError` for an error status; `ModelConnectionError` if there is
        no connection or it breaks off; `ProtocolError` for a web page.
        Cancels: the request, or the reading; the response is closed.
        """
        return from_async_iterable(lambda: self.events(request, until=until, framing=framing))

    def request(self, request: HttpRequest) -> Flow[object]:
        """The JSON value of the answer.

        Signals: the value and completion; errors as `stream`, and `ProtocolError` if the answer is not JSON.
        Cancels: the request; the response is closed.
        """
        return from_callable(lambda: self.answer(request))

    async def events(
        self,
        request: HttpRequest,
        *,
        until: str | None = None,
        framing: Framing = "sse",
        on_headers: OnHeaders | None = None,
    ) -> AsyncGenerator[ServerEvent]:
        """The generator behind `stream`, for a source that reads and parses in one step; the caller closes it.

        `on_headers(headers)` is called when the headers arrive, also those of an error status.
        """
        async with aclosing(self.batches(request, framing=framing, on_headers=on_headers)) as batches:
            with self.hiding(request):
                async for batch in batches:
                    for event in batch:
                        yield event
                        if until is not None and is_last(event, until):
                            await drain(batches)
                            return

    async def batches(
        self, request: HttpRequest, *, framing: Framing = "sse", on_headers: OnHeaders | None = None
    ) -> AsyncGenerator[Iterable[ServerEvent]]:
        """The events of each piece of the answer that has arrived: a step of a generator a piece, not one an event.

        Take all events of a batch before the next batch. The caller closes the generator, looks for the last event
        (`is_last`), and calls `drain` behind it. Errors as `stream`, those of a batch's own events as it is read.
        """
        accept, frames_of = _FRAMINGS[framing]
        opened = await _opening()
        async with opened(self.config, self._last, request, accept, on_headers) as response:
            frames, body = frames_of(self.config), Inflow(response, self.config)
            # (not `aiter_raw`, which adds a generator and a list for each piece)
            async for chunk in cast("httpx.AsyncByteStream", response.stream):
                for piece in body.feed(chunk):
                    yield frames.feed(piece)
            yield frames.end()

    async def chunks(self, request: HttpRequest, *, accept: str) -> AsyncGenerator[bytes]:
        """The bytes of a binary answer as they arrive; the caller closes it. Errors as `stream`."""
        opened = await _opening()
        async with (
            opened(self.config, self._last, request, accept) as response,
            aclosing(read_chunks(response, self.config)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def answer(self, request: HttpRequest, *, on_headers: OnHeaders | None = None) -> object:
        """The coroutine behind `request`; `on_headers` as in `events`."""
        opened = await _opening()
        async with opened(self.config, self._last, request, "application/json", on_headers) as response:
            body = (await read_document(response, self.config)).decode("utf-8-sig", "replace")
            try:
                return load_json(body)
            except (ValueError, RecursionError) as error:
                raise ProtocolError(f"The answer is not JSON: {error}", body=body[:BODY_SHOWN]) from error

    def hiding(self, request: HttpRequest) -> AbstractContextManager[None]:
        """Removes the request's keys and passwords from errors raised in the block."""
        return hiding(request, self.config)


async def _opening() -> Opening:
    """`opened`. The first call imports httpx, on a worker: it takes longer than a loop may be blocked."""
    if _EXCHANGE not in sys.modules:
        await on_worker(_import, ENGINE_WORKERS)
    from agentscope_rx.models.transport.exchange import opened

    return opened


def _import() -> None:
    user_agent()
    import_module(_EXCHANGE)


def is_last(event: ServerEvent, until: str) -> bool:
    """True for the event that ends a stream: the one of this name, or with this data."""
    data = event.data
    # (only a short one can be the data with white space around it)
    return event.event == until or data == until or (len(data) < 4 * len(until) and data.strip() == until)


async def drain(batches: AsyncGenerator[Iterable[ServerEvent]]) -> None:
    """Read the rest of the body after its last event, within limits, so that the connection can be reused."""
    import httpx

    # Usually the end of the body has arrived already. If the server keeps it open, the connection is not reused.
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            left = DRAIN_BYTES
            async for batch in batches:
                left -= sum(len(event.data) for event in batch)
                if left < 0:
                    return
    except (TimeoutError, httpx.HTTPError, ModelError):
        return
