"""`SessionStream`: the response with the runs of a conversation, one behind the other."""

from __future__ import annotations

import asyncio
import logging

from reactivex import operators as ops
from starlette.types import Receive, Scope, Send

from agentscope_rx.errors import EventsGoneError
from agentscope_rx.reactive import from_callable
from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.sse import HEARTBEAT_SECONDS, SEND_TIMEOUT_SECONDS, SSEResponse
from agentscope_rx.service.protocols.sse_format import EventEncoder
from agentscope_rx.service.runs.conversations import RunFeed
from agentscope_rx.service.runs.relayed_run import RelayedRun

_log = logging.getLogger("agentscope_rx")


class SessionStream(SSEResponse):
    """Ends when the client leaves, or when the host has drained. A client that reads slowly slows the runs.

    With a relay it also has the runs of other processes. `place` is the agent, the user and the session.
    """

    def __init__(self, host: AgentHost, place: tuple[str, str, str], encoder: EventEncoder) -> None:
        self._feed: RunFeed = host.feed(*place)
        super().__init__(self._feed, None, HEARTBEAT_SECONDS, None, SEND_TIMEOUT_SECONDS, None, encoder)
        self._host = host
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopping = self._host.shutdown.terminated().subscribe(lambda _: self._feed.end())
        sending = from_callable(lambda: super(SessionStream, self).__call__(scope, receive, send))
        relay = self._host.relay
        if relay is not None:
            watching = from_callable(lambda: self._watch(relay.interval))
            # the first to end disposes the other
            sending = sending.pipe(ops.merge(watching), ops.first())
        try:
            await sending
        finally:
            stopping.dispose()

    async def _watch(self, interval: float) -> None:
        """Add the runs that begin in other processes."""
        last = ""
        while True:
            try:
                run = await self._host.find_live(*self._place)
            except Exception:
                _log.exception("the runs of other processes cannot be found")
                run = None
            if isinstance(run, RelayedRun) and run.id != last and not self._host.runs.has(run.id):
                last = run.id
                try:
                    self._feed.add(run)
                except EventsGoneError as error:
                    _log.warning("%s", error)
            await asyncio.sleep(interval)
