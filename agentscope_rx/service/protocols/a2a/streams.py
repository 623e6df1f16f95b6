"""`TaskStream`: the updates of a task as server-sent events, for one client."""

from __future__ import annotations

import json
from collections.abc import Callable

from a2a.types import StreamResponse
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors.text import encode_json
from agentscope_rx.service.protocols.a2a.tasks import HostedTask
from agentscope_rx.service.protocols.a2a.wire import to_json
from agentscope_rx.service.protocols.sse import sse_response

Frame = Callable[[dict[str, object]], object]
"""The JSON around an update: that of JSON-RPC has the id of the request."""


class TaskStream:
    """The `EventEncoder` of one client: the task as it is now, then its updates."""

    def __init__(
        self, task: HostedTask, result: Frame, failure: Callable[[Exception], object], *, joined: bool
    ) -> None:
        self._first: StreamResponse | None = StreamResponse(task=task.snapshot())
        self._updates = task.updates.copy()
        self._result = result
        self._failure = failure
        self._seen = joined
        """The first event is in the snapshot already."""

    def encode(self, logged: LoggedEvent) -> bytes:
        """The updates that the event makes."""
        updates = [] if self._first is None else [self._first]
        self._first = None
        if not self._seen:
            updates += self._updates.see(logged.event)
        self._seen = False
        return encode_json("".join(map(self._line, updates)))

    def fail(self, error: Exception) -> bytes:
        """The error in the form of the protocol."""
        return encode_json(f"event: error\ndata: {json.dumps(self._failure(error), ensure_ascii=False)}\n\n")

    def close(self) -> bytes:
        """Nothing: the last update says how the task stands."""
        return b""

    def _line(self, update: StreamResponse) -> str:
        return f"data: {json.dumps(self._result(to_json(update)), ensure_ascii=False)}\n\n"


def stream_of(
    task: HostedTask, result: Frame, failure: Callable[[Exception], object], refused: Callable[[Exception], Response]
) -> Response:
    """The response that follows the task from now on."""
    run, seen = task.run, task.position
    if run is None or run.ended.fired:
        # it waits for its client
        line = json.dumps(result(to_json(StreamResponse(task=task.snapshot()))), ensure_ascii=False)
        return Response(encode_json(f"data: {line}\n\n"), media_type="text/event-stream")
    encoder = TaskStream(task, result, failure, joined=seen > 0)
    # the last event once more, so that the client has the task at once
    return sse_response(run, after=None if seen < 2 else seen - 2, encoder=encoder, refused=refused)


class Refused(Response):
    """A response of which the task learns that its run could not begin."""

    def __init__(self, task: HostedTask, error: Exception, response: Response) -> None:
        self.background: None = None
        self._task = task
        self._error = error
        self._response = response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._task.refuse(self._error)
        await self._response(scope, receive, send)
