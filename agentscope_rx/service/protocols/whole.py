"""`WholeResponse`: the response that is sent when the run has ended."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import operators as ops
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.events import Event
from agentscope_rx.reactive import from_callable
from agentscope_rx.reactive.log_readers import LogReader
from agentscope_rx.service.failure import error_response
from agentscope_rx.service.protocols.sse import disconnected
from agentscope_rx.service.runs.live_run import LiveRun


class WholeResponse(Response):
    """Begins the run when it is sent, shows each event to `see`, and sends what `answer` makes at the end.

    An error that `see` raises ends the run, as does a client that disconnects; `answer` may raise the error of a failed
    run. `refused` makes the response to an error.
    """

    def __init__(
        self,
        run: LiveRun,
        see: Callable[[Event], object],
        answer: Callable[[], Response],
        refused: Callable[[Exception], Response] = error_response,
    ) -> None:
        self.run = run
        self.background: None = None
        self._see = see
        self._answer = answer
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            reader = self.run.follow()
        except Exception as error:
            await self._refused(error)(scope, receive, send)
            return
        found: list[Response] = []
        reading = from_callable(lambda: self._read(reader, found))
        try:
            # the first to end disposes the other
            await reading.pipe(ops.merge(from_callable(lambda: disconnected(receive))), ops.first())
        finally:
            await self.run.leave(reader)
        # after the clean-up: a client that has the answer may send its next request at once
        for response in found:
            await response(scope, receive, send)

    async def _read(self, reader: LogReader[LoggedEvent], found: list[Response]) -> None:
        try:
            while await reader.wait():
                self._see(reader.take().event)
            response = self._answer()
        except Exception as error:
            response = self._refused(error)
        found.append(response)
