"""`SessionStream`: the response with the runs of a conversation, one behind the other."""

from __future__ import annotations

from starlette.types import Receive, Scope, Send

from agentscope_rx.service.host import AgentHost
from agentscope_rx.service.protocols.sse import HEARTBEAT_SECONDS, SEND_TIMEOUT_SECONDS, SSEResponse
from agentscope_rx.service.protocols.sse_format import EventEncoder
from agentscope_rx.service.runs.conversations import RunFeed


class SessionStream(SSEResponse):
    """Ends when the client leaves, or when the host has drained. A client that reads slowly slows the runs."""

    def __init__(self, host: AgentHost, feed: RunFeed, encoder: EventEncoder) -> None:
        super().__init__(feed, None, HEARTBEAT_SECONDS, None, SEND_TIMEOUT_SECONDS, None, encoder)
        self._host = host
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stopping = self._host.shutdown.terminated().subscribe(lambda _: self._feed.end())
        try:
            await super().__call__(scope, receive, send)
        finally:
            stopping.dispose()
