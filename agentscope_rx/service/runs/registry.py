"""`Runs`: owns the runs of an application: finds them by id, keeps ended ones for a time, stops all at the end.

    async with Runs() as runs:                                   # in the application's lifespan
        sse_response(runs.add(agent.stream(text), on_disconnect="continue"))
        sse_response(runs.find(run_id), after=last_event_id(request))

A run can be found from its first event on. A run that stops with its last client is forgotten at its end; a run that
goes on is kept for `keep_seconds` after its end, or until `max_kept` others have ended after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from reactivex import Observable

from agentscope_rx.agent import Agent, RunHandle
from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import Event
from agentscope_rx.reactive import flow
from agentscope_rx.service.failure import ServiceStoppingError, TooManyRunsError, UnknownRunError
from agentscope_rx.service.runs.live_run import Default, LiveRun, OnDisconnect, OnDisconnectChoice

KEEP_SECONDS = 300.0
MAX_LIVE_RUNS = 100
MAX_KEPT_RUNS = 100


class RunsStatistics(NamedTuple):
    """The number of live runs (cleaning up included), of ended runs that are kept, and of clients."""

    live: int
    kept: int
    clients: int


class Runs:
    """The runs of one application, on one loop. Use it as an async context manager: leaving it stops them.

    At most `max_live` runs are live at once, clean-up included. The last `max_kept` ended runs are kept, for
    `keep_seconds`; a run that stops with its last client (`on_disconnect="stop"`, the default of `add`) is not kept.
    None is no limit.
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
        if type(keep_seconds) not in (int, float) or not keep_seconds >= 0:
            raise ConfigurationError(f"keep_seconds must be a number of at least 0, not {keep_seconds!r:.60}.")
        self.keep_seconds = keep_seconds
        self.max_live = max_live
        self.max_kept = max_kept
        self._live: set[LiveRun] = set()
        self._by_id: dict[str, LiveRun] = {}
        self._expiring: dict[LiveRun, asyncio.TimerHandle] = {}
        self._closed = False

    def add(
        self,
        events: Observable[Event] | RunHandle,
        *,
        on_disconnect: OnDisconnectChoice | Default = Default.STOP,
        capacity: int | None = None,
        max_bytes: int | None = None,
        agent: Agent | None = None,
        record: Callable[[Event], LoggedEvent] = LoggedEvent.of,
    ) -> LiveRun:
        """Add a run of these events. It begins when the first client follows it, and is owned here from then on.

        | argument | meaning |
        |---|---|
        | `on_disconnect` | when the last client leaves: "stop" (default), "continue", or seconds until it stops |
        | `capacity`, `max_bytes` | bounds of its log, in events and bytes |
        | `record` | what the log keeps of an event: see `LiveRun` |
        | `agent` | the agent, so that the run can be interrupted and take input |

        The handle of `agent.start()` has begun already, with a log, an agent and a lifetime of its own: give no other
        argument with it, or get a `ConfigurationError`. It counts as live, and is never refused. `ServiceStoppingError`
        after `aclose`. `TooManyRunsError` is raised when the run is first followed.
        """
        if self._closed:
            if not isinstance(events, RunHandle):
                flow(events).take_over()
            raise ServiceStoppingError
        run = LiveRun(
            events,
            on_disconnect=on_disconnect,
            capacity=capacity,
            max_bytes=max_bytes,
            agent=agent,
            admit=self._admit,
            record=record,
        )
        if run.handle is not None:
            self._live.add(run)
        run.begun.listen(lambda: self._by_id.setdefault(run.id or "", run))
        run.ended.listen(lambda: self._ended(run))
        run.gone.listen(lambda: self._live.discard(run))
        return run

    def find(self, run_id: str) -> LiveRun:
        """The run of this id; `UnknownRunError` if there is none, or it is no longer kept."""
        run = self._by_id.get(run_id)
        if run is None:
            raise UnknownRunError(run_id)
        return run

    def has(self, run_id: str) -> bool:
        """True if `find` would find it."""
        return run_id in self._by_id

    async def stop(self, run_id: str) -> None:
        """Stop and forget this run, and wait for its clean-up; `UnknownRunError` if there is none."""
        run = self.find(run_id)
        self._forget(run)
        await run.stop()
        self._forget(run)

    def statistics(self) -> RunsStatistics:
        """The numbers of runs and clients."""
        known = self._live | set(self._by_id.values())
        clients = sum(run.statistics().readers for run in known)
        return RunsStatistics(live=len(self._live), kept=len(known) - len(self._live), clients=clients)

    async def aclose(self) -> None:
        """Stop and forget all runs, and wait for their clean-up. No further run begins."""
        self._closed = True
        for run in tuple(self._live):
            run.dispose("The service is shutting down.")
        for run in tuple(self._live):
            await run.idle()
        for run in tuple(self._by_id.values()):
            self._forget(run)

    async def __aenter__(self) -> Self:
        self._closed = False
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- internals ----------------------------------------------------------------------------------------------

    def _admit(self, run: LiveRun) -> None:
        # the response of an added run may be sent after `aclose`
        if self._closed:
            raise ServiceStoppingError
        if self.max_live is not None and len(self._live) >= self.max_live:
            raise TooManyRunsError(self.max_live)
        self._live.add(run)

    def _ended(self, run: LiveRun) -> None:
        if self._closed or run.on_disconnect == OnDisconnect.STOP:
            self._forget(run)
        elif run.id in self._by_id:
            loop = asyncio.get_running_loop()
            self._expiring[run] = loop.call_later(self.keep_seconds, self._forget, run)
            if self.max_kept is not None and len(self._expiring) > self.max_kept:
                self._forget(next(iter(self._expiring)))

    def _forget(self, run: LiveRun) -> None:
        if self._by_id.get(run.id or "") is run:
            del self._by_id[run.id or ""]
        timer = self._expiring.pop(run, None)
        if timer is not None:
            timer.cancel()
