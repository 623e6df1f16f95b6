"""The bytes of an event stream: frames as they come, and heartbeats by the loop's clock between them.

    frames      --a--b-----------c--|
    heartbeats  ------!------!------!        every `heartbeat` seconds, whether the run speaks or not
    bytes       --a--b!------!---c--|

A heartbeat that falls due while a client does not read is written when it reads again; those after it are skipped. It
is written between two frames, never into one, and takes nothing from the log: it is no demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from agentscope_rx.events import ErrorEvent
from agentscope_rx.reactive.replay_log import LogReader
from agentscope_rx.service.protocols.sse_format import HEARTBEAT, Frame, encoded, retry_hint


async def body(
    reader: LogReader[Frame], *, heartbeat: float | None = None, retry: float | None = None
) -> AsyncGenerator[bytes]:
    """Yields whole events and comments; ends after the run's last event. Reads on only when it is asked to.

    An error that the log ends with is an `error` event without an id: it is no part of what can be taken up again.
    """
    loop = asyncio.get_running_loop()
    if retry is not None:
        yield retry_hint(retry)
    beat = None if heartbeat is None else loop.time() + heartbeat
    while True:
        if beat is not None and heartbeat is not None and loop.time() >= beat:
            yield HEARTBEAT
            beat = loop.time() + heartbeat
        try:
            if not await there_is_more(reader, beat):
                return
        except Exception as error:
            yield encoded(ErrorEvent.type, ErrorEvent.of(error).to_json())
            return
        if reader.waiting:
            yield reader.take().data


async def there_is_more(reader: LogReader[Frame], until: float | None) -> bool:
    """True when there is a frame, or when the loop's clock reaches `until`; False at the end of the log."""
    if reader.waiting:
        return True
    limit = asyncio.timeout_at(until)
    try:
        async with limit:
            return await reader.wait()
    except TimeoutError:
        # the run may have failed with one of its own
        if not limit.expired():
            raise
        return True
