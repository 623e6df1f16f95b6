"""`ConversationRuns`: the live runs of stored conversations, and readers of a conversation from run to run.

runs of a conversation   --a1--a2--|      --b1--b2--b3--|
RunFeed                  --a1--a2-----------b1--b2--b3------   ends when it is closed
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.reactive.replay_log import LogStatistics
from agentscope_rx.service.runs.followed import EventReader, Followed
from agentscope_rx.service.runs.live_run import LiveRun


class ConversationRuns:
    """The live runs by the keys of their conversations."""

    __slots__ = ("_feeds", "_runs")

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}
        self._feeds: dict[str, set[RunFeed]] = {}

    def add(self, key: str, run: LiveRun) -> None:
        """A run of this conversation. It is found from its first event until its clean-up has ended."""

        def begin() -> None:
            self._runs[key] = run
            for feed in tuple(self._feeds.get(key, ())):
                feed.add(run)

        def end() -> None:
            if self._runs.get(key) is run:
                del self._runs[key]

        run.begun.listen(begin)
        run.gone.listen(end)

    def find(self, key: str) -> LiveRun | None:
        """The live run of this conversation."""
        return self._runs.get(key)

    def feed(self, key: str) -> RunFeed:
        """A reader of the events of the live run, and of the runs after it. Close it in the end.

        `EventsGoneError` if the live run has dropped its first events.
        """

        def forget() -> None:
            feeds = self._feeds[key]
            feeds.discard(feed)
            if not feeds:
                del self._feeds[key]

        feed = RunFeed(forget)
        self._feeds.setdefault(key, set()).add(feed)
        run = self.find(key)
        if run is not None:
            try:
                feed.add(run)
            except BaseException:
                forget()
                raise
        return feed


class RunFeed:
    """A reader of several runs, one behind the other. It slows each run from its first event on, as a client does."""

    __slots__ = ("_closed", "_ended", "_forget", "_runs", "_waiter")

    def __init__(self, forget: Callable[[], None]) -> None:
        self._forget = forget
        self._runs: deque[tuple[Followed, EventReader]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._closed = False

    def add(self, run: Followed) -> None:
        """Read this run, too."""
        self._runs.append((run, run.follow()))
        self._wake()

    def end(self) -> None:
        """End behind the runs that are there."""
        self._ended = True
        self._wake()

    def follow(self, after: int | None = None) -> RunFeed:
        """Itself: it has one reader."""
        return self

    def ended_at(self, after: int | None) -> bool:
        """False: further runs may come."""
        return False

    def statistics(self) -> LogStatistics:
        """Those of the run that it reads."""
        return self._runs[0][0].statistics() if self._runs else LogStatistics(0, 0, 0, 0, 0, 0, False)

    @property
    def waiting(self) -> int:
        """The number of events that can be read without waiting."""
        return self._runs[0][1].waiting if self._runs else 0

    async def wait(self) -> bool:
        """True when there is an event to read, False at the end. A run that fails ends with its `error` event."""
        while not self._closed:
            if self._runs:
                run, reader = self._runs[0]
                if await reader.wait():
                    return True
                if not self._closed:
                    self._runs.popleft()
                    await run.leave(reader)
            elif self._ended:
                return False
            else:
                self._waiter = asyncio.get_running_loop().create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
        return False

    def take(self) -> LoggedEvent:
        """The next event; `wait()` must have returned True."""
        return self._runs[0][1].take()

    async def leave(self, reader: object = None) -> None:
        """Close it. A run that this stops has been cleaned up when it returns."""
        self._closed = True
        self._forget()
        self._wake()
        while self._runs:
            run, reader = self._runs.popleft()
            await run.leave(reader)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
