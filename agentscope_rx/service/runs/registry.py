"""`Runs`: owns the runs of an application, finds them by id, keeps what goes on, and stops all of it at the end.

    async with Runs() as runs:                                   # in the application's lifespan
        sse_response(runs.add(agent.stream(text), on_disconnect="continue"))
        sse_response(runs.find(run_id), after=last_event_id(request))

A run is found from its first event on; one that stops with its clients until it ends, one that goes on until
`keep_seconds` of the loop's clock after its end, or until `max_kept` others have ended after it.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from reactivex import Observable

from agentscope_rx.agent import Agent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.reactive import flow
from agentscope_rx.service.failure import ServiceStoppingError, TooManyRunsError, UnknownRunError
from agentscope_rx.service.runs.live_run import MAX_LOG_BYTES, LiveRun, OnDisconnect, OnDisconnectChoice

KEEP_SECONDS = 300.0
MAX_LIVE_RUNS = 100
MAX_KEPT_RUNS = 100


class RunsStatistics(NamedTuple):
    """How many runs are under way (or being cleaned up), how many ended ones are kept, how many clients follow."""

    live: int
    kept: int
    clients: int


class Runs:
    """The runs of one application, on one loop.

    No run begins while `max_live` are under way or being cleaned up; of those that have ended the last `max_kept` are
    kept. None is no limit.
    """

    def __init__(
        self,
        *,
        keep_seconds: float = KEEP_SECONDS,
        max_live: int | None = MAX_LIVE_RUNS,
        max_kept: int | None = MAX_KEPT_RUNS,
    ) -> None:
        for name, count, least in (("max_live", max_live, 1), ("max_kept", max_kept, 0)):
            if count is not None and (type(count) is not int or count < least):
                raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {count!r:.60}.")
        self.keep_seconds = keep_seconds
        self.max_live = max_live
        self.max_kept = max_kept
        self._live: set[LiveRun] = set()
        self._found: dict[str, LiveRun] = {}
        self._forgetting: dict[LiveRun, asyncio.TimerHandle] = {}
        self._closed = False

    def add(
        self,
        events: Observable[Event],
        *,
        on_disconnect: OnDisconnectChoice = OnDisconnect.STOP,
        capacity: int | None = None,
        max_bytes: int = MAX_LOG_BYTES,
        agent: Agent | None = None,
    ) -> LiveRun:
        """A run of these events, owned here from its beginning: it begins when it is first followed.

        `capacity` (events) and `max_bytes` bound its log; `agent` makes it interruptible. `ServiceStoppingError` once
        this is closed. Whether it may begin is decided when it is first followed: `TooManyRunsError`.
        """
        if self._closed:
            flow(events).take_over()
            raise ServiceStoppingError
        run = LiveRun(
            events,
            on_disconnect=on_disconnect,
            capacity=capacity,
            max_bytes=max_bytes,
            agent=agent,
            admit=self._admit,
        )
        run.begun.listen(lambda: self._found.setdefault(run.id or "", run))
        run.ended.listen(lambda: self._ended(run))
        run.gone.listen(lambda: self._live.discard(run))
        return run

    def find(self, run_id: str) -> LiveRun:
        """The run of this id; `UnknownRunError` if there is none, or none any more."""
        run = self._found.get(run_id)
        if run is None:
            raise UnknownRunError(run_id)
        return run

    async def stop(self, run_id: str) -> None:
        """End the run, forget it, and wait for its clean-up; `UnknownRunError` if there is none."""
        run = self.find(run_id)
        self._forget(run)
        await run.stop()
        self._forget(run)

    def statistics(self) -> RunsStatistics:
        """A look at what is going on."""
        known = self._live | set(self._found.values())
        clients = sum(run.statistics().readers for run in known)
        return RunsStatistics(live=len(self._live), kept=len(known) - len(self._live), clients=clients)

    async def aclose(self) -> None:
        """Stop all runs, forget all, and wait until nothing of them is left; no further run begins."""
        self._closed = True
        for run in tuple(self._live):
            run.dispose("The service is shutting down.")
        for run in tuple(self._live):
            await run.idle()
        for run in tuple(self._found.values()):
            self._forget(run)

    async def __aenter__(self) -> Self:
        self._closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- within -------------------------------------------------------------------------------------------------

    def _admit(self, run: LiveRun) -> None:
        # its response may be sent after the service was closed
        if self._closed:
            raise ServiceStoppingError
        if self.max_live is not None and len(self._live) >= self.max_live:
            raise TooManyRunsError(self.max_live)
        self._live.add(run)

    def _ended(self, run: LiveRun) -> None:
        if self._closed or run.on_disconnect is OnDisconnect.STOP:
            self._forget(run)
        elif run.id in self._found:
            loop = asyncio.get_running_loop()
            self._forgetting[run] = loop.call_later(self.keep_seconds, self._forget, run)
            if self.max_kept is not None and len(self._forgetting) > self.max_kept:
                self._forget(next(iter(self._forgetting)))

    def _forget(self, run: LiveRun) -> None:
        if self._found.get(run.id or "") is run:
            del self._found[run.id or ""]
        timer = self._forgetting.pop(run, None)
        if timer is not None:
            timer.cancel()
