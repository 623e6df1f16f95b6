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
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from agentscope_rx.errors import ModelError, ProtocolError
from agentscope_rx.models.transport.body import read_chunks, read_document
from agentscope_rx.models.transport.config import HttpConfig
from agentscope_rx.models.transport.framing import ServerEvent, read_events, read_lines
from agentscope_rx.models.transport.request import HttpRequest, OnHeaders, hiding, user_agent
from agentscope_rx.models.transport.status import BODY_SHOWN
from agentscope_rx.models.wire.json_size import load_json
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, from_async_iterable, from_callable, on_worker

if TYPE_CHECKING:
    import httpx

    from agentscope_rx.models.transport.exchange import Opening

Framing = Literal["sse", "ndjson"]
"""The format of a stream: server-sent events, or lines of JSON."""

_FRAMINGS: dict[Framing, tuple[str, Callable[[httpx.Response, HttpConfig], AsyncGenerator[ServerEvent]]]] = {
    "sse": ("text/event-stream, application/json", read_events),
    "ndjson": ("application/x-ndjson, application/json", read_lines),
}

DRAIN_SECONDS = 0.2
DRAIN_BYTES = 64 * 1024
"""The limits for reading the rest of a body after its last event, so that the connection can be reused."""

_EXCHANGE = "agentscope_rx.models.transport.exchange"


class Transport:
    """Sends requests; its only state is its configuration.

    Give one to several models: `OpenAIChatModel(..., transport=Transport(HttpConfig(...)))`.
    """

    def __init__(self, config: HttpConfig | None = None) -> None:
        self.config: HttpConfig = config or HttpConfig()

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
        accept, read = _FRAMINGS[framing]
        opened = await _opening()
        async with (
            opened(self.config, request, accept, on_headers) as response,
            aclosing(read(response, self.config)) as events,
        ):
            async for event in events:
                yield event
                if until is not None and (event.event == until or event.data.strip() == until):
                    await _drain(events)
                    return

    async def chunks(self, request: HttpRequest, *, accept: str) -> AsyncGenerator[bytes]:
        """The bytes of a binary answer as they arrive; the caller closes it. Errors as `stream`."""
        opened = await _opening()
        async with (
            opened(self.config, request, accept) as response,
            aclosing(read_chunks(response, self.config)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def answer(self, request: HttpRequest, *, on_headers: OnHeaders | None = None) -> object:
        """The coroutine behind `request`; `on_headers` as in `events`."""
        opened = await _opening()
        async with opened(self.config, request, "application/json", on_headers) as response:
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


async def _drain(events: AsyncGenerator[ServerEvent]) -> None:
    import httpx

    # Usually the end of the body has arrived already. If the server keeps it open, the connection is not reused.
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            left = DRAIN_BYTES
            async for event in events:
                left -= len(event.data)
                if left < 0:
                    return
    except (TimeoutError, httpx.HTTPError, ModelError):
        return
